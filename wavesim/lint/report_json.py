"""A report as one JSON object, for scripts.

Example: `{"findings": [{"kernel": "consumer", "kind": "wait", "verdict": "wrong", "line": 42, ...}],
"seconds": 0.03, ...}`.
"""

from typing import Any

from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Instruction
from wavesim.lint.report import WORST_FIRST, LintReport


def findings_document(report: LintReport) -> dict[str, Any]:
    """`line` is one of the file where that is text, else of the listing `where`; null without a line."""
    counts = {word: sum(one.verdict == word for one in report.findings) for word in WORST_FIRST}
    return {
        "findings": [_finding(report, one) for part in report.kernels for one in part.findings],
        "seconds": report.seconds,
        "file": report.file,
        "counts": counts,
        "listings": [
            {"where": one.where, "language": one.language, "arch": one.arch, "kernels": len(one.kernels)}
            for one in report.listings
        ],
        "notes": list(report.notes),
    }


def _finding(report: LintReport, finding: Finding) -> dict[str, Any]:
    at = finding.instruction
    return {
        "kernel": finding.kernel,
        "kind": finding.kind,
        "verdict": finding.verdict,
        "why": finding.why,
        "line": None if at is None else report.line_of(at),
        "rule": finding.rule,
        "fix": finding.fix,
        "where": finding.where,
        "instruction": None if at is None else _instruction(at),
        "others": [_instruction(one) for one in finding.others],
    }


def _instruction(instruction: Instruction) -> dict[str, Any]:
    source = instruction.source
    return {
        "text": instruction.text,
        "listing_line": instruction.listing_line,
        "source": None if source is None else {"file": source.file, "line": source.line},
    }
