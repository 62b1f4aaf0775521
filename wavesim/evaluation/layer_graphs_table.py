"""Tables and speedups of a `layer_graphs` run: ours over PyTorch, over dependent launch, over stream sync.

Example: `python -m wavesim.evaluation.layer_graphs_table FILE` prints each case's finalists and the geometric
means that the docs quote. Times are medians of interleaved rounds; a ratio above 1 says that ours is faster.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program

MOST_BYTES = 16 << 20


def newest_run(folder: Path) -> dict[str, Any] | None:
    """The newest file of a folder by its name, a date, and cases of kinds that only older ones have.

    Each case says the date of its file's run.
    """
    found: dict[str, Any] | None = None
    for path in sorted(folder.glob("*.json"), reverse=True):
        run = dict(read_json(path, MOST_BYTES))
        found = {**run, "cases": []} if found is None else found
        known = {case["kind"] for case in found["cases"]}
        found["cases"] += [{**one, "date": run["date"]} for one in run["cases"] if one["kind"] not in known]
    return found


def times_of(case: Mapping[str, Any]) -> dict[str, int]:
    """Median nanoseconds by class, of a case that was measured."""
    return {one["class"]: one["median_ns"] for one in case.get("finalists", [])}


def ratios(cases: Iterable[Mapping[str, Any]], over: str, *, only: str = "") -> dict[str, float]:
    """By case: the time of class `over` divided by ours: of class `only`, or of our fastest."""
    found = {}
    for case in cases:
        times = times_of(case)
        ours = [ns for name, ns in times.items() if name not in ("torch", over) and only in ("", name)]
        if over in times and ours:
            found[case["name"]] = times[over] / min(ours)
    return found


def summary(cases: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """What was asked, by its title: the ratio of every case."""
    of_kind = {kind: [case for case in cases if case["kind"] == kind] for kind in KINDS}
    chains = of_kind["chain"]
    return {
        "layer over PyTorch": ratios(of_kind["layer"], "torch"),
        "decode layer over PyTorch": ratios(of_kind["decode"], "torch"),
        "decode layer, semaphores over dependent launch": ratios(of_kind["decode"], "pdl", only="semaphores"),
        "chain, semaphores over stream sync, each its best": ratios(chains, "stream", only="semaphores"),
        "chain, semaphores over dependent launch": ratios(chains, "pdl", only="semaphores"),
        "chain, semaphores over stream sync in the same tiles": {
            **ratios(chains, "stream", only="semaphores"),
            **ratios(chains, "stream, same tiles", only="semaphores"),
        },
        "product over cuBLASLt": ratios(of_kind["product"], "torch"),
    }


KINDS = ("layer", "decode", "chain", "product")


def table_text(result: Mapping[str, Any]) -> str:
    """Cases, then summaries, as Markdown."""
    cases = list(result["cases"])
    head = f"Measured on {result['device']['name']}, {result['date'][:10]}, commit {result['commit'][:7]}."
    rows = ["| case | class | plan | median, us | quartiles |", "|---|---|---|---|---|"]
    for case in cases:
        if "failed" in case:
            rows.append(f"| {case['name']} | failed | {case['failed'][:80]} | | |")
        for one in case.get("finalists", []):
            low, high = (value / 1000 for value in one["quartiles_ns"])
            cells = (case["name"], one["class"], one["label"], f"{one['median_ns'] / 1000:.1f}")
            rows.append(f"| {' | '.join(cells)} | {low:.1f} to {high:.1f} |")
    means = ["| ratio | cases | geometric mean | least | most |", "|---|---|---|---|---|"]
    for title, found in summary(cases).items():
        if found:
            values = list(found.values())
            mean, least, most = geometric_mean(values), min(values), max(values)
            means.append(f"| {title} | {len(values)} | {mean:.3f} | {least:.3f} | {most:.3f} |")
    return "\n".join([head, "", *means, "", *rows])


def main(words: list[str]) -> int:
    """Prints the tables of a results file."""
    print(table_text(read_json(Path(words[0]), MOST_BYTES)))  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_graphs_table", lambda: main(sys.argv[1:])))
