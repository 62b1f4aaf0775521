"""The drawn widgets without a browser: their data, what they refuse, their published form."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from IPython.core.interactiveshell import InteractiveShell

from wavesim import (
    DescriptionError,
    SemaphoreSync,
    StreamSync,
    TileSync,
    compare,
    device,
    gpt3_mlp,
    simulate,
    toy,
    tune,
    zero_cost,
)
from wavesim.errors import RecordingError
from wavesim.predict.recommendation import verdict_on
from wavesim.recordings.shipped import cases
from wavesim.widgets import ComparisonView, DependencyExplorer, OccupancyExplorer, TunerView, WavePlayer
from wavesim.widgets.static import show_static
from wavesim.widgets.tuner_view import TunedPoint


def toy_trace(plan):
    return simulate(toy(), plan, device("toy"), zero_cost(toy(), 1_000))


# --- wave player ---


def test_a_pipeline_is_simulated_as_the_trace_would_be():
    trace = toy_trace(SemaphoreSync(TileSync()))
    mine = WavePlayer(toy(), SemaphoreSync(TileSync()), device("toy"))
    assert mine.scene == WavePlayer(trace).scene


# --- dependency explorer ---


def test_the_explorer_begins_at_the_tile_that_is_asked_for():
    assert DependencyExplorer(toy()).chosen == [1, 0, 1]
    assert DependencyExplorer(toy(), stage="gemm1", tile=(1, 2)).chosen == [0, 1, 2]
    with pytest.raises(DescriptionError, match=r"tile is \(2, 0\); gemm1 has tiles \(0, 0\) to \(1, 2\)"):
        DependencyExplorer(toy(), stage="gemm1", tile=(2, 0))


# --- occupancy explorer ---


def test_more_shared_memory_than_an_sm_has_says_why_and_keeps_the_picture():
    explorer = OccupancyExplorer()
    before = explorer.picture.scene
    explorer.shared_kib.value = 240
    assert "allows a block at most 232448 bytes" in explorer.problem.value
    assert "still shows the last setting that ran: 256 threads, 64 registers" in explorer.problem.value
    assert explorer.picture.scene == before
    assert "wavesim-stale" in explorer._parts[1]._dom_classes
    explorer.shared_kib.value = 100
    assert explorer.problem.value == ""
    assert "wavesim-stale" not in explorer._parts[1]._dom_classes


def test_a_device_brings_its_own_carveouts():
    explorer = OccupancyExplorer(carveout_kib=100)
    assert explorer.launch.carveout_bytes == 100 * 1024
    explorer.device.value = "t4"
    assert explorer.launch.carveout_bytes is None
    assert [label for label, _ in explorer.carveout.options] == ["the largest", "32 KiB", "64 KiB"]


# --- tuner view ---


@pytest.mark.slow
def test_recorded_gains_are_those_of_the_recordings_and_a_click_shows_their_traces():
    view = TunerView.recorded()
    chosen = next(i for i, p in enumerate(view.points) if (p.tokens, p.gain.plan) == (1024, "row semaphores"))
    view.chart.chosen = chosen
    case = next(c for c in cases() if (c.tokens, c.tile, c.order) == (1024, "128x256", "row"))
    assert view.point.traces() == (case.trace("stream"), case.trace("row"))
    assert "1024 tokens" in view.picture.scene["subtitle"]
    assert view.point.gain.low <= view.point.gain.measured <= view.point.gain.high
    assert "measured on NVIDIA H200" in view.chart.scene["subtitle"]


@pytest.mark.slow
def test_tunings_become_the_best_plan_of_each_policy():
    h200 = device("h200")
    with ThreadPoolExecutor(1) as pool:
        tunings = {m: tune(gpt3_mlp(m, (128, 256)), h200, executor=pool) for m in (256, 512)}
    view = TunerView.tuned(tunings, h200)
    assert [point.tokens for point in view.points[:2]] == [256, 512]
    for point in view.points:
        rows = [row for row in tunings[point.tokens].plans if row.name == point.name]
        assert point.gain.predicted == rows[0].improvement_points
    best = max(view.points, key=lambda point: point.gain.predicted)
    assert view.point.tokens == best.tokens
    run = verdict_on(gpt3_mlp(best.tokens, (128, 256)), h200).best
    assert view.chart.scene["subtitle"].endswith(f"at {best.tokens:,} tokens run {run}")
    stream, trace = best.traces()
    assert trace.time_ns == next(r for r in tunings[best.tokens].plans if r.name == best.name).predicted_ns
    assert 100 * (1 - trace.time_ns / stream.time_ns) == pytest.approx(best.gain.predicted)


@pytest.mark.slow
def test_a_point_whose_traces_cannot_be_made_says_why_and_keeps_the_picture():
    def broken():
        raise RecordingError("gone.npz: no such file")

    good = TunerView.recorded().points[:2]
    view = TunerView([*good, TunedPoint(9_999, good[0].gain, "gone", broken)], "a test")
    before = view.picture.scene
    view.chart.chosen = 2
    assert "gone.npz: no such file" in view.problem.value
    assert view.picture.scene == before


def test_nothing_to_show_is_refused():
    with pytest.raises(DescriptionError, match="points is empty"):
        TunerView([], "nothing")
    with pytest.raises(DescriptionError, match="tunings is empty"):
        TunerView.tuned({}, device("h200"))
    with pytest.raises(DescriptionError, match="no recording of"):
        TunerView.recorded(tile="64x64")
    with pytest.raises(DescriptionError, match="nothing was measured"):
        ComparisonView(compare(toy(), [SemaphoreSync()], device("toy")))


# --- comparison view ---


def test_a_comparison_is_shown_run_by_run():
    view = ComparisonView(compare(gpt3_mlp(256, (128, 256)), [SemaphoreSync()], device("h200")))
    assert [label for label, _ in view.choice.options] == ["Stream sync", "Row semaphores"]
    view.choice.value = 1
    title = view.picture.scene["title"]
    assert title.startswith("Row semaphores: predicted")
    assert "largest reason" in title


def test_recorded_runs_are_there_in_every_size_and_plan():
    view = ComparisonView.recorded()
    assert len(view.choice.options) == 3 * len({c.tokens for c in cases() if c.tile == "128x256"})
    first = view.pictures[1].scene
    view.choice.value = 5
    assert len(view.pictures[1].scene["strips"]) == len(first["strips"]) == 3
    assert view.pictures[1].scene["total"] != first["total"]


# --- published notebooks ---


def test_a_published_notebook_shows_pictures_in_place_of_widgets(monkeypatch):
    shell = InteractiveShell.instance()
    try:
        show_static()
        formatter = shell.display_formatter
        for widget in (WavePlayer(toy_trace(StreamSync())), OccupancyExplorer(), DependencyExplorer(toy())):
            data, _ = formatter.format(widget)
            assert "application/vnd.jupyter.widget-view+json" not in data
            assert "new PageModel(" in data["text/html"]
    finally:
        InteractiveShell.clear_instance()
