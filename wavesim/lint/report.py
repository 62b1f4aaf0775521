"""What `wavesim lint` says of a file: its findings by kernel, worst first, as text and as JSON.

Example: of a cubin with a wrong consumer and a right producer, `kernels` is the consumer's part and then the
producer's, and `headline` is "1 wrong, 1 unknown and 5 right in pair.cubin".
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, get_args

from wavesim.lint.finding import Finding, Verdict
from wavesim.lint.instruction import Instruction, Listing
from wavesim.safe_io.escaping import one_line, whole_line

WORST_FIRST: tuple[Verdict, ...] = ("wrong", "unknown", "warn", "right")
WIDTH = 100
INDENT = " " * 11
LONGEST = 100  # of a quoted instruction, and of a kernel's name
MOST_QUOTED = 6  # instructions of one finding; a page has them all
WORDS = {"wrong": "WRONG", "unknown": "unknown", "warn": "warn", "right": "right"}
assert set(WORST_FIRST) == set(get_args(Verdict))


@dataclass(frozen=True)
class KernelReport:
    """The findings of one kernel of one listing, worst first."""

    kernel: str
    where: str
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings."""
        return self.findings[0].verdict


@dataclass(frozen=True)
class LintReport:
    """Of a `file`, as the user named it; `seconds` is what reading and judging it took."""

    file: str
    listings: Sequence[Listing]
    findings: Sequence[Finding]
    seconds: float

    @cached_property
    def kernels(self) -> tuple[KernelReport, ...]:
        """By kernel and listing: those with something wrong first, else in the order of the file."""
        parts: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            parts.setdefault((finding.kernel, finding.where), []).append(finding)
        reports = [
            KernelReport(kernel, where, sorted(part, key=_place)) for (kernel, where), part in parts.items()
        ]
        return tuple(sorted(reports, key=lambda part: WORST_FIRST.index(part.verdict)))

    @property
    def is_wrong(self) -> bool:
        """Whether any finding is wrong: what the exit status says."""
        return any(finding.verdict == "wrong" for finding in self.findings)

    @property
    def has_unknown(self) -> bool:
        """Whether any finding is undecided."""
        return any(finding.verdict == "unknown" for finding in self.findings)

    @property
    def headline(self) -> str:
        """How many findings there are of each verdict, and where."""
        return f"{counts_text(self.findings)} in {PurePath(self.file).name}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, each once."""
        noted = (f"{listing.where}: {note}" for listing in self.listings for note in listing.notes)
        return tuple(dict.fromkeys(noted))

    def line_of(self, instruction: Instruction) -> int:
        """The line in the file, where that is text that the instruction is in or comes from; else that of
        its listing.
        """
        source = instruction.source
        is_own = source is not None and PurePath(source.file).name == PurePath(self.file).name
        return source.line if source is not None and is_own else instruction.listing_line


def counts_text(findings: Sequence[Finding]) -> str:
    """Such as "1 wrong, 2 unknown and 5 right"; verdicts that none has are left out."""
    counts = [(sum(finding.verdict == verdict for finding in findings), verdict) for verdict in WORST_FIRST]
    parts = [f"{count} {verdict}" for count, verdict in counts if count]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "nothing found"


def source_text(instruction: Instruction) -> str:
    """Where the compiler says that it comes from, such as "pair.cu:42"; "" where it does not."""
    source = instruction.source
    return f"{PurePath(source.file).name}:{source.line}" if source is not None else ""


def _place(finding: Finding) -> tuple[int, int]:
    line = 0 if finding.instruction is None else finding.instruction.listing_line
    return WORST_FIRST.index(finding.verdict), line


def findings_text(report: LintReport) -> str:
    """The report in lines of about `WIDTH` letters."""
    count = sum(len(listing.kernels) for listing in report.listings)
    head = f"{report.headline}: {count} kernel{'s' * (count != 1)}, {report.seconds:.2f} s"
    lines = [head]
    for first, count in _alike(report.kernels):
        lines += ["", *_kernel(first)]
        if count > 1:
            lines.append(f"  and {count - 1} more instances of it with the same findings; --json has all")
    if report.notes:
        lines += ["", "not read:", *(f"  {note}" for note in report.notes)]
    return "\n".join(whole_line(line) for line in lines)


def _alike(parts: Sequence[KernelReport]) -> list[tuple[KernelReport, int]]:
    """Instances of one template with the same findings together: the first, and how many there are."""
    groups: dict[object, list[KernelReport]] = {}
    for part in parts:
        name = plain_name(part.kernel)
        said = tuple((finding.verdict, finding.rule, _source(finding)) for finding in part.findings)
        is_instance = name.endswith(TEMPLATE)
        groups.setdefault((name, part.where, said) if is_instance else id(part), []).append(part)
    return [(group[0], len(group)) for group in groups.values()]


def _source(finding: Finding) -> object:
    return finding.instruction.source if finding.instruction is not None else None


def _kernel(part: KernelReport) -> Iterator[str]:
    """A kernel's findings; of those by one rule in one line of the source, the first and how many more."""
    name = one_line(part.kernel, LONGEST)
    known_as = plain_name(part.kernel)
    name = name if known_as == part.kernel else f"{one_line(known_as, LONGEST)} [{name}]"
    yield f"{name} ({one_line(part.where, LONGEST)}): {counts_text(part.findings)}"
    groups: dict[object, list[Finding]] = {}
    for finding in part.findings:
        source = _source(finding)
        key = (finding.verdict, finding.rule, source) if source is not None else id(finding)
        groups.setdefault(key, []).append(finding)
    for first, *more in groups.values():
        yield from _finding_lines(first)
        if more:
            assert first.instruction is not None
            where = one_line(source_text(first.instruction), LONGEST)
            yield f"{INDENT}and {len(more)} more by this rule in {where}; --json has all"


TEMPLATE = "<...>"  # what a plain name ends in where the kernel is an instance of one
_PART = re.compile(r"(\d{1,4})")


def plain_name(mangled: str) -> str:
    """The name of a C++ function without its parameters: "gemm::run<...>" of "_ZN4gemm3runILi8EEEvPf"."""
    nested = mangled.startswith("_ZN")
    at, parts = 3 if nested else 2, []
    while mangled.startswith("_Z") and (match := _PART.match(mangled, at)):
        at = match.end() + int(match[1])
        parts.append(mangled[match.end() : at])
        if not nested:
            break
    if not parts or at > len(mangled):
        return mangled
    return "::".join(parts) + (TEMPLATE if mangled[at : at + 1] == "I" else "")


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f"  {WORDS[finding.verdict]:8} {finding.kind}: {finding.rule or 'nothing to judge'}"
    quoted = [finding.instruction] if finding.instruction is not None else []
    quoted += finding.others if finding.verdict != "right" else ()
    shown = quoted[:MOST_QUOTED]
    numbers = max((len(str(quote.listing_line)) for quote in shown), default=0)
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


def findings_document(report: LintReport) -> dict[str, Any]:
    """`line` is one of the file where that is text, else of the listing `where`; null without a line."""
    counts = {word: sum(finding.verdict == word for finding in report.findings) for word in WORST_FIRST}
    return {
        "findings": [_finding(report, finding) for part in report.kernels for finding in part.findings],
        "seconds": report.seconds,
        "file": report.file,
        "counts": counts,
        "listings": [
            {
                "where": listing.where,
                "language": listing.language,
                "arch": listing.arch,
                "kernels": len(listing.kernels),
            }
            for listing in report.listings
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
        "name": plain_name(finding.kernel),
        "rule": finding.rule,
        "fix": finding.fix,
        "where": finding.where,
        "instruction": None if at is None else _instruction(at),
        "others": [_instruction(other) for other in finding.others],
    }


def _instruction(instruction: Instruction) -> dict[str, Any]:
    source = instruction.source
    return {
        "text": instruction.text,
        "listing_line": instruction.listing_line,
        "source": None if source is None else {"file": source.file, "line": source.line},
    }
