"""A report as SARIF 2.1.0, which code review shows beside the lines: GitHub's code scanning, editors.

Example: a wrong wait is a result of level "error" with the rule's text, its place in the source or the
listing, and the loads that it should guard as related places.

What is right is left out, as code scanning shows every result as an alert; how many there are is a property
of the run. "unknown" is SARIF's kind "open": the rule was evaluated and could not decide. Source: OASIS,
Static Analysis Results Interchange Format 2.1.0 with Errata 01, sections 3.14 to 3.49.
"""

import hashlib
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import wavesim
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Instruction
from wavesim.lint.report import WORST_FIRST, LintReport
from wavesim.lint.rules import RULES
from wavesim.safe_io.escaping import one_line, shown

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"wrong": ("fail", "error"), "unknown": ("open", "none"), "warn": ("fail", "warning")}
MOST_RESULTS = 25_000  # of a run, for GitHub's code scanning
LONGEST = 1_000  # of a message, a name and a quoted instruction


def sarif_log(report: LintReport) -> dict[str, Any]:
    """The report as a SARIF log of one run."""
    told = [finding for part in report.kernels for finding in part.findings if finding.verdict in LEVELS][
        :MOST_RESULTS
    ]
    names = list(dict.fromkeys(map(_name_of, told)))
    driver = {
        "name": "wavesim lint",
        "semanticVersion": wavesim.__version__,
        "rules": [_rule(name) for name in names],
    }
    notes = [{"level": "warning", "message": _message(note)} for note in report.notes]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": _artifact(report.file)}],
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": [_result(report, entry, names.index(_name_of(entry))) for entry in told],
        "properties": {
            word: sum(finding.verdict == word for finding in report.findings) for word in WORST_FIRST
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _name_of(finding: Finding) -> str:
    return finding.rule or f"unjudged-{finding.kind}"


def _rule(name: str) -> dict[str, Any]:
    rule = RULES.get(name)
    wrong, fix = (rule.wrong, rule.fix) if rule is not None else (name.replace("-", " "), "")
    return {
        "id": name,
        "name": "".join(word.capitalize() for word in name.split("-")),
        "shortDescription": _message(name.replace("-", " ")),
        "fullDescription": _message(wrong),
        "help": {
            **_message(f"{wrong}. {fix}"),
            "markdown": f"{wrong}\n\n{fix}\n\nRule `{name}` of docs/lint-rules.md.",
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["synchronisation", "CUDA"]},
    }


def _result(report: LintReport, finding: Finding, rule: int) -> dict[str, Any]:
    kind, level = LEVELS[finding.verdict]
    fix = f" Fix: {finding.fix}" if finding.fix else ""
    at = finding.instruction
    return {
        "ruleId": _name_of(finding),
        "ruleIndex": rule,
        "kind": kind,
        "level": level,
        "message": _message(f"{finding.kernel}, {finding.kind}: {finding.why}.{fix}"),
        "locations": [_location(report, finding, at)],
        "relatedLocations": [
            {"id": number, **_location(report, finding, other), "message": _message(other.text.strip())}
            for number, other in enumerate(finding.others, start=1)
        ],
        "partialFingerprints": {"wavesimFinding/v1": _fingerprint(finding)},
        "properties": {"listing": shown(finding.where)},
    }


def _location(report: LintReport, finding: Finding, at: Instruction | None) -> dict[str, Any]:
    """In the source, where the compiler noted it; else in the file itself, at the listing's line."""
    kernel = {"name": one_line(finding.kernel, LONGEST), "kind": "function"}
    source = None if at is None else at.source
    is_own = source is None or PurePath(source.file).name == PurePath(report.file).name
    place: dict[str, Any] = {
        "artifactLocation": _artifact(report.file if is_own or source is None else source.file),
        "region": {"startLine": max(1, _line(at))},
    }
    if at is not None:
        place["region"]["snippet"] = _message(at.text.strip())
    return {"physicalLocation": place, "logicalLocations": [kernel]}


def _line(at: Instruction | None) -> int:
    if at is None:
        return 1
    return at.listing_line if at.source is None else at.source.line


def _artifact(file: str) -> dict[str, str]:
    """A URI: relative for a relative path, so that code review finds the file in the repository."""
    path = quote(shown(file).replace("\ufffd", "?"), safe="/")
    return {"uri": f"file://{path}" if path.startswith("/") else path}


def _message(text: str) -> dict[str, str]:
    return {"text": one_line(text, LONGEST).strip() or "no text"}


def _fingerprint(finding: Finding) -> str:
    """The same for the same instruction of the same kernel, wherever in the listing it stands."""
    text = "" if finding.instruction is None else finding.instruction.text
    words = (finding.kernel, finding.rule, finding.kind, text)
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:32]
