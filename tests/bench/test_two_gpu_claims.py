"""What is claimed of the operator over two GPUs is what the committed rows say; so are the tables."""

from math import prod
from pathlib import Path
from statistics import median

import pytest

from wavesim.bench.case_list import load_list
from wavesim.bench.claims import load_claims
from wavesim.bench.registration import registered
from wavesim.bench.results import read

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "gpu" / "results" / "two_gpus", ROOT / "docs" / "records" / "two-gpus.md"
LARGE, LONG, MOST = 1_024, 2_048, 2**30  # rows; tokens of a prompt
DEVICES = {"two_gpus": ("NVIDIA H200", "h200"), "two_gpus_h100": ("NVIDIA H100 80GB HBM3", "h100")}
# 2.03 % of the largest output from the same model with other GEMMs, where 2 % are tolerated: not timed.
ROUNDED = {("llama-3-8b, 8 steps at 512 keys", "parallelize, graph")}
CLAIMS = {claim.name: claim.value for claim in load_claims()}


def rows_of(name, device):
    """Headers and rows of a list on a pair of that device; none where it was not measured."""
    files = [read(path) for path in sorted(RESULTS.rglob(f"*{device}-{name}*.jsonl"))]
    return [header for header, _ in files], [row for _, rows in files for row in rows]


def times_of(name, device):
    """Median nanoseconds by collective, case, mode and way, in the order of the list."""
    times = {}
    for row in rows_of(name, device)[1]:
        if not row.ns:
            continue
        way, mode = row.way.split(", ")
        times.setdefault((row.order, row.case), {}).setdefault(mode, {})[way] = median(row.ns)
    return times


def speedups(device, kind, mode, *, over_library=False, least_rows=0, most_rows=MOST):
    """Times as fast as the best other way, or as the library's sequence, of each shape."""
    result = []
    for (order, case), modes in times_of("third", device).items():
        if order == kind and least_rows <= int(case.split()[1].split("x")[0]) <= most_rows:
            ways = modes[mode]
            rivals = {"sequence"} if over_library else set(ways) - {"operator"}
            result.append(min(map(ways.__getitem__, rivals)) / ways["operator"])
    return result


def model_speedups(device, *, is_prompt):
    """`parallelize` over DTensor, each model eager and in graphs; prompts of so many tokens and more."""
    result = []
    for (_, case), modes in times_of("models", device).items():
        if ("prompt" in case) is is_prompt and (not is_prompt or int(case.split()[-1]) >= LONG):
            timed = [ways for ways in modes.values() if {"dtensor", "parallelize"} <= set(ways)]
            result += [ways["dtensor"] / ways["parallelize"] for ways in timed]
    return result


def prediction_errors():
    """Percent of the measured time, of every way of the fourth list, predicted before it was measured."""
    known = registered(RESULTS / "2026-11-28-fourth", "costs")
    _, rows = rows_of("fourth", "h200")
    measured = {(row.case, row.order, row.way): median(row.ns) for row in rows if row.ns}
    return sorted(100 * abs(known[key].time_ns / ns - 1) for key, ns in measured.items() if key in known)


def geomean(values):
    return prod(values) ** (1 / len(values))


def figures(device):
    """Every claim of a pair, by its name."""
    third = [
        ("operator_graph_vs_nccl_geomean", geomean, ("all-reduce", "graph"), {"over_library": True}),
        ("operator_graph_vs_best_library_geomean", geomean, ("all-reduce", "graph"), {}),
        ("operator_eager_vs_best_library_geomean", geomean, ("all-reduce", "eager"), {}),
    ]
    result = {name: of(speedups(device, *which, **more, least_rows=LARGE)) for name, of, which, more in third}
    for mode in ("graph", "eager"):
        result[f"operator_{mode}_vs_best_library_min"] = min(speedups(device, "all-reduce", mode))
    scattered = speedups(device, "reduce-scatter", "graph")
    if scattered:
        result["reduce_scatter_vs_best_library_geomean"] = geomean(scattered)
    host = [modes["host"]["operator"] for modes in times_of("third", device).values() if "host" in modes]
    result["operator_host_us"] = median(host) / 1_000
    for name, is_prompt in (("model_prefill_vs_dtensor_min", True), ("model_decode_vs_dtensor_min", False)):
        if values := model_speedups(device, is_prompt=is_prompt):
            result[name] = min(values)
    return result


@pytest.mark.parametrize(("group", "about"), DEVICES.items(), ids=DEVICES)
def test_rows_are_of_the_lists_that_ship_and_all_but_one_are_right(group, about):
    name, device = about
    if not rows_of("third", device)[1]:
        pytest.skip(f"no pair of {device} was measured")
    measured = {(row.order, row.case) for row in rows_of("third", device)[1]}
    assert len(measured) == len(load_list("two-gpus-third").cases) == 28
    for which in ("third", "models", "fourth"):
        headers, rows = rows_of(which, device)
        for header in headers:
            assert header["list_sha256"] == load_list(f"two-gpus-{which}").sha256
            assert header["device"]["name"] == name
        assert {(row.case, row.way) for row in rows if not row.correct} <= ROUNDED


@pytest.mark.parametrize(("group", "about"), DEVICES.items(), ids=DEVICES)
def test_claims_are_what_the_rows_give(group, about):
    if not rows_of("third", about[1])[1]:
        pytest.skip(f"no pair of {about[1]} was measured")
    told = {name: round(value, 3) for name, value in figures(about[1]).items()}
    assert told == {name: CLAIMS[f"{group}.{name}"] for name in told}


@pytest.mark.parametrize(
    ("name", "kind", "rows", "over_library"),
    [
        ("few_rows_{}", "all-reduce", (1, 16), False),
        ("some_rows_{}", "all-reduce", (128, 512), False),
        ("many_rows_{}", "all-reduce", (LARGE, MOST), False),
        ("many_rows_{}_over_nccl", "all-reduce", (LARGE, MOST), True),
        ("reduce_scatter_{}", "reduce-scatter", (1, MOST), False),
    ],
)
def test_the_first_table_of_the_page_is_what_the_rows_give(name, kind, rows, over_library):
    line = []
    for mode in ("graph", "eager"):
        least, most = rows
        ratios = speedups("h200", kind, mode, over_library=over_library, least_rows=least, most_rows=most)
        told = [round(value, 2) for value in (geomean(ratios), min(ratios), max(ratios))]
        names = [f"two_gpus_page.{name.format(mode)}{part}" for part in ("", "_least", "_most")]
        assert told == [CLAIMS[each] for each in names]
        line.append(told)
    cells = " | ".join("{:.2f} ({:.2f} to {:.2f})".format(*told) for told in line)
    assert f"| {len(ratios)} | {cells} |" in (ROOT / "docs" / "two-gpus.md").read_text(encoding="utf-8")


def test_predictions_are_claimed_as_they_were_off():
    errors = prediction_errors()
    told = median(errors), errors[int(0.9 * len(errors))]
    claimed = CLAIMS["two_gpus.prediction_median_percent"], CLAIMS["two_gpus.prediction_p90_percent"]
    assert tuple(round(value, 1) for value in told) == claimed


def table(device):
    """A line for each shape, in the order of the list."""
    order = [case.name for case in load_list("two-gpus-third").cases]
    said = {(row.order, row.case): row.words for row in rows_of("third", device)[1] if row.words}
    lines = []
    times = sorted(times_of("third", device).items(), key=lambda entry: order.index(entry[0][1]))
    for (kind, case), modes in times:
        graph, eager = modes["graph"], modes["eager"]
        m, k, n = (f"{int(size):,}" for size in case.split()[1].split("x"))
        best, best_eager = (
            min(ns for way, ns in ways.items() if way != "operator") for ways in (graph, eager)
        )
        numbers = [
            *(f"{ns / 1_000:.1f}" for ns in (graph["sequence"], best, graph["operator"])),
            *(f"{ns / graph['operator']:.2f}" for ns in (graph["sequence"], best)),
            *(f"{ns / 1_000:.1f}" for ns in (best_eager, eager["operator"])),
            f"{best_eager / eager['operator']:.2f}",
        ]
        lines.append(f"| {kind} | {m} x {k} x {n} | {said[kind, case]} | {' | '.join(numbers)} |")
    return "\n".join(lines)


@pytest.mark.parametrize(("group", "about"), DEVICES.items(), ids=DEVICES)
def test_the_page_has_a_line_for_each_shape(group, about):
    lines = table(about[1])
    if not lines:
        pytest.skip(f"no pair of {about[1]} was measured")
    assert lines in PAGE.read_text(encoding="utf-8")


def test_what_four_and_eight_gpus_will_take_is_on_the_page_as_it_was_registered():
    times = {}
    for (case, _, plan), entry in registered(ROOT / "gpu/results/eight_gpus/2026-11-28", "costs").items():
        times.setdefault(case, {})[plan] = entry.time_ns / 1_000
    assert set(times) == {case.name for case in load_list("eight-gpus").cases}
    page = PAGE.read_text(encoding="utf-8")
    for case, ways in times.items():
        gpus, _, size = case.split(" ")
        ours = min((way for way in ways if way.startswith(("stores", "blocks", "copies"))), key=ways.get)
        nccl, direct = ways["sequence"], (ways["one-shot"], ways["two-shot"])
        sizes = " x ".join(f"{int(side):,}" for side in size.split("x"))
        numbers = " | ".join(f"{us:,.0f}" for us in (nccl, *direct, ways[ours]))
        gains = f"{nccl / min(direct):.2f} | {nccl / ways[ours]:.2f}"
        assert f"| {gpus} | {sizes} | {numbers} | {ours} | {gains} |" in page
