"""PTX and machine code of the same kernels, judged together.

Example: the PTX of a kernel polls by an atomic that acquires and does not use its result; in the machine code
made of it the acquire is gone. That is the compiler's doing, and the finding says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wavesim.lint.check import findings_of
from wavesim.lint.finding import Finding
from wavesim.lint.kernel_code import Listing
from wavesim.lint.known import Known
from wavesim.lint.rules import RULES

LOST = {
    "no-acquire": "acquire-deleted"
}  # right in the PTX and wrong in the machine code: the compiler's doing
NOTHING_SAID = Known()


def findings_of_all(listings: Sequence[Listing], known: Known = NOTHING_SAID) -> list[Finding]:
    """The findings of each listing; what the machine code alone lacks is told apart."""
    judged = [(listing, findings_of(listing, known)) for listing in listings]
    ptx = [finding for listing, found in judged if listing.language == "ptx" for finding in found]
    return [
        finding
        for listing, found in judged
        for finding in (found if listing.language == "ptx" else beside(found, ptx))
    ]


def beside(found: Sequence[Finding], ptx: Sequence[Finding]) -> Iterator[Finding]:
    """Findings of machine code, beside those of the PTX of the same kernels."""
    for finding in found:
        own = [one for one in ptx if (one.kernel, one.rule) == (finding.kernel, finding.rule)]
        is_right_there = bool(own) and all(one.verdict == "right" for one in own)
        if finding.verdict == "wrong" and is_right_there:
            rule = RULES[LOST.get(finding.rule, finding.rule)]
            why = f"right in the PTX and not in the machine code made of it: {finding.why}"
            yield replace(finding, rule=rule.name, why=why, fix=rule.fix)
        else:
            yield finding
