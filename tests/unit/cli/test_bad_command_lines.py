"""Some 450 wrong command lines, in a few processes: status 2 and one line each, at once and in little memory.

`python tests/support/command_lines.py` runs each in a process of its own and prints a table.
"""

import json
import subprocess
import sys
from pathlib import Path

import command_lines
import pytest
from command_lines import Case, Outcome, cases

PROCESSES = 2
KINDS = {case.kind for case in cases() if not case.is_right}


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[Case, Outcome]]:
    """Every case's, from processes that run a share of them each."""
    running = [
        subprocess.Popen(
            [sys.executable, command_lines.__file__, "--in-process", str(share), str(PROCESSES)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in range(PROCESSES)
    ]
    entries = [entry for process in running for entry in json.loads(process.communicate()[0])]
    return [(Case(**entry["case"]), Outcome(**entry["outcome"])) for entry in entries]


def complaints(outcomes: list[tuple[Case, Outcome]], kind: str) -> list[str]:
    judged = [(case, outcome) for case, outcome in outcomes if case.kind == kind]
    assert judged
    return [
        f"{case.line[:80]}: {', '.join(wrong)}: {outcome.err[:200]}"
        for case, outcome in judged
        if (wrong := outcome.complaints(case))
    ]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_wrong_command_lines_end_with_status_two_and_one_line_at_once(
    outcomes: list[tuple[Case, Outcome]], kind: str
):
    assert complaints(outcomes, kind) == []


def test_right_command_lines_run(outcomes: list[tuple[Case, Outcome]]):
    assert complaints(outcomes, "right") == []
    for case, outcome in outcomes:
        if case.is_right and "--json" in case.line:
            json.loads(outcome.out)


def test_there_are_three_hundred_wrong_lines_and_none_twice():
    lines = [case.line for case in cases() if not case.is_right]
    assert len(set(lines)) == len(lines) >= 300


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (Outcome(0, "", "x\n", 0, 0), "status 0"),
        (Outcome(2, "", "x\ny\n", 0, 0), "2 lines"),
        (Outcome(2, "", "", 0, 0), "0 lines"),
        (Outcome(2, "out", "x\n", 0, 0), "standard output"),
        (Outcome(2, "", "x\n", 5.1, 0), "5.1 s"),
        (Outcome(2, "", "x\n", 0, 501), "501 MB"),
        (Outcome(2, "", "Traceback (most recent call last):\n", 0, 0), "a traceback"),
        (Outcome(2, "", f"{'x' * 5_001}\n", 0, 0), "5002 characters"),
    ],
)
def test_the_judge_sees_each_fault(outcome: Outcome, complaint: str):
    assert outcome.complaints(Case("kind", "line")) == [complaint]


def test_a_line_that_hangs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command_lines, "HANGS_SECONDS", 0.2)
    monkeypatch.setattr("wavesim.cli.command_line.main", lambda words: time_passes())
    outcome = command_lines.run_here(Case("kind", "simulate toy"), tmp_path)
    assert "HangsError" in str(outcome.status)


def time_passes() -> int:
    while True:
        pass
