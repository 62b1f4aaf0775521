"""What the notebooks are made of: predictions that lock, litmus tests, held-back tiles, clocks, tables."""

import json
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from wavesim import DescriptionError, SemaphoreSync, StreamSync, TileSync, device, simulate, toy, zero_cost
from wavesim.errors import RecordingError
from wavesim.model.kernel import DEFAULT_GEMM_BLOCK
from wavesim.model.occupancy import occupancy_of
from wavesim.recordings.published_rows import published_runs
from wavesim.recordings.shipped import cases
from wavesim.teaching import Prediction
from wavesim.teaching.clock import gain_by_clock, mean_ghz
from wavesim.teaching.hopper_pairs import measured_pairs
from wavesim.teaching.litmus import (
    Litmus,
    fence,
    guide_test,
    load,
    may_pass,
    post,
    semaphore_test,
    store,
    wait,
)
from wavesim.teaching.litmus_explorer import LitmusExplorer, litmus_table
from wavesim.teaching.paper_tables import table, wave_counts
from wavesim.teaching.published_gains import held_out, median_error, published_gain, published_rows
from wavesim.teaching.published_view import PublishedView
from wavesim.teaching.readiness import readiness_of, readiness_picture
from wavesim.teaching.rival_plans import rivals, split_in_k
from wavesim.teaching.wave_steps import one_kernel, staircase
from wavesim.workloads.gpt3 import gpt3_mlp

TOY, FOUR_SMS = toy(), device("toy")
OLD_WITH_NEW = (("A", 1), ("B", 20))


def thread_orders(operations):
    """Every order in which a thread may perform its operations, found by trying all permutations."""
    for order in permutations(range(len(operations))):
        pairs = [(i, j) for j in range(len(operations)) for i in range(j)]
        if all(order.index(i) < order.index(j) or may_pass(operations[i], operations[j]) for i, j in pairs):
            yield [operations[index] for index in order]


def interleavings(left, right):
    if not left or not right:
        yield [*left, *right]
        return
    yield from ([left[0], *rest] for rest in interleavings(left[1:], right))
    yield from ([right[0], *rest] for rest in interleavings(left, right[1:]))


def outcome_of(test, history):
    memory, registers = dict(test.memory), {}
    for operation in history:
        if operation.kind == "store":
            memory[operation.variable] = operation.value
        if operation.kind == "load":
            registers[operation.register] = memory[operation.variable]
    return tuple(sorted(registers.items()))


def run_toy(plan):
    return simulate(TOY, plan, FOUR_SMS, zero_cost(TOY, 1000))


class TestPrediction:
    def test_a_committed_prediction_is_locked(self):
        asked = Prediction("waves", "points")
        asked.commit(4, 2.5)
        assert asked.committed == (4.0, 2.5)
        assert all(field.disabled for field in asked.fields)
        assert asked.button.disabled
        with pytest.raises(DescriptionError, match="already committed"):
            asked.commit(3, 3)
        assert asked.committed == (4.0, 2.5)

    def test_the_button_commits_what_the_fields_say_and_says_what_is_missing(self):
        asked = Prediction("waves")
        asked.button.click()
        assert asked.committed is None
        assert "a number in every field" in asked.words.value
        asked.fields[0].value = "3.5"
        asked.button.click()
        assert asked.committed == (3.5,)

    def test_what_was_said_stands_beside_what_is_so(self):
        asked = Prediction("waves", "points")
        asked.commit(4, 10)
        shown = asked.reveal(4, 12, within=1)
        assert [shown.is_right(0), shown.is_right(1)] == [True, False]
        assert repr(shown) == "waves: you said 4, it is 4\npoints: you said 10, it is 12"
        assert asked.reveal(4, 11, within=1).is_right(1)

    def test_without_a_commitment_the_truth_is_shown_and_nothing_is_right(self):
        shown = Prediction("waves").reveal(4)
        assert "you said nothing, it is 4" in repr(shown)
        assert not shown.is_right(0)
        assert "nothing yet" in shown._repr_html_()

    def test_a_choice_takes_one_of_its_words_only(self):
        asked = Prediction("they", choices=["spin", "are done"])
        with pytest.raises(DescriptionError, match="choose one of"):
            asked.commit("sleep")
        asked.fields[0].value = "spin"
        asked.button.click()
        assert asked.reveal("spin").is_right(0)
        assert not asked.reveal("are done").is_right(0)
        with pytest.raises(DescriptionError, match="none of the choices"):
            asked.reveal("sleep")

    def test_questions_and_values_must_match(self):
        with pytest.raises(DescriptionError, match="0 questions"):
            Prediction()
        with pytest.raises(DescriptionError, match="2 questions with 2 choices"):
            Prediction("a", "b", choices=["x", "y"])
        with pytest.raises(DescriptionError, match="1 values for 2"):
            Prediction("a", "b").commit(1)
        with pytest.raises(DescriptionError, match="2 truths for 1"):
            Prediction("a").reveal(1, 2)

    def test_a_page_without_a_kernel_gets_the_questions_as_text(self):
        bundle = Prediction("are 3 < 4 waves?")._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        assert "are 3 &lt; 4 waves?" in data["text/html"]


class TestLitmus:
    def test_interleaving_alone_never_shows_new_y_with_old_x(self):
        found = guide_test().outcomes(reorder=False)
        assert list(found) == [(("A", 1), ("B", 2)), (("A", 10), ("B", 2)), (("A", 10), ("B", 20))]

    def test_every_interleaving_is_listed_once_under_its_outcome(self):
        test = guide_test()
        accesses = [[f"{name}: {op}" for op in operations] for name, operations in test.threads.items()]
        listed = [order for orders in test.orders(reorder=False).values() for order in orders]
        assert sorted(listed) == sorted(tuple(order) for order in interleavings(*accesses))
        for outcome, orders in test.orders().items():
            assert len(orders) == 6, outcome

    def test_fences_are_no_accesses_and_halve_the_orders(self):
        fenced = (guide_test(writer_fence=True), guide_test(writer_fence=True, reader_fence=True))
        for test, count in zip(fenced, (12, 6), strict=True):
            listed = [order for orders in test.orders().values() for order in orders]
            assert len(listed) == len(set(listed)) == count
            assert all(len(order) == 4 for order in listed)
            assert list(test.orders()) == list(test.outcomes())

    def test_orders_of_a_long_test_are_not_listed(self):
        stores = {name: [store("X", 1)] * 5 for name in "ab"}
        with pytest.raises(DescriptionError, match="10 operations; orders are listed of at most 8"):
            Litmus(stores, {"X": 0}).orders()

    @pytest.mark.parametrize("writer_fence", [False, True])
    @pytest.mark.parametrize("reader_fence", [False, True])
    def test_only_both_fences_together_forbid_it(self, writer_fence, reader_fence):
        found = guide_test(writer_fence=writer_fence, reader_fence=reader_fence).outcomes()
        assert (OLD_WITH_NEW in found) == (not (writer_fence and reader_fence))
        assert len(found) == 4 - (writer_fence and reader_fence)

    @pytest.mark.parametrize("release", [False, True])
    @pytest.mark.parametrize("acquire", [False, True])
    def test_only_release_and_acquire_together_hand_the_tile_over(self, release, acquire):
        found = semaphore_test(release=release, acquire=acquire).outcomes()
        assert ((("read", 0),) in found) == (not (release and acquire))
        assert (("read", 42),) in found

    def test_an_outcome_comes_with_an_order_that_leads_to_it(self):
        for outcome, history in guide_test().outcomes().items():
            memory, registers = {"X": 1, "Y": 2}, {}
            for step in history:
                target, value = step.split(": ")[1].split(" = ")
                if value in memory:
                    registers[target] = memory[value]
                else:
                    memory[target] = int(value)
            assert tuple(sorted(registers.items())) == outcome

    def test_an_outcome_that_interleaving_has_is_shown_in_program_order(self):
        plain = guide_test().outcomes(reorder=False)
        assert {outcome: guide_test().outcomes()[outcome] for outcome in plain} == plain

    def test_what_may_pass_what(self):
        data, other = store("tile", 1), load("r", "flag")
        assert may_pass(data, other)
        assert not may_pass(data, load("r", "tile"))
        assert not may_pass(data, fence())
        assert not may_pass(fence(), other)
        assert not may_pass(data, post("s", release=True))
        assert may_pass(post("s", release=True), other)
        assert not may_pass(wait("s", 1, acquire=True), other)
        assert may_pass(data, wait("s", 1, acquire=True))

    @pytest.mark.parametrize("writer_fence", [False, True])
    def test_the_outcomes_agree_with_trying_all_permutations(self, writer_fence):
        test = guide_test(writer_fence=writer_fence)
        first, second = (list(thread_orders(operations)) for operations in test.threads.values())
        histories = (h for ours, theirs in product(first, second) for h in interleavings(ours, theirs))
        assert {outcome_of(test, history) for history in histories} == set(test.outcomes())

    def test_a_wait_for_posts_that_never_come_has_no_outcome(self):
        test = Litmus({"consumer": [wait("s", 1, acquire=True), load("r", "t")]}, {"s": 0, "t": 0})
        assert test.outcomes() == {}

    def test_bad_tests_are_refused(self):
        with pytest.raises(DescriptionError, match="at most 12"):
            Litmus({"a": [fence()] * 13}, {})
        with pytest.raises(DescriptionError, match="not in"):
            Litmus({"a": [store("z", 1)]}, {"x": 0})
        with pytest.raises(DescriptionError, match="give every load its own"):
            Litmus({"a": [load("r", "x"), load("r", "x")]}, {"x": 0})

    def test_the_explorer_follows_its_switches(self):
        explorer = LitmusExplorer()
        assert explorer.table.value.count("impossible") == 1
        explorer.reorder.value = True
        assert "impossible" not in explorer.table.value
        explorer.first.value = explorer.second.value = True
        assert explorer.table.value.count("impossible") == 1
        explorer.test.value = "semaphore"
        assert "post is a release" in explorer.first.description
        assert litmus_table(semaphore_test()).count("● possible") == 2


class TestReadiness:
    def test_on_one_stream_ready_tiles_are_held_back_until_the_producer_ends(self):
        found = readiness_of(TOY, run_toy(StreamSync()))
        assert found.consumer == "gemm2"
        assert sorted(found.ready_ns) == [1000, 1000, 1000, 1000, 2000, 2000]
        assert (
            sorted(found.held_back_ns) == [0, 0, 1000, 1000, 1000, 1000] or found.held_back_ns.sum() == 6000
        )
        assert found.ready_at(1000) == 4

    def test_with_semaphores_nothing_that_fits_is_held_back(self):
        before = readiness_of(TOY, run_toy(StreamSync())).held_back_ns.sum()
        assert readiness_of(TOY, run_toy(SemaphoreSync(TileSync()))).held_back_ns.sum() < before

    def test_a_stage_that_needs_nothing_is_refused(self):
        with pytest.raises(DescriptionError, match="needs nothing"):
            readiness_of(TOY, run_toy(StreamSync()), "gemm1")

    def test_the_picture_ends_with_all_tiles_ready_and_started(self):
        figure = readiness_picture(TOY, run_toy(StreamSync()))
        assert [int(series.y[-1]) for series in figure.data] == [6, 6]
        assert [int(series.y[0]) for series in figure.data] == [0, 0]


class TestStaircase:
    def test_the_133rd_block_doubles_the_time(self):
        h200 = device("h200")
        times = [one_kernel(n, h200, DEFAULT_GEMM_BLOCK, 1000).makespan_ns for n in (132, 133, 264, 265)]
        assert times == [1000, 2000, 2000, 3000]

    def test_the_figure_has_the_steps_and_the_line_of_the_work_alone(self):
        figure = staircase([66, 132, 133], device("h200"), DEFAULT_GEMM_BLOCK)
        np.testing.assert_allclose(figure.data[0].y, [1, 1, 2])
        np.testing.assert_allclose(figure.data[1].y, [0.5, 1, 133 / 132], rtol=1e-6)


class TestClock:
    def test_the_parts_add_up_and_a_faster_clock_counts_as_clock(self):
        case = next(c for c in cases() if (c.tile, c.tokens, c.order) == ("128x256", 768, "grouped:8"))
        gain = gain_by_clock(case.trace("row"), case.trace("stream"))
        assert gain.time_points == pytest.approx(gain.cycle_points + gain.clock_points)
        assert gain.clock_points > 1
        assert gain.plan_ghz > gain.stream_ghz

    def test_a_trace_at_twice_the_clock_gains_nothing_in_cycles(self):
        case = next(c for c in cases() if c.tile == "128x256")
        stream = case.trace("stream")
        half = {name: getattr(stream, name) // 2 for name in ("issue_ns", "start_ns", "wait_ns", "end_ns")}
        gain = gain_by_clock(replace(stream, **half), stream)
        assert gain.time_points == pytest.approx(50, abs=0.01)
        assert gain.cycle_points == pytest.approx(0, abs=0.1)

    def test_a_simulated_trace_has_no_clock(self):
        with pytest.raises(RecordingError, match="holds no cycles"):
            mean_ghz(run_toy(StreamSync()))


class TestPaper:
    def test_table_iv_contradicts_its_own_grids_in_three_rows(self):
        found = {
            row.rows: (row.stream, round(row.cusync, 2)) for row in wave_counts() if not row.is_consistent
        }
        assert found == {"1-64": (2, 1.5), "512": (4, 2.4), "1024": (6, 4.8)}

    def test_the_slots_are_those_of_the_published_kernels(self):
        slots = {row.rows: row.slots for row in wave_counts()}
        for run in published_runs("mlp"):
            if run.case.startswith("V100 gpt3") and str(run.size) in slots and run.is_same_configuration:
                fits = min(
                    occupancy_of(run.device, stage.kernel.block).blocks_per_sm
                    for stage in run.pipeline.stages
                )
                assert 80 * fits == slots[str(run.size)], run.case

    def test_the_tables_are_whole(self):
        assert [len(table(number)) for number in (1, 4, 5)] == [6, 6, 6]
        with pytest.raises(FileNotFoundError):
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
        assert "on V100" not in view.timelines.scene["subtitle"]
        assert view.words.value in view.html()

    def test_the_words_lead_from_the_timelines_to_the_predicted_number(self):
        view = PublishedView()
        for index, one in enumerate(view.points):
            view.chart.chosen = index
            stream, trace = one.traces()
            found = view.prediction
            assert found.points_at_one_clock == pytest.approx(100 * (1 - trace.time_ns / stream.time_ns))
            assert found.points == one.gain.predicted
            assert abs(found.points) <= abs(found.points_at_one_clock)
            assert f"{found.row.size:,} rows, {found.row.policy} semaphores" in view.words.value


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

    def test_a_size_without_its_baseline_is_not_shown(self, tmp_path):
        assert len(measured_pairs(self.summary(tmp_path, row=450)).titles) == 1

    def test_a_damaged_summary_is_named(self, tmp_path):
        (tmp_path / "old.json").write_text("[]")
        with pytest.raises(RecordingError, match=r"old\.json: not a summary of measured pairs"):
            measured_pairs(tmp_path / "old.json")

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

    def test_split_k_has_the_same_dependency_on_twice_the_blocks(self):
        whole, halves = gpt3_mlp(1024), split_in_k(gpt3_mlp(1024), 2)
        assert [stage.grid.size for stage in halves.stages] == [2 * s.grid.size for s in whole.stages]
        assert halves.dependencies[0].producer_tiles(3, 5) == whole.dependencies[0].producer_tiles(3, 5)
