"""What README and docs/evidence.md say of calls that fail is what the newest recorded run found."""

import json
import re
from pathlib import Path

import pytest
from faults.judged_calls import CANDIDATES, FAULTS, SIZES
from faults.scenarios import HOLD_S, LIMIT_S

ROOT = Path(__file__).parents[4]
PATH = max((ROOT / "gpu" / "results" / "faults").glob("*.json"))
FOUND = json.loads(PATH.read_text(encoding="utf-8"))
SCENARIOS = FOUND["scenarios"]
EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").partition("## Calls that fail")[2]
ROWS = {
    "one stream": [SCENARIOS["injected"]],
    "the same from four threads": [SCENARIOS["threads"]],
    "a co-tenant holds": list(SCENARIOS["same_process"]["held"].values()),
    "another process holds all SMs, 0.5 s": [SCENARIOS["other_process"]],
    "another process holds all SMs, 5 ms": [SCENARIOS["time_sliced"]],
    "two processes": SCENARIOS["two_processes"]["processes"],
    "a green context of 16 SMs": [SCENARIOS["green"]],
}


def row(beginning):
    """The numbers of a row of the table: calls, right, NaN and reported, wrong or silent."""
    (line,) = [line for line in EVIDENCE.splitlines() if line.startswith(f"| {beginning}")]
    return [int(cell.replace(",", "")) for cell in re.findall(r"\| ([\d,]+)(?= \|)", line)]


@pytest.mark.parametrize("beginning", ROWS)
def test_a_row_of_the_table_is_what_was_found(beginning):
    found = ROWS[beginning]
    right, nan = (sum(one[kind] for one in found) for kind in ("right", "nan_reported"))
    faults = sum(one[kind] for one in found for kind in FAULTS)
    assert row(beginning) == [right + nan + faults, right, nan, faults]


def test_the_row_of_replays_is_what_was_found():
    graphs = SCENARIOS["replays"]["graphs"]
    replays, nan, reported, wrong = (
        sum(graph[kind] for graph in graphs) for kind in ("replays", "nan", "reported", "wrong_silent")
    )
    assert row("replays of three graphs") == [replays, replays - nan, reported, wrong + nan - reported]


def test_the_words_around_the_table_are_those_of_the_file():
    assert PATH.name in EVIDENCE
    assert f"commit {FOUND['commit'][:7]}" in EVIDENCE
    assert FOUND["date"][:10] in EVIDENCE
    assert FOUND["device"] == "NVIDIA H200"
    assert ("One scenario of that run showed nothing" in EVIDENCE) == bool(SCENARIOS["forgotten"]["faults"])
    assert FOUND["faults"] == SCENARIOS["forgotten"]["faults"]


def test_what_is_said_of_why_calls_failed_is_in_the_file():
    words = " ".join(EVIDENCE.split())
    short = [SCENARIOS[name]["injected"]["limit too short"] for name in ("injected", "threads")]
    assert f"given to {short[0]} of the calls in the first row and to {short[1]} in the second" in words
    assert all(
        SCENARIOS[name]["nan_reported"] < count
        for name, count in zip(("injected", "threads"), short, strict=True)
    )
    *others, limited = SCENARIOS["replays"]["graphs"]
    assert all(graph["nan"] == 0 for graph in others)
    assert f"All {limited['nan']} replays that failed are of the graph with the limit of 1 us" in words
    assert f"held SMs for {1000 * HOLD_S:g} ms" in words
    assert f"whose limit is {1000 * LIMIT_S:g} ms" in words
    assert SCENARIOS["time_sliced"]["nan_reported"] > 0
    assert "1 call failed" in SCENARIOS["forgotten"]["said"]


def test_the_plans_that_are_named_are_those_that_were_called():
    words = " ".join(EVIDENCE.split())
    assert " by ".join(map(str, SIZES)) in words
    parts = {
        "pdl+row row": "row semaphores and dependent launch",
        "persistent:row row": "one persistent kernel for both products",
        "persistent+pdl+tile grouped:2": "persistent kernels under tile semaphores",
        "pdl+row row/2": "the second product in two splits of K",
    }
    for rows, candidate in CANDIDATES.items():
        plan = " ".join(candidate.split()[1:3]) + ("/2" if candidate.endswith("/2") else "")
        assert f"{rows} {parts[plan]}" in words


def test_the_readme_says_what_the_longest_scenario_found():
    calls, right, nan, faults = row("one stream")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"of {calls:,} calls on an H200, {right:,} were right, {nan:,} were NaN and reported" in readme
    assert f"and {faults} were wrong or silent" in readme
