"""What the rules share: how a finding is made, what scope is needed, how far order must be handed on."""

from wavesim.lint.code import Code, ThreadTest, width
from wavesim.lint.finding import Finding, Verdict
from wavesim.lint.instruction import Instruction
from wavesim.lint.one_thread import WARP_BITS
from wavesim.lint.rules import RULES

NONE, WARP, BLOCK = 0, 1, 2  # how far a synchronisation reaches


def judged(
    code: Code, rule: str, at: int | None, why: str, others: tuple[int, ...] = (), verdict: Verdict = "wrong"
) -> Finding:
    """A finding by a rule of `rules`, of instruction `at`."""
    return Finding(
        kernel=code.kernel.name,
        kind=RULES[rule].about,
        rule=rule,
        verdict=verdict,
        why=why,
        fix=RULES[rule].fix if verdict == "wrong" else "",
        instruction=None if at is None else code[at],
        others=tuple(code[i] for i in others),
        where=code.where,
    )


def line(instruction: Instruction) -> str:
    """Where it stands in the listing."""
    return f"line {instruction.listing_line}"


def need_of(code: Code, flag: int) -> int:
    """The width of the scope that a flag needs: the GPU's, or the system's where it lies on another GPU."""
    return width("sys" if code.is_("remote", flag) else "gpu")


def _spans_warps(role: frozenset[ThreadTest], extra: frozenset[ThreadTest]) -> bool:
    """Whether a further test chooses among a role's warps: both look at more of the index than a lane's."""
    return all(test.kind == "some" for test in role) and any(test.kind == "some" for test in extra)


def sync_needed(code: Code, narrow: int, wide: int) -> int:
    """How far a synchronisation must reach between two instructions, the first run by fewer threads."""
    few, many = code.threads(narrow), code.threads(wide)
    extra = few - many
    if not extra or any(test.kind == "thread" for test in many):
        return NONE
    if 0 < code.kernel.threads <= 1 << WARP_BITS:
        return WARP
    # One of a role's lanes has its warp to bring along; where the role is of several, the warps are to meet.
    is_of_role = bool(many) and many <= few and not _spans_warps(many, extra)
    if not is_of_role and any(test.kind != "lane" for test in extra):
        return BLOCK
    return WARP


def between_threads(code: Code, place: int, other: int) -> int:
    """How far a synchronisation must reach between what two threads run that the code names by numbers."""
    first, second = code.flow.thread_number(place), code.flow.thread_number(other)
    if first is None or second is None or first == second:
        return NONE
    return WARP if first >> WARP_BITS == second >> WARP_BITS else BLOCK
