"""Perfetto files parsed back: every block once, nothing overlaps on a track, arrows lead forward in time."""

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from wavesim import (
    CostModel,
    Pipeline,
    SemaphoreSync,
    StreamSync,
    TileSync,
    device,
    simulate,
    toy,
    zero_cost,
)
from wavesim.errors import DescriptionError
from wavesim.recordings.shipped import cases
from wavesim.view.perfetto import write_perfetto
from wavesim.workloads.mlps import gpt3_mlp

NS = 1000  # of a file's microsecond


@pytest.fixture(scope="module")
def case():
    return next(c for c in cases() if (c.tokens, c.tile, c.order) == (256, "128x256", "row"))


@pytest.fixture(scope="module")
def waiting():
    """A simulated pair whose consumers spin."""
    pipeline = gpt3_mlp(256, (128, 256))
    return simulate(
        pipeline, SemaphoreSync(TileSync()), device("h200"), CostModel({"gemm1": 9_000, "gemm2": 7_000})
    )


def written(tmp_path, *traces, name="trace.json", **options):
    path = write_perfetto(tmp_path / name, *traces, **options)
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    return json.loads(content)["traceEvents"]


def slices(events, category):
    return [event for event in events if event["ph"] == "X" and event["cat"] == category]


def span(event):
    """(start, end) in whole nanoseconds."""
    return round(event["ts"] * NS), round((event["ts"] + event["dur"]) * NS)


def tracks(events):
    found = defaultdict(list)
    for event in events:
        found[event["pid"], event["tid"]].append(event)
    return found


def names(events, kind):
    return {
        event["pid"]: event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == kind
    }


def test_simulated_and_measured_blocks_are_all_there_each_on_its_sm_and_slot(tmp_path, case, waiting):
    measured = case.trace("tile")
    events = written(tmp_path, waiting, measured)
    tiles = slices(events, "tile")
    assert len(tiles) == len(waiting) + len(measured)
    processes = names(events, "process_name")
    for trace, word in ((waiting, "simulated"), (measured, "measured")):
        expected = Counter(
            (f"{word}, tile semaphores: SM {sm}", slot) for sm, slot in zip(trace.sm, trace.slot, strict=True)
        )
        mine = [tile for tile in tiles if processes[tile["pid"]].startswith(word)]
        assert Counter((processes[tile["pid"]], tile["tid"]) for tile in mine) == expected
        assert {span(tile) for tile in mine} == set(zip(*times(trace), strict=True))


def times(trace):
    origin = trace.issue_ns.min()
    return (trace.start_ns - origin).tolist(), (trace.end_ns - origin).tolist()


def test_no_two_tiles_overlap_on_a_track_and_each_wait_lies_within_one(tmp_path, case, waiting):
    for trace in (waiting, case.trace("row"), case.trace("tile"), case.trace("stream")):
        events = written(tmp_path, trace)
        on_track = tracks(slices(events, "tile"))
        for tiles in on_track.values():
            spans = sorted(map(span, tiles))
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        for place, waits in tracks(slices(events, "wait")).items():
            spans = sorted(map(span, waits))
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
            for start, end in spans:
                assert any(a <= start and end <= b for a, b in map(span, on_track[place]))


def test_each_consumer_has_one_arrow_from_a_tile_it_reads_and_none_leads_back_in_time(
    tmp_path, case, waiting
):
    for trace in (waiting, case.trace("row")):
        events = written(tmp_path, trace)
        starts = {event["id"]: event for event in events if event["ph"] == "s"}
        ends = {event["id"]: event for event in events if event["ph"] == "f"}
        assert starts.keys() == ends.keys()
        assert len(ends) == (trace.stage == 1).sum()
        on_track = tracks(slices(events, "tile"))
        for name, end in ends.items():
            start = starts[name]
            assert start["ts"] <= end["ts"]
            assert end["bp"] == "e"
            source, target = holder(on_track, start), holder(on_track, end)
            assert (source["args"]["stage"], target["args"]["stage"]) == ("gemm1", "gemm2")
            assert source["args"]["y"] == target["args"]["y"]


def holder(on_track, flow):
    """The one tile whose slice holds a flow event."""
    at = flow["ts"] * NS
    (tile,) = [tile for tile in on_track[flow["pid"], flow["tid"]] if span(tile)[0] <= at < span(tile)[1]]
    return tile


def test_a_pipeline_of_ones_own_gives_arrows_too(tmp_path):
    known = gpt3_mlp(512, (128, 128))
    mine = Pipeline("mine", known.stages, known.dependencies)
    trace = simulate(mine, StreamSync(), device("h200"), zero_cost(mine, 1_000))
    assert not [event for event in written(tmp_path, trace) if event["ph"] == "s"]
    arrows = [event for event in written(tmp_path, trace, pipeline=mine) if event["ph"] == "s"]
    assert len(arrows) == mine.stages[1].grid.size


def test_a_packed_file_holds_the_same(tmp_path, waiting):
    assert written(tmp_path, waiting) == written(tmp_path, waiting, name="trace.json.gz")


def test_what_cannot_be_written_is_refused_in_words(tmp_path, waiting):
    with pytest.raises(DescriptionError, match="no traces"):
        write_perfetto(tmp_path / "none.json")
    with pytest.raises(DescriptionError, match=r"'trace\.pb'; its ending must be \.json or"):
        write_perfetto(tmp_path / "trace.pb", waiting)
    with pytest.raises(DescriptionError, match="other stages or grids"):
        write_perfetto(tmp_path / "other.json", waiting, pipeline=toy())
