"""Findings that a project has looked at and accepts for now: a file that the next run compares with.

Example: `wavesim lint kernels.so --write-baseline lint.json` keeps what is wrong or unknown today; with
`--baseline lint.json` the next run reports what has come on top, and its status is of that alone.

A finding is known by its kernel, rule and opcode, and by how many such there are: registers and lines change
with every compilation.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from wavesim.errors import RecordingError
from wavesim.lint.data_flow import opcode_of
from wavesim.lint.finding import Finding
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_json

VERSION = 1
MOST_BYTES = 16 << 20
KEPT = ("wrong", "unknown", "warn")


class AcceptedFinding(NamedTuple):
    """What findings have in common that one baseline entry counts."""

    kernel: str
    rule: str
    verdict: str
    opcode: str


def baseline_document(findings: Iterable[Finding]) -> dict[str, Any]:
    """What the file holds: an entry for each kernel, rule, verdict and opcode, with how often."""
    counted = Counter(_key(finding) for finding in findings if finding.verdict in KEPT)
    entries = [{**key._asdict(), "count": count} for key, count in sorted(counted.items())]
    return {"version": VERSION, "accepted": entries}


def read_baseline(path: Path) -> Counter[AcceptedFinding]:
    """Raises `RecordingError` for a file that is none."""
    document = read_json(path, MOST_BYTES)
    try:
        version, entries = document["version"], document["accepted"]
        counted = [
            (AcceptedFinding(*(str(entry[field]) for field in AcceptedFinding._fields)), int(entry["count"]))
            for entry in entries
        ]
    except (KeyError, TypeError, ValueError) as error:
        version, counted = f"{type(error).__name__}: {error}", []
    if version != VERSION:
        raise RecordingError(
            f"{path}: no baseline of lint of version {VERSION} ({shown(version)}); write one with "
            "--write-baseline"
        )
    return Counter(dict(counted))


def beyond(findings: Iterable[Finding], accepted: Counter[AcceptedFinding]) -> list[Finding]:
    """The findings without the accepted ones: of each kind the first ones, as many as the baseline has."""
    left = Counter(accepted)
    new = []
    for finding in findings:
        key = _key(finding)
        if finding.verdict in KEPT and left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new


def _key(finding: Finding) -> AcceptedFinding:
    opcode = opcode_of(finding.instruction) if finding.instruction is not None else ""
    return AcceptedFinding(finding.kernel, finding.rule, finding.verdict, opcode)
