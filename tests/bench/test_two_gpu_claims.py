"""What is claimed of the operator over two GPUs is what the committed rows of its list say."""

from math import prod
from pathlib import Path
from statistics import median

import pytest

from wavesim.bench.case_list import load_list
from wavesim.bench.claims import load_claims
from wavesim.bench.results import merged

ROWS = sorted((Path(__file__).parents[2] / "gpu" / "results" / "two_gpus").glob("2026-11-28-*.jsonl"))
CLAIMS = {claim.name.removeprefix("two_gpus."): claim.value for claim in load_claims()}
LARGE = 1_024  # rows
HEADER, MEASURED = merged(ROWS)


def speedups(kind: str, mode: str, *, over_library: bool = False, least_rows: int = 0) -> list[float]:
    """Times as fast as the best other way, or as the library's sequence, of each shape."""
    times: dict[str, dict[str, float]] = {}
    for row in MEASURED:
        way, its_mode = row.way.split(", ")
        if row.order == kind and its_mode == mode:
            times.setdefault(row.case, {})[way] = median(row.ns)
    large = [ways for case, ways in times.items() if int(case.split()[1].split("x")[0]) >= least_rows]
    rivals = [{"sequence"} if over_library else set(ways) - {"operator"} for ways in large]
    return [
        min(map(ways.__getitem__, named)) / ways["operator"]
        for ways, named in zip(large, rivals, strict=True)
    ]


def geomean(values: list[float]) -> float:
    return prod(values) ** (1 / len(values))


def test_the_rows_are_of_the_list_that_ships_on_two_h200s_and_all_are_right():
    assert HEADER["list_sha256"] == load_list("two-gpus-third").sha256
    assert HEADER["device"]["name"] == "NVIDIA H200"
    assert len({row.case for row in MEASURED}) == 28
    assert all(row.correct for row in MEASURED)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "operator_graph_vs_nccl_geomean",
            geomean(speedups("all-reduce", "graph", over_library=True, least_rows=LARGE)),
        ),
        (
            "operator_graph_vs_best_library_geomean",
            geomean(speedups("all-reduce", "graph", least_rows=LARGE)),
        ),
        ("operator_graph_vs_best_library_min", min(speedups("all-reduce", "graph"))),
        (
            "operator_eager_vs_best_library_geomean",
            geomean(speedups("all-reduce", "eager", least_rows=LARGE)),
        ),
        ("operator_eager_vs_best_library_min", min(speedups("all-reduce", "eager"))),
        ("reduce_scatter_vs_best_library_geomean", geomean(speedups("reduce-scatter", "graph"))),
    ],
)
def test_a_claim_is_what_the_rows_give(name, value):
    assert round(value, 3) == CLAIMS[name]
