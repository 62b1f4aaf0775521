"""What the rules share: how a finding is made, what scope is needed, how far order must be handed on."""

import re

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding, Kind, Verdict
from wavesim.lint.flow import ThreadTest
from wavesim.lint.instruction import Instruction, Op, width
from wavesim.lint.one_thread import WARP_BITS
from wavesim.lint.paths import walk
from wavesim.lint.rules import RULES

_MULTICAST = re.compile(r"^(@\S+ )?(multimem|RED\w*\.\S*MM|REDGMC|STGMC)\b")  # memory of several GPUs
NONE, WARP, BLOCK = 0, 1, 2  # how far a synchronisation reaches


def judged(
    code: Code,
    rule: str,
    at: int | None,
    why: str,
    others: tuple[int, ...] = (),
    verdict: Verdict = "wrong",
    kind: Kind | None = None,
) -> Finding:
    """A finding by a rule of `rules`, of instruction `at`; of the rule's kind, unless one is given."""
    return Finding(
        kernel=code.kernel.name,
        kind=kind or RULES[rule].about,
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
    return width("sys" if code.is_("remote", flag) or _MULTICAST.search(code[flag].text) else "gpu")


def _spans_warps(role: frozenset[ThreadTest], extra: frozenset[ThreadTest]) -> bool:
    """Whether a further test chooses among a role's warps: both look at more of the index than a lane's."""
    return all(test.kind == "some" for test in role) and any(test.kind == "some" for test in extra)


def sync_needed(code: Code, narrow: int, wide: int) -> int:
    """How far a synchronisation must reach between two instructions, the first run by fewer threads."""
    few, many = code.threads(narrow), code.threads(wide)
    extra = few - many
    if not extra or any(test.kind == "thread" for test in many):
        return NONE
    if code.is_one_warp:
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


def are_apart(code: Code, first: int, second: int) -> bool:
    """Whether a test of the thread's index lets each thread run one of the two at most."""
    common = code.thread_guards([first]) & code.thread_guards([second])
    outcomes = [(code.outcome(guard, first), code.outcome(guard, second)) for guard in common]
    return any(None not in pair and pair[0] != pair[1] for pair in outcomes)


def is_reached(code: Code, first: int, second: int, stops: frozenset[Op]) -> bool:
    """Whether a way from after one (-1: the entry) to the other has none of these operations."""
    return code.flow.path_without(first, second, lambda i: i.op in stops) is not None


def is_handed_on(code: Code, first: int, second: int) -> bool | None:
    """Whether a barrier orders what some warps run before what others do; None where none of theirs says so.

    The first ones arrive at it, all of them, behind `first`; the others wait at it, and do not only arrive.
    """
    barriers = [*code.having(Op.BARRIER), *code.having(Op.BARRIER_ARRIVE)]
    own = code.thread_guards([first])
    arrived = {
        barrier_number(code, i) for i in barriers if i in code.reach(first) and code.thread_guards([i]) <= own
    }
    before = [i for i in barriers if second in code.reach(i) and not are_apart(code, i, second)]
    awaited = {barrier_number(code, i) for i in before if code[i].op is Op.BARRIER}
    if arrived & awaited:
        return True
    others = [*code.having(Op.MBARRIER_TEST), *code.having(Op.CLUSTER_WAIT)]
    if any(second in code.reach(i) for i in others):
        return None
    here = {barrier_number(code, i) for i in before} | arrived
    is_meant = any(i in code.reach(first) for i in barriers) and bool(before)
    return False if is_meant and None not in here else None


def slips_past(code: Code, barrier: int, beside: int, target: int | None) -> bool:
    """Whether threads that run `beside`, and that their index parts from a barrier, go on without one
    to `target` (None: the end).
    """
    ops = frozenset({Op.BARRIER, Op.BARRIER_ARRIVE} if target is None else {Op.BARRIER})
    # Groups of warps that have a barrier each do not wait for each other.
    alike = {barrier_number(code, i) for i in code.having(Op.BARRIER) if code[i].value == code[barrier].value}
    parting = code.thread_guards([barrier]) - code.thread_guards([beside]) if len(alike) == 1 else set()
    is_end = target is None

    def following(i: int) -> list[int]:
        """Where all threads take one way, the way to the barrier; where they part, both."""
        ways = code.forward(i)
        return [
            way for way in ways if i in parting or barrier not in code.reach(i) or barrier in code.reach(way)
        ]

    def step(i: int, state: bool) -> bool | None:
        return None if code[i].op in ops or i == target else state

    starts = [(way, True) for way in (following(beside) if is_end else following(0))] if parting else []
    reached = {i for i, _ in walk(following, starts, step) if code[i].op not in ops}
    if not is_end:
        return target in reached
    return any(not code.onward(i) or (i in parting and code[i].op in (Op.EXIT, Op.RETURN)) for i in reached)


def counted_threads(code: Code, barrier: int) -> int | None:
    """How many threads a block barrier counts: 0 for all of the block, None where that is not in the code."""
    instruction = code[barrier]
    if instruction.value is not None:
        return instruction.value
    operands = instruction.text.rstrip("; ").split(",")
    is_vote = bool(instruction.defines)  # its answer is an operand of its own
    if len(operands) < 2 or is_vote:
        return 0
    return code.moved(operands[-1].strip(), barrier)


def barrier_number(code: Code, barrier: int) -> int | None:
    """The number of a block barrier, where it is one in the code."""
    count, uses = code[barrier].count, code[barrier].uses
    return code.moved(uses[0], barrier) if count is None and uses else count
