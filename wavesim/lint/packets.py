"""Words that hold a flag and its data: what is read in one access needs no order behind it.

Example: CUB's look-back polls eight bytes, of which four are compared and four are added on; NCCL's LL
protocol polls sixteen. Counters of 64 bits are compared in both halves, and are none.
"""

import re
from collections.abc import Iterable

from wavesim.lint.addresses import POINTER_BYTES
from wavesim.lint.code import Code
from wavesim.lint.instruction import Op
from wavesim.lint.sites import FlagWait

_OF_VALUES = re.compile(r"MNMX|\b[FHD]SETP|\bsetp\.(\w+\.)+b?f\d")  # no flag is a float or a minimum


def carries_data(code: Code, wait: FlagWait) -> bool:
    """Whether a flag and its data are polled in one word."""
    return any(is_packet(code, poll) for poll in wait.polls)


def packet_flags(code: Code, waits: Iterable[FlagWait]) -> set[frozenset[str]]:
    """Where such words lie that the kernel polls, by parameter or symbol."""
    return {code.roots(wait.at) for wait in waits if carries_data(code, wait)} - {frozenset()}


def is_packet(code: Code, poll: int) -> bool:
    """Whether an access reads a flag and its data: it is stored on, or a part of it is never tested."""
    if code[poll].bytes >= 2 * POINTER_BYTES and poll in code.kept:
        return True
    parts = code[poll].defines
    return len(parts) > 1 and len({_is_tested(code, poll, part) for part in parts} - {None}) > 1


def _is_tested(code: Code, index: int, register: str) -> bool | None:
    """Whether a register that an access loads is compared; None where nothing uses it.

    Of what is moved on the copies count; arithmetic and stores are no tests.
    """
    uses = [(index, register)]
    seen: set[int] = set()
    while uses:
        at, name = uses.pop()
        for i in code.flow.readers(name):
            if i in seen or at not in code.flow.definitions(name, i):
                continue
            seen.add(i)
            is_compared = code[i].op is Op.COMPARE and not _OF_VALUES.search(code[i].text)
            if is_compared or code[i].guard.lstrip("!") == name:
                return True
            if code[i].op is Op.MOVE:
                uses += [(i, copy) for copy in code[i].defines]
    return False if seen else None
