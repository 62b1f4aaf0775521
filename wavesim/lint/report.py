"""What `wavesim lint` says of a file: its findings by kernel, worst first, with how many there are of each.

Example: of a cubin with a wrong consumer and a right producer, `kernels` is the consumer's part and then the
producer's, and `headline` is "1 wrong, 1 unknown and 5 right in pair.cubin".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import get_args

from wavesim.lint.finding import Finding, Verdict
from wavesim.lint.instruction import Instruction
from wavesim.lint.kernel_code import Listing

WORST_FIRST: tuple[Verdict, ...] = ("wrong", "unknown", "right")
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
        found = [
            KernelReport(kernel, where, sorted(part, key=_place)) for (kernel, where), part in parts.items()
        ]
        return tuple(sorted(found, key=lambda part: WORST_FIRST.index(part.verdict)))

    @property
    def is_wrong(self) -> bool:
        """Whether any finding is wrong: what the exit status says."""
        return any(finding.verdict == "wrong" for finding in self.findings)

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
    counts = [(sum(one.verdict == verdict for one in findings), verdict) for verdict in WORST_FIRST]
    parts = [f"{count} {verdict}" for count, verdict in counts if count]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "nothing found"


def source_text(instruction: Instruction) -> str:
    """Where the compiler says that it comes from, such as "pair.cu:42"; "" where it does not."""
    source = instruction.source
    return f"{PurePath(source.file).name}:{source.line}" if source is not None else ""


def _place(finding: Finding) -> tuple[int, int]:
    line = 0 if finding.instruction is None else finding.instruction.listing_line
    return WORST_FIRST.index(finding.verdict), line
