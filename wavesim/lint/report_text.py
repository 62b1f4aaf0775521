"""A report for the terminal: by kernel, wrong ones first, with the instructions that each reason names.

Example: "WRONG    wait: no-acquire", then the poll with its line, the loads that it should guard, "because
the flag is polled relaxed ..." and "fix: Poll with ld.acquire.gpu ...".
"""

import textwrap
from collections.abc import Iterator

from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Instruction
from wavesim.lint.report import KernelReport, LintReport, counts_text, source_text
from wavesim.safe_io.escaping import one_line, whole_line

WIDTH = 110
INDENT = " " * 11
LONGEST = 100  # of a quoted instruction, and of a kernel's name
MOST_QUOTED = 6  # instructions of one finding; a page has them all
WORDS = {"wrong": "WRONG", "unknown": "unknown", "right": "right"}


def findings_text(report: LintReport) -> str:
    """The report in lines of about `WIDTH` letters."""
    count = sum(len(listing.kernels) for listing in report.listings)
    head = f"{report.headline}: {count} kernel{'s' * (count != 1)}, {report.seconds:.2f} s"
    lines = [head]
    for part in report.kernels:
        lines += ["", *_kernel(part)]
    if report.notes:
        lines += ["", "not read:", *(f"  {note}" for note in report.notes)]
    return "\n".join(whole_line(line) for line in lines)


def _kernel(part: KernelReport) -> Iterator[str]:
    yield f"{one_line(part.kernel, LONGEST)} ({one_line(part.where, LONGEST)}): {counts_text(part.findings)}"
    for finding in part.findings:
        yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"  {WORDS[finding.verdict]:8} {finding.kind}: {finding.rule or 'nothing to judge'}"
    quoted = [finding.instruction] if finding.instruction is not None else []
    quoted += finding.others if finding.verdict != "right" else ()
    shown = quoted[:MOST_QUOTED]
    numbers = max((len(str(one.listing_line)) for one in shown), default=0)
    for instruction in shown:
        yield f"{INDENT}{instruction.listing_line:{numbers}} | {_quoted(instruction)}"
    if len(quoted) > len(shown):
        yield f"{INDENT}... and {len(quoted) - len(shown)} more"
    yield from _wrapped("because ", finding.why)
    if finding.fix:
        yield from _wrapped("fix: ", finding.fix)


def _quoted(instruction: Instruction) -> str:
    source = source_text(instruction)
    return one_line(instruction.text.strip(), LONGEST) + (f"  // {source}" if source else "")


def _wrapped(word: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{word}{one_line(text, 2_000)}", WIDTH, initial_indent=INDENT, subsequent_indent=INDENT + "  "
    )
