"""Both sides of a protocol are there: who waits has somebody who posts, and the other way round.

Example: of two kernels one posts tile by tile, and the other reads with no wait at all.
"""

from collections.abc import Iterator, Sequence

from wavesim.lint.code import ACCESSES, STRONG, Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line
from wavesim.lint.rules.waiting import LOADS, is_data_load
from wavesim.lint.sides import Side


def judge_sides(sides: Sequence[Side]) -> Iterator[Finding]:
    """What is missing at one side, over the kernels of a file."""
    polling = [side for side in sides if side.polls]
    posting = [side for side in sides if side.announces]
    has_trigger = any(any(True for _ in side.code.having(Op.GRID_TRIGGER)) for side in sides)
    for side in sides:
        if side.waits or side.waits_for_grid:
            continue
        if side.posts:
            if not has_trigger:
                yield from _reads_unawaited(side)
                yield from _asks_in_vain(side)
            continue
        is_pair = len(sides) == 2
        if posting and (is_pair or _has_flag(side)):
            yield from _no_wait(side, posting[0])
        elif polling and not posting and (is_pair or _has_flag(side)):
            yield from _no_post(side, polling[0])
        elif any(other.waits_for_grid for other in sides):
            yield _ends(side)


def _has_flag(side: Side) -> bool:
    """Whether the user says that one of this kernel's parameters is a flag."""
    return any(name.startswith(f"{side.code.kernel.name}:") for name in side.code.known.flags)


def _no_wait(side: Side, posting: Side) -> Iterator[Finding]:
    code = side.code
    loads = [i for i in code.having(*LOADS) if is_data_load(code, i)]
    if loads:
        why = (
            f"{posting.code.kernel.name} posts, and {code.kernel.name} loads data with no wait in "
            f"{line(code[min(loads)])}"
        )
        yield judged(code, "no-wait", min(loads), why)


def _reads_unawaited(side: Side) -> Iterator[Finding]:
    """What the user calls produced, read by a kernel that posts and waits for nobody: its turn is lost."""
    code = side.code
    loads = [i for i in code.having(*LOADS) if code.is_("produced", i) and is_data_load(code, i)]
    if loads:
        why = f"{line(code[min(loads)])} loads what others write meanwhile, and the kernel has no wait"
        yield judged(code, "no-wait", min(loads), why)


def _asks_in_vain(side: Side) -> Iterator[Finding]:
    """A flag that the kernel posts is looked at and compared, and the answer decides nothing."""
    code = side.code
    posted = {code.roots(post.at) for post in side.posts} - {frozenset()}
    asked = [i for i in code.having(Op.LOAD) if code[i].order in STRONG and code.roots(i) in posted]
    for i in set(asked) & _used_by(code, Op.COMPARE) - _used_by(code, *ACCESSES):
        loads = [at for at in code.having(*LOADS) if code.flow.can_follow(i, at) and is_data_load(code, at)]
        if loads and not code.deciders(i):
            why = (
                f"{line(code[i])} looks at the flag and the answer decides nothing: {line(code[min(loads)])} "
                "loads whatever it was"
            )
            yield judged(code, "no-wait", min(loads), why, (i,))
            return


def _used_by(code: Code, *ops: Op) -> set[int]:
    """What the operands of such instructions are made of."""
    return {source for i in code.having(*ops) for used in code[i].uses for source in code.sources(used, i)}


def _no_post(side: Side, polling: Side) -> Iterator[Finding]:
    """A kernel that stores nothing has nothing to announce."""
    code = side.code
    stores = [
        i for i in code.having(Op.STORE, Op.BULK_STORE) if code[i].op is Op.BULK_STORE or code.is_global(i)
    ]
    if stores:
        why = f"{polling.code.kernel.name} waits for a flag, and {code.kernel.name} posts none"
        yield judged(code, "no-post", max(stores), why)


def _ends(side: Side) -> Finding:
    why = "it needs no post: the kernel that depends on it waits until its whole grid has ended"
    return judged(side.code, "one-sided-dependent-launch", None, why, verdict="right")
