"""What the rules say of every wait, post and load of a listing; PTX and its machine code are judged together.

Example: findings_of(listing_of_ptx(text, "pair.ptx")) holds a Finding per wait and per post at least, and for
a kernel with neither a finding of kind "kernel", "unknown". Where PTX polls by an atomic that acquires and
does not use its result, the machine code has no acquire; the finding says that the compiler removed it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from wavesim.errors import RecordingError
from wavesim.lint.code import Code
from wavesim.lint.finding import Finding, Known
from wavesim.lint.instruction import KernelCode, Listing
from wavesim.lint.paths import Effort
from wavesim.lint.rules import RULES
from wavesim.lint.rules.async_copies import judge_bulk_loads, judge_bulk_stores, judge_copies
from wavesim.lint.rules.clusters import judge_clusters
from wavesim.lint.rules.dependent import judge_grid_waits
from wavesim.lint.rules.divergence import judge_barriers, judge_barriers_alone
from wavesim.lint.rules.loading import judge_loads
from wavesim.lint.rules.mbarriers import judge_mbarriers, judge_spins
from wavesim.lint.rules.posting import judge_posts
from wavesim.lint.rules.resetting import judge_resets
from wavesim.lint.rules.sequences import judge_sequences
from wavesim.lint.rules.shared_memory import judge_shared_memory
from wavesim.lint.rules.two_sides import Side, judge_dependents, judge_sides, side_of, with_posts
from wavesim.lint.rules.waiting import judge_waits

Result = TypeVar("Result")
# Waits and posts times instructions, over all kernels of a file: 40 s. Our largest kernel has 80,000.
MOST_WORK = 4_000_000
MOST_SEARCHED = 40_000_000  # loops times instructions, over all kernels of a file: 20 s
MOST_GIVEN_UP = 3  # kernels that take all the steps that one may: each costs up to 10 s


def findings_of(listing: Listing, known: Known = Known()) -> list[Finding]:  # noqa: B008 -- it is frozen
    """What is wrong, right or unknown of each kernel of a listing, in its order."""
    given_up: list[Finding] = []
    entries = [kernel for kernel in listing.kernels if kernel.is_entry]
    search = Effort("the file", MOST_SEARCHED)
    tried = [
        _tried(kernel.name, given_up, partial(_side, kernel, listing, known, search)) for kernel in entries
    ]
    sides = with_posts([side for side in tried if side is not None])
    of_file = [*judge_dependents(sides), *judge_sides(sides)]
    findings: list[Finding] = []
    left = MOST_WORK
    for side in sides:
        name = side.code.kernel.name
        left -= (len(side.waits) + len(side.posts)) * len(side.code.instructions)
        own = _tried(name, given_up, partial(_judged, side, left))
        if own is not None:
            own += [finding for finding in of_file if finding.kernel == name]
            findings += (
                own or judge_barriers_alone(side.code) or [_unknown(name, "no wait or post was found")]
            )
    Code.forget_all()
    return [replace(finding, where=listing.where) for finding in (*findings, *given_up)]


def _side(kernel: KernelCode, listing: Listing, known: Known, search: Effort) -> Side:
    code = Code(kernel, listing, known)
    search.spend(len(code.flow.loops) * len(code.instructions))
    return side_of(code)


def _tried(kernel: str, given_up: list[Finding], work: Callable[[], Result]) -> Result | None:
    """What the work returns; None, and a finding why, where the kernel can't be followed in bounded steps."""
    why = f"not checked: {MOST_GIVEN_UP} kernels before it in the file could not be followed"
    if len(given_up) < MOST_GIVEN_UP:
        try:
            return work()
        except RecordingError as error:
            why = str(error)
    given_up.append(_unknown(kernel, why))
    return None


def _unknown(kernel: str, why: str) -> Finding:
    return Finding(kernel, "kernel", "", "unknown", why)


def _judged(side: Side, left: int) -> list[Finding]:
    code, waits, posts = side.code, side.waits, side.posts
    if left < 0:
        raise RecordingError(
            f"{len(waits) + len(posts):,} waits and posts in {len(code.instructions):,} instructions are "
            "more than is judged of one file: name the kernels that matter"
        )
    return [
        *judge_waits(code, waits),
        *judge_posts(code, posts, waits),
        *judge_loads(code, waits, posts),
        *judge_grid_waits(code, waits),
        *judge_resets(code, waits, posts),
        *judge_mbarriers(code),
        *judge_copies(code),
        *judge_bulk_loads(code),
        *judge_bulk_stores(code),
        *judge_shared_memory(code),
        *judge_clusters(code),
        *judge_barriers(code),
        *judge_spins(code, waits),
        *judge_sequences(code, waits),
    ]


LOST = {
    "no-acquire": "acquire-deleted"
}  # right in the PTX and wrong in the machine code: the compiler's doing
NOTHING_SAID = Known()


def findings_of_all(listings: Sequence[Listing], known: Known = NOTHING_SAID) -> list[Finding]:
    """The findings of each listing; what the machine code alone lacks is told apart."""
    judged = [(listing, findings_of(listing, known)) for listing in listings]
    ptx = [finding for listing, findings in judged if listing.language == "ptx" for finding in findings]
    return [
        finding
        for listing, findings in judged
        for finding in (findings if listing.language == "ptx" else beside(findings, ptx))
    ]


def beside(findings: Sequence[Finding], ptx: Sequence[Finding]) -> Iterator[Finding]:
    """Findings of machine code, beside those of the PTX of the same kernels."""
    for finding in findings:
        own = [twin for twin in ptx if (twin.kernel, twin.rule) == (finding.kernel, finding.rule)]
        is_right_there = bool(own) and all(twin.verdict == "right" for twin in own)
        if finding.verdict == "wrong" and is_right_there:
            rule = RULES[LOST.get(finding.rule, finding.rule)]
            why = f"right in the PTX and not in the machine code made of it: {finding.why}"
            yield replace(finding, rule=rule.name, why=why, fix=rule.fix)
        else:
            yield finding
