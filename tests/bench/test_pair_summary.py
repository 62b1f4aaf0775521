"""The summary of measured pairs that ships with the package: made from a results file, and not stale."""

import json
from pathlib import Path

from wavesim.bench.gpu_results import GpuResults, load_results
from wavesim.bench.pair_summary import summary_of, write_pair_summary
from wavesim.bench.speedups import PAIRS
from wavesim.errors import RecordingError
from wavesim.recordings.measured_pairs import measured_pairs_from

RESULTS = Path(__file__).parents[2] / "gpu" / "results"


def case(name: str, micros: int, **more) -> dict[str, object]:
    good = {"verdict": {"is_good": True}, "is_final": True, "workload": "gpt3-mlp", "tokens": 1024}
    return {"name": name, "rounds_ns": [micros * 1000] * 3} | good | more


def results_of(folder: Path, *found: dict[str, object]) -> GpuResults:
    document = {"device": {"name": "NVIDIA H200"}, "date": "2026-11-21T00:00:00", "cases": list(found)}
    document |= {"versions": {}, "commit": "c", "kernels": "hopper", "kernel_sources": "0"}
    (folder / "results.json").write_text(json.dumps(document))
    return load_results(folder / "results.json")


def newest_with_pairs() -> GpuResults:
    for path in sorted(RESULTS.glob("*.json*"), reverse=True):
        try:
            results = load_results(path)
        except RecordingError:  # of an older version of the benchmark
            continue
        if any(map(results.of, PAIRS)):
            return results
    raise AssertionError(f"{RESULTS}: no file has measured pairs")


def test_wrong_preliminary_and_generated_candidates_are_left_out(tmp_path: Path):
    results = results_of(
        tmp_path,
        case("stream", 500),
        case("row", 450, roles=["tuned"]),
        case("pdl", 1, verdict={"is_good": False}),
        case("tile", 1, is_final=False),
        case("block:2x1", 1),
    )
    assert summary_of(results).median_ns["gpt3-mlp"] == {1024: {"stream": 500_000, "row": 450_000}}


def test_what_is_written_is_read_back(tmp_path: Path):
    results = results_of(tmp_path, case("stream", 500))
    (path,) = write_pair_summary(results, tmp_path / "pairs.json")
    assert measured_pairs_from(path) == summary_of(results)


def test_a_run_without_pairs_leaves_the_summary_as_it_is(tmp_path: Path):
    results = results_of(tmp_path, case("copy", 500, workload="limit"))
    assert write_pair_summary(results, tmp_path / "pairs.json") == []
    assert not (tmp_path / "pairs.json").exists()


def test_the_committed_summary_is_of_the_newest_results_with_pairs():
    newest = newest_with_pairs()
    assert measured_pairs_from() == summary_of(newest), "write it anew: make results"
