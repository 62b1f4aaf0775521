"""Where a kernel waits for another block or kernel, and where it posts.

Example: in `while (load_relaxed(flag) < 4) ;` the load is the poll of a FlagWait of form "spin"; in
`if (threadIdx.x == 0) add_release(flag, 1)` the reduction is a FlagPost.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from wavesim.lint.code import Code
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import ACCESSES, ACQUIRES, RELEASES, STRONG, Op
from wavesim.lint.paths import walk
from wavesim.lint.tickets import tickets_of

# Operations of an atomic that is taken for a poll where it stores back what it read.
_STORED = frozenset({Op.BULK_WAIT, Op.BULK_WAIT_READ})
_SHOWN = frozenset({Op.BARRIER, Op.CLUSTER_WAIT})
_READS_ONLY = re.compile(r"\.(add|ADD|or|OR|xor|XOR|max|MAX|inc|INC)\b")
_COMPARES = re.compile(r"\.(cas|CAS)\b")
_SWAPS = re.compile(r"\.(cas|CAS|exch|EXCH)\b")
_CLOCK = re.compile(r"%(globaltimer|clock)|SR_(GLOBALTIMER|CLOCK)|CLOCK(LO|HI)?\b")
_SUMS = re.compile(r"\b(LDGMC|multimem\.ld_reduce)\b")  # several GPUs' data, added up
_FLOAT = re.compile(r"\.(b?f16|f32|f64|F16|BF16|F32|F64|v2|v4|b?f16x2|noftz)\b|\.F\d\d|\.BF16")


@dataclass(frozen=True)
class FlagWait:
    """`polls` are the accesses whose value ends it. `loop` is None of a "look", which is made once.

    A "ticket" is an atomic that counts arrivals: whoever draws the last one goes on to read what all wrote.
    `ahead` are looks in front of a spin that may end it before its first poll.
    """

    form: Literal["spin", "look", "ticket"]
    polls: tuple[int, ...]
    loop: CodeLoop | None = None
    ahead: tuple[int, ...] = ()

    @property
    def at(self) -> int:
        """The first of its polls."""
        return self.polls[0]


@dataclass(frozen=True)
class FlagPost:
    """`is_certain` where it is known to be one, by what it does or what polls it; else its place says so.

    `releases` where it does by itself or by a fence right before it.
    """

    at: int
    is_certain: bool
    releases: bool = True


def waits_of(code: Code) -> tuple[FlagWait, ...]:
    """The kernel's waits for flags in global memory, in the order of the listing."""
    spins = list(_spins(code))
    polled = {poll for wait in spins for poll in wait.polls}
    roots = _roots_of_lone_polls(code, spins)
    # A look whose value a spin's exit tests is that spin's first poll, a ticket what it waits for.
    exits = {branch for wait in spins if wait.loop for branch in wait.loop.exits}
    looks = [
        wait
        for wait in _single(code, roots)
        if wait.at not in polled and exits.isdisjoint(code.deciders(wait.at))
    ]
    return tuple(sorted((*spins, *looks), key=lambda wait: wait.at))


def _spins(code: Code) -> Iterator[FlagWait]:
    seen: set[int] = set()
    # Inner loops come last and are what is spun in; an outer one does work between.
    for loop in reversed(code.flow.loops):
        polls = tuple(
            i for i in sorted(_deciding(code, loop)) if i not in seen and code.flow.loop_of(i) == loop
        )
        polls = tuple(i for i in polls if _is_poll(code, i, loop))
        if _does_work(code, loop) and not any(code.is_("flags", poll) for poll in polls):
            continue
        seen.update(polls)
        if polls:
            yield FlagWait("spin", polls, loop, tuple(_ahead(code, polls, loop)))


def _ahead(code: Code, polls: Iterable[int], loop: CodeLoop) -> Iterator[int]:
    """Strong loads of what is polled in front of the loop, whose values end it as its own polls do."""
    flags = {code.roots(poll) for poll in polls}
    for i in code.having(Op.LOAD):
        is_flag = i not in loop.body and code[i].order in STRONG and code.roots(i) in flags
        if is_flag and not set(loop.exits).isdisjoint(code.deciders(i)):
            yield i


def _deciding(code: Code, loop: CodeLoop) -> set[int]:
    deciding = {i for branch in loop.exits for i in code.values_behind(branch)}
    return {
        i for i in deciding if i in loop.body and code[i].op in (Op.LOAD, Op.ATOMIC) and code.is_global(i)
    }


def _is_poll(code: Code, index: int, loop: CodeLoop) -> bool:
    """Whether it looks at one place again and again: not at the next element, and without taking a number."""
    instruction = code[index]
    if instruction.op is Op.ATOMIC:
        return _leaves_memory(code, index) or (is_swap(code, index) and not _is_retry(code, index))
    if code.is_("flags", index) or instruction.order in STRONG:
        return not is_of_own_block(code, index) and not _SUMS.search(instruction.text)
    return (
        instruction.order in ("weak", "nc")
        and _is_invariant(code, index, loop)
        and not _has_stores(code, loop)
    )


def is_of_own_block(code: Code, index: int) -> bool:
    """Whether it is what a block tells itself across a barrier: ordinary stores of the kernel go there."""
    weak = [i for i in code.having(Op.STORE) if code[i].order == "weak" and code.is_global(i)]
    told = [i for i in weak if code.constant(i) is None and code.flow.same_address(i, index)]
    return code[index].op is Op.LOAD and bool(told) and any(True for _ in code.having(Op.BARRIER))


def _does_work(code: Code, loop: CodeLoop) -> bool:
    return any(code[i].op in (Op.ASYNC_COPY, Op.BULK_LOAD, Op.BULK_STORE) for i in loop.body)


def _is_invariant(code: Code, index: int, loop: CodeLoop) -> bool:
    address = code[index].address
    if address is None or not address.base:
        return address is not None
    return not any(d in loop.body for d in code.flow.definitions(address.base, index))


def _has_stores(code: Code, loop: CodeLoop) -> bool:
    return any(code[i].op in (Op.STORE, Op.REDUCTION) for i in loop.body)


def _leaves_memory(code: Code, index: int) -> bool:
    if _COMPARES.search(code[index].text):
        return _swaps_for_same(code, index)
    return bool(_READS_ONLY.search(code[index].text)) and code.constant(index) == 0


def _swaps_for_same(code: Code, index: int) -> bool:
    """Whether a compare-and-swap stores what it compares with: the same register twice, or one constant."""
    words = [word.strip() for word in code[index].text.rpartition("]")[2].split(",") if word.strip()]
    if len(words) != 2 or words[0] == words[1]:
        return len(words) == 2
    values = [code.moved(word, index) for word in words]
    return values[0] is not None and values[1] is not None and (values[0] - values[1]) % 2**32 == 0


def is_swap(code: Code, index: int) -> bool:
    """Whether it is an atomic exchange or compare-and-swap."""
    return bool(_SWAPS.search(code[index].text))


def _is_retry(code: Code, index: int) -> bool:
    """Whether what it stores is made of what it or a load read before: an addition by compare-and-swap."""
    made_of = {i for register in code.stored(index) for i in code.sources(register, index)}
    return any(code[i].op in (Op.LOAD, Op.ATOMIC) and code.is_global(i) for i in made_of)


def _single(code: Code, polled: frozenset[str]) -> Iterator[FlagWait]:
    tickets = tickets_of(code)
    for i in code.having(Op.LOAD, Op.ATOMIC):
        if not code.is_global(i) or (code[i].op is Op.LOAD and code[i].order not in STRONG):
            continue
        if is_of_own_block(code, i):
            continue
        is_acquire = code[i].order in ACQUIRES or _is_dropped_at_once(code, i)
        if code[i].op is Op.ATOMIC and not _leaves_memory(code, i):
            if not is_swap(code, i) and i in tickets:
                yield FlagWait("ticket", (i,))
            elif is_acquire and is_swap(code, i) and code.deciders(i):
                yield FlagWait("look", (i,))
        elif code.deciders(i):
            is_flag = code.is_("flags", i) or (bool(code.roots(i)) and code.roots(i) <= polled)
            if is_acquire or is_flag:
                yield FlagWait("look", (i,))


def _is_dropped_at_once(code: Code, index: int) -> bool:
    following = code.instructions[index + 1 : index + 4]
    return any(instruction.op is Op.INVALIDATE for instruction in following)


def posts_of(code: Code, waits: tuple[FlagWait, ...]) -> tuple[FlagPost, ...]:
    """The kernel's posts: what releases, what the user calls a flag, and what stands where posts do."""
    polls = {poll for wait in waits for poll in wait.polls if wait.form != "ticket"}
    polled = _roots_of_lone_polls(code, waits)
    tickets = {wait.at for wait in waits if wait.form == "ticket"}
    has_lock = any(is_swap(code, poll) for poll in polls)
    posts = []
    for i in code.having(Op.STORE, Op.ATOMIC, Op.REDUCTION):
        if i in polls or not code.is_global(i) or _leaves_memory(code, i):
            continue
        if _is_reset(code, i, has_lock) or (i in tickets and not _is_read_after(code, i)):
            continue
        is_said = i in tickets or code.is_("flags", i) or _is_arrival(code, i, waits)
        if is_said or code[i].order in RELEASES or _is_fenced_at_once(code, i):
            posts.append(FlagPost(i, is_certain=True))
        elif code[i].op is Op.STORE and code[i].order in STRONG and _is_polled_there(code, i, polls):
            posts.append(FlagPost(i, is_certain=True, releases=False))
        elif _may_be_post(code, i) and bool(code.threads(i)):
            is_polled = bool(code.roots(i)) and code.roots(i) <= polled
            is_told = (
                code[i].op is not Op.STORE and code[i].scope == "sys"
            )  # no counter is kept for other GPUs
            if is_polled or is_told or comes_first(code, i, _STORED):
                posts.append(FlagPost(i, is_certain=True, releases=False))
            elif comes_first(code, i, _SHOWN):
                posts.append(FlagPost(i, is_certain=False, releases=False))
    return tuple(sorted(posts, key=lambda post: post.at))


def _is_polled_there(code: Code, index: int, polls: Iterable[int]) -> bool:
    return any(code.flow.same_address(index, poll) for poll in polls)


def _is_arrival(code: Code, index: int, waits: Iterable[FlagWait]) -> bool:
    """Whether a spin compares what an atomic returned with what it polls there: a grid barrier's phase."""
    exits = {branch for wait in waits if wait.loop for branch in wait.loop.exits}
    polled = {code.roots(wait.at) for wait in waits if wait.loop}
    is_atomic = code[index].op is Op.ATOMIC and bool(code.roots(index)) and code.roots(index) in polled
    return is_atomic and not exits.isdisjoint(code.deciders(index))


def _is_reset(code: Code, index: int, has_lock: bool) -> bool:
    """Whether it puts a flag back to zero, which announces nothing unless it opens a lock."""
    is_plain = code[index].order not in RELEASES and not _is_fenced_at_once(code, index)
    is_set = code[index].op is Op.STORE or is_swap(code, index)
    return is_set and is_plain and not has_lock and code.constant(index) == 0


def _is_read_after(code: Code, index: int) -> bool:
    return any(code.is_global(i) and code.flow.can_follow(index, i) for i in code.having(Op.LOAD))


def candidates_of(code: Code) -> tuple[FlagPost, ...]:
    """What else may be a post, where a file polls and has none."""
    strong = (i for i in code.having(Op.STORE, Op.ATOMIC, Op.REDUCTION) if code.is_global(i))
    return tuple(FlagPost(i, is_certain=True, releases=False) for i in strong if _may_be_post(code, i))


def _roots_of_lone_polls(code: Code, waits: Iterable[FlagWait]) -> frozenset[str]:
    """Of a loop that several loads end nobody knows which reads the flag, and which an abort flag."""
    lone = [wait.at for wait in waits if wait.loop is not None and _deciding(code, wait.loop) == {wait.at}]
    return frozenset(root for poll in lone for root in code.roots(poll))


def _may_be_post(code: Code, index: int) -> bool:
    """Whether it is a strong store of, or adds, a value that is made of no data and is no time."""
    instruction = code[index]
    if (
        (instruction.op is Op.ATOMIC and code.is_used(index))
        or instruction.order not in STRONG
        or _FLOAT.search(instruction.text)
    ):
        return False
    return not is_made_of_data(code, index) and not is_time(code, index)


def is_time(code: Code, index: int) -> bool:
    """Whether what it stores or adds was read from a clock: a record, which nobody waits for."""
    made_of = {i for register in code.stored(index) for i in code.sources(register, index)}
    return any(_CLOCK.search(code[i].text) for i in made_of)


def is_made_of_data(code: Code, index: int) -> bool:
    """Whether what it stores or adds comes from memory."""
    made_of = {i for register in code.stored(index) for i in code.sources(register, index)}
    return any(code[i].op in ACCESSES and code[i].space not in ("param", "const") for i in made_of)


def _is_fenced_at_once(code: Code, index: int) -> bool:
    """Whether a fence of the GPU's or the system's scope comes right before a strong access: a release.

    What is copied from shared memory, such as a tensor map, is no flag.
    """
    if code[index].order not in STRONG or _FLOAT.search(code[index].text) or _is_fetched(code, index):
        return False
    made_by = [i for used in code.stored(index) for i in code.flow.definitions(used, index) if i >= 0]
    if any(code[i].op is Op.LOAD and code[i].space == "shared" for i in made_by):
        return False
    return bool(comes_first(code, index, frozenset({Op.FENCE})))


def _is_fetched(code: Code, index: int) -> bool:
    return code[index].op is Op.ATOMIC and code.is_used(index)


def comes_first(code: Code, index: int, ops: frozenset[Op]) -> list[int]:
    """Those of `ops` that come, going back from it, before any access to memory of other blocks."""

    def step(i: int, state: bool) -> bool | None:
        if i == index:
            return state
        if code[i].op in ops:
            hits.append(i)
            return None
        if code[i].op in ACCESSES and code.is_global(i):
            return None
        return state

    hits: list[int] = []
    walk(code.backward, [(index, True)], step)
    return hits
