"""What a kernel stores where a wait has run out of time: notes for the host, which no post announces.

Example: `if (expired) { atomicExch(&errors->aborted, 1); errors->waiters[n] = who; return false; }` in a spin
that also ends where `errors->aborted` is set.
"""

from collections.abc import Hashable, Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.control import CodeLoop
from wavesim.lint.instruction import Op
from wavesim.lint.sites import FlagWait


def timeout_notes(code: Code, waits: Iterable[FlagWait]) -> frozenset[int]:
    """The stores beside a flag that aborts a timed spin; no way leads to them from where it succeeds."""
    stores = [i for i in code.having(Op.STORE) if code.is_global(i)]
    return frozenset(store for wait in waits for store in _of_spin(code, wait, stores))


def _of_spin(code: Code, wait: FlagWait, stores: Iterable[int]) -> Iterator[int]:
    loop = wait.loop
    if loop is None or len(wait.polls) < 2 or not any(code[i].op is Op.CLOCK for i in loop.body):
        return
    left = frozenset[int]().union(
        *(code.reach(i) for branch in loop.exits for i in _ways_out(code, branch, loop))
    )
    for store in left.intersection(stores):
        own = _memory(code, store)
        others = [poll for poll in wait.polls if _memory(code, poll) != own]
        succeeded = [i for poll in others for i in _ends(code, poll, loop)]
        if own and 0 < len(others) < len(wait.polls) and any(store not in code.reach(i) for i in succeeded):
            yield store


def _ends(code: Code, poll: int, loop: CodeLoop) -> list[int]:
    return [
        i for branch in code.deciders(poll) if branch in loop.exits for i in _ways_out(code, branch, loop)
    ]


def _ways_out(code: Code, branch: int, loop: CodeLoop) -> list[int]:
    return [i for i in code.onward(branch) if i not in loop.body]


def _memory(code: Code, access: int) -> frozenset[Hashable]:
    """The parameters that an address comes from, or the places of the stack that hold the pointers."""
    address = code[access].address
    if code.roots(access) or address is None:
        return code.roots(access)
    places = (i for i in code.sources(address.base, access) if code[i].space == "local")
    return frozenset(code.flow.value_of_address(i) for i in places)
