"""Published tables and gains, the Hopper kernels' recorded pairs, and the plans of notebook 9."""

import json

import pytest

from wavesim.errors import DescriptionError
from wavesim.teaching.paper_tables import table, wave_counts
from wavesim.teaching.published_view import (
    PublishedView,
    held_out,
    median_error,
    published_gain,
    published_rows,
)
from wavesim.teaching.rival_plans import measured_pairs, rivals
from wavesim.workloads.mlps import gpt3_mlp


class TestPaper:
    def test_table_iv_contradicts_its_own_grids_in_three_rows(self):
        found = {
            row.rows: (row.stream, round(row.cusync, 2)) for row in wave_counts() if not row.is_consistent
        }
        assert found == {"1-64": (2, 1.5), "512": (4, 2.4), "1024": (6, 4.8)}

    def test_the_tables_are_whole(self):
        assert [len(table(number)) for number in (1, 4, 5)] == [6, 6, 6]
        with pytest.raises(DescriptionError, match="table is 2; there are 1, 4, 5"):
            table(2)

    def test_constants_help_on_rows_they_were_not_fitted_to(self):
        rows = held_out(published_rows("V100", "gpt3"))
        assert rows
        assert not [row for row in rows if row.beats_work_conservation]
        with_them = median_error([published_gain(row) for row in rows])
        assert with_them < median_error([published_gain(row, has_constants=False) for row in rows])

    @pytest.mark.slow
    def test_a_choice_and_a_switch_draw_other_predictions_beside_the_same_published_numbers(self):
        view = PublishedView()
        before = view.chart.scene
        assert view.prediction.row.size == 1024  # the largest published gain
        unseen = [published_gain(row) for row in held_out(published_rows("V100", "gpt3"))]
        assert f"{median_error(unseen):.1f} points off on 8 unseen rows" in before["title"]
        assert f"Predicted {view.prediction.points:+.1f}, published +24.2." in view.words.value
        view.constants.value = False
        after = view.chart.scene
        assert [p["measured"] for p in after["points"]] == [p["measured"] for p in before["points"]]
        assert [p["predicted"] for p in after["points"]] != [p["predicted"] for p in before["points"]]
        assert view.prediction.row.size == 1024
        assert f"Predicted {after['points'][view.chart.chosen]['predicted']:+.1f}," in view.words.value
        view.choice.value = "A100, LLaMA's MLP"
        assert [p["size"] for p in view.chart.scene["points"]] == [0, 0]
        assert "on V100" not in view.picture.scene["subtitle"]
        assert view.words.value in view.html()


class TestHopperPairs:
    @staticmethod
    def summary(folder, **times):
        path = folder / "pairs.json"
        found = {name: micros * 1000 for name, micros in times.items()}
        document = {"file": "f.json", "device": "NVIDIA H200", "date": "2026-11-21T00:00:00", "commit": "c"}
        document |= {"kernels": "hopper", "median_ns": {"gpt3-mlp": {"1024": found, "7": found}}}
        path.write_text(json.dumps(document))
        return path

    def test_each_candidate_is_shown_beside_stream_sync(self, tmp_path):
        shown = measured_pairs(self.summary(tmp_path, stream=500, row=450))
        assert shown.titles == (
            "NVIDIA H200, 2026-11-21, measured: µs (points over stream sync)",
            "1,024 tokens",
        )
        rows = {row[0]: row[1] for row in shown.cells}
        assert rows["Persistent kernels, stream sync"] == "500"
        assert rows["Row semaphores"] == "450 (+10.0)"
        assert rows["cuBLASLt"] == "-"

    def test_the_summary_that_ships_has_every_candidate(self):
        assert not [row for row in measured_pairs().cells if "-" in row]


class TestRivals:
    def test_all_plans_compute_the_same_work(self):
        found = rivals(1024)
        pipeline = gpt3_mlp(1024)
        tiles = {stage.name: stage.grid.tiles for stage in pipeline.stages}
        for rival in found:
            for index, info in enumerate(rival.trace.header.stages):
                rows = rival.trace.stage == index
                done = set(zip(rival.trace.x[rows].tolist(), rival.trace.y[rows].tolist(), strict=True))
                assert len(done) == tiles[info.name], (rival.label, info.name)

    def test_only_recorded_plans_have_a_measured_gain(self):
        found = {rival.label: rival.measured_points for rival in rivals(1024)}
        assert {label for label, points in found.items() if points is not None} == {
            "Row semaphores",
            "Tile semaphores",
        }
