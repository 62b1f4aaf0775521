"""The kernels of a file as sides of one protocol: a wait has a post, a dependent launch its grid wait.

Example: of two kernels one posts tile by tile, and the other reads with no wait at all. If a consumer polls
and its producer ends on a relaxed store, that store must be the post, and is judged as a post.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wavesim.lint.addresses import POINTER_BYTES
from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import ACCESSES, STRONG, Op
from wavesim.lint.judging import judged, line
from wavesim.lint.packets import carries_data
from wavesim.lint.rules.posting import is_data_store
from wavesim.lint.rules.waiting import LOADS, is_data_load
from wavesim.lint.sites import FlagPost, FlagWait, candidates_of, posts_of, waits_of


@dataclass(frozen=True)
class Side:
    """One kernel with its waits and posts."""

    code: Code
    waits: tuple[FlagWait, ...]
    posts: tuple[FlagPost, ...]

    @property
    def polls(self) -> bool:
        """Whether it waits for a flag that somebody else posts, and that comes in no word with its data."""
        return any(wait.form != "ticket" and not carries_data(self.code, wait) for wait in self.waits)

    @property
    def announces(self) -> bool:
        """Whether it posts other than by drawing a ticket, for certain."""
        tickets = {wait.at for wait in self.waits if wait.form == "ticket"}
        return any(post.is_certain and post.at not in tickets for post in self.posts)

    @property
    def waits_for_grid(self) -> bool:
        """Whether it has a griddepcontrol.wait."""
        return any(True for _ in self.code.having(Op.GRID_WAIT))


def side_of(code: Code) -> Side:
    """The kernel with what it says by itself."""
    waits = waits_of(code)
    return Side(code, waits, posts_of(code, waits))


def with_posts(sides: Sequence[Side]) -> list[Side]:
    """The same; where some kernel polls and none posts, what may be a post is one."""
    if not any(side.polls for side in sides) or any(side.announces for side in sides):
        return list(sides)
    return [
        replace(side, posts=_certain(side.posts) or (() if side.polls else candidates_of(side.code)))
        for side in sides
    ]


def _certain(posts: Sequence[FlagPost]) -> tuple[FlagPost, ...]:
    return tuple(replace(post, is_certain=True) for post in posts)


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
        if words := _words(side, sides):
            why = f"{line(side.code[words[0]])} stores data and flag in one word, which is polled and read"
            yield judged(side.code, "no-release", words[0], why, verdict="right")
            continue
        is_pair = len(sides) == 2
        if posting and (is_pair or _has_flag(side)):
            yield from _no_wait(side, posting[0])
        elif polling and not posting and (is_pair or _has_flag(side)):
            yield from _no_post(side, polling[0])
        elif any(other.waits_for_grid for other in sides):
            yield _ends(side)


def _words(side: Side, sides: Sequence[Side]) -> list[int]:
    """The strong stores of words of flag and data, where a kernel of the file polls such words."""
    is_read = any(carries_data(other.code, wait) for other in sides for wait in other.waits)
    stores = side.code.having(Op.STORE) if is_read else ()
    return [i for i in stores if side.code[i].order in STRONG and side.code[i].bytes >= 2 * POINTER_BYTES]


def _has_flag(side: Side) -> bool:
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
    return {source for i in code.having(*ops) for used in code[i].uses for source in code.sources(used, i)}


def _no_post(side: Side, polling: Side) -> Iterator[Finding]:
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


_ATTRIBUTE = "launched with cudaLaunchAttributeProgrammaticStreamSerialization"


def judge_dependents(sides: Sequence[Side]) -> Iterator[Finding]:
    """Over the kernels of a file: triggers with nobody who waits for the grid."""
    for side in sides:
        code = side.code
        trigger = next(code.having(Op.GRID_TRIGGER), None)
        if trigger is None:
            continue
        # A chain of launches of one kernel depends on itself.
        dependents = [other for other in sides if other is not side or side.waits_for_grid]
        unwired = [other for other in dependents if _reads_at_once(other)]
        if not dependents:
            why = f"{line(code[trigger])} lets the next kernel start, and the next kernel is not in this file"
            yield judged(code, "one-sided-dependent-launch", trigger, why, verdict="unknown")
        elif len(unwired) == len(dependents):
            yield from _one_sided(code, trigger, unwired[0].code)
        elif said := [other for other in unwired if other is not side and _reads_produced(other)]:
            yield from _one_sided(code, trigger, said[0].code)
        else:
            why = f"a kernel of this file waits for what {line(code[trigger])} lets start early"
            yield judged(code, "one-sided-dependent-launch", trigger, why, verdict="right")


def _reads_at_once(side: Side) -> bool:
    if side.waits or side.waits_for_grid:
        return False
    return any(is_data_load(side.code, i) for i in side.code.having(*LOADS))


def _reads_produced(side: Side) -> bool:
    code = side.code
    return code.says_produced and any(code.is_("produced", i) for i in code.having(*LOADS))


def _one_sided(code: Code, trigger: int, dependent: Code) -> Iterator[Finding]:
    why = (
        f"{line(code[trigger])} lets dependents start, and {dependent.kernel.name} loads data with no "
        f"griddepcontrol.wait: wrong where it is {_ATTRIBUTE}"
    )
    yield judged(code, "one-sided-dependent-launch", trigger, why)
    stores = [
        i
        for i in code.having(Op.STORE, Op.BULK_STORE, Op.REDUCTION)
        if is_data_store(code, i, ()) and code.flow.can_follow(i, trigger)
    ]
    if stores:
        why = (
            f"{line(code[trigger])} says nothing of the stores before it, as {line(code[stores[0]])}, and "
            f"{dependent.kernel.name} has nothing else to go by"
        )
        yield judged(code, "trigger-as-release", trigger, why, (stores[0],))
