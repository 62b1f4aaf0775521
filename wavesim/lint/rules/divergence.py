"""A barrier is reached by all the threads that it counts.

Example: `if (threadIdx.x == 0) __syncthreads();` waits for threads that never come.

Source: PTX ISA 9.0, section 9.7.13.1 (barrier).
"""

import re
from collections.abc import Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import ACCESSES, STRONG, Op
from wavesim.lint.judging import counted_threads, judged, line
from wavesim.lint.paths import walk

_RUN_TIME = re.compile(r"\bc\[0x|%n?ctaid|%ntid|%n?cluster|SR_(NTID|CTAID|NCTAID|C[gG])")
# What is not judged here: barriers that some arrive at, and waits of other kinds.
_OTHERS = (Op.BARRIER_ARRIVE, Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT, Op.MBARRIER_TEST, Op.CALL)
_WORK = ACCESSES | {Op.BARRIER}
_ORDER = re.compile(r"\.(gt|ge|lt|le|GT|GE|LT|LE)\b")


def judge_barriers(code: Code) -> Iterator[Finding]:
    """Barriers of all the block's threads that one thread of it runs."""
    for i in code.having(Op.BARRIER):
        if code.flow.is_one_thread(i) and code.kernel.threads != 1 and _is_of_all(code, i):
            why = f"one thread reaches the barrier in {line(code[i])}, which waits for all of the block"
            yield judged(code, "divergent-barrier", i, why)
            return
        if _is_of_all(code, i) and (passed := _passed_by(code, i)):
            why = (
                f"a test of the thread's index decides whether the barrier in {line(code[i])} is reached, "
                f"and those that pass it by go on to {line(code[passed[1]])} instead of ending"
            )
            yield judged(code, "divergent-barrier", i, why, passed)
            return
        if _is_of_all(code, i) and (load := _own_turns(code, i)) is not None:
            why = (
                f"the barrier in {line(code[i])} is in a loop whose turns each thread reads for itself, in "
                f"{line(code[load])}"
            )
            yield judged(code, "divergent-barrier", i, why, (load,))
            return
        count = counted_threads(code, i) or 0
        if (most := _threads_at(code, i)) > count > 0 and count % 32 == 0:
            why = f"{most} threads reach the barrier in {line(code[i])}, which counts {count}"
            yield judged(code, "divergent-barrier", i, why)
            return


def judge_barriers_alone(code: Code) -> list[Finding]:
    """That all barriers are in order, of a kernel in which nothing else keeps threads together."""
    barriers = list(code.having(Op.BARRIER))
    shared = [i for i in code.having(*ACCESSES) if code[i].space.startswith("shared")]
    is_polled = any(code[i].op is Op.ATOMIC or code[i].order in STRONG for i in shared)
    if not barriers or is_polled or any(True for _ in code.having(*_OTHERS)):
        return []
    if all(_is_of_all(code, i) and all(_is_same_for_all(code, g) for g in code.guards(i)) for i in barriers):
        why = f"all threads of the block reach the barrier in {line(code[barriers[0]])} and all others"
        return [judged(code, "divergent-barrier", barriers[0], why, verdict="right")]
    return []


def _is_same_for_all(code: Code, guard: int) -> bool:
    """Whether all threads find the same: no thread index is in it, nor in an address it is read from."""
    made_by = code.test_of(guard)
    read = [i for i in made_by if code[i].op in ACCESSES]
    made_by = made_by.union(*(code.sources(used, i) for i in read for used in code[i].uses))
    return all(code[i].op is Op.LOAD for i in read) and not code.reads_thread(made_by)


def _passed_by(code: Code, index: int) -> tuple[int, int] | None:
    """The test by which some threads pass a barrier by, and what they then run with those that did not.

    None where they end (the others' barrier no longer counts them), or meet a barrier of their own. A loop's
    exit is no such test: its number of turns may be the same for all threads.
    """
    for guard in sorted(code.thread_guards([index])):
        if any(guard in loop.exits and index in loop.body for loop in code.flow.loops):
            continue
        if not _parts_threads(code, guard):
            continue
        ways = code.forward(guard)
        others = [way for way in ways if way != index and index not in code.reach(way)]
        shared = code.reach(index)

        def step(i: int, state: bool, shared: frozenset[int] = shared) -> bool | None:
            return None if code[i].op is Op.BARRIER and i not in shared else state

        starts = ways if guard == index else others
        met = [i for i, _ in walk(code.forward, [(way, True) for way in starts], step)]
        if after := [i for i in met if i != index and i in shared and code[i].op in _WORK]:
            return guard, min(after)
    return None


def _own_turns(code: Code, index: int) -> int | None:
    """The load from a place of each thread's own that alone says how often a loop around a barrier turns."""
    for loop in code.flow.loops:
        if index not in loop.body or len(loop.exits) != 1:
            continue
        made_by = code.test_of(loop.exits[0])
        loads = [i for i in made_by if code[i].op is Op.LOAD and code.is_global(i) and i not in loop.body]
        own = [i for i in loads if code[i].address is not None and code.reads_thread(_address_of(code, i))]
        if own and not any(
            code[i].op in (Op.BARRIER, Op.ATOMIC) or code[i].space == "shared" for i in made_by
        ):
            return min(own)
    return None


def _address_of(code: Code, i: int) -> frozenset[int]:
    address = code[i].address
    return code.sources(address.base, i) if address is not None and address.base else frozenset()


def _parts_threads(code: Code, guard: int) -> bool:
    """Whether the code alone says that it parts a block's threads: by their index and numbers.

    A size of run time may be a multiple of the block's, and what a barrier found is the same for all.
    """
    return not any(
        code[i].op is Op.BARRIER
        or code[i].op in ACCESSES
        or code[i].symbols
        or _RUN_TIME.search(code[i].text)
        for i in code.test_of(guard)
    )


def _threads_at(code: Code, index: int) -> int:
    """How many threads run it, where one test of the thread's index against a number says so; else 0."""
    guards = list(code.thread_guards([index]))
    tests = [i for guard in guards for i in code.test_of(guard) if code[i].op is Op.COMPARE]
    if len(guards) != 1 or len(tests) != 1:
        return 0
    order, bound = _ORDER.search(code[tests[0]].text), code[tests[0]].value
    holds = code.outcome(guards[0], index)
    if not order or bound is None or holds is None or holds != (order[1].lower() in ("lt", "le")):
        return 0
    return bound + (order[1].lower() in ("gt", "le"))


def _is_of_all(code: Code, index: int) -> bool:
    return counted_threads(code, index) == 0
