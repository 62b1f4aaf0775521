"""Which atomics count arrivals: their value is compared with one number, by the thread that drew it or by
others, which have it through the warp or through shared memory.

Example: `if (threadIdx.x == 0) last = atomicAdd(counter, 1); __syncthreads(); if (last != all - 1) return;`
A tile's number that is drawn the same way says where the tile lies, and is no ticket.
"""

import re

from wavesim.lint.code import Code
from wavesim.lint.instruction import ACCESSES, COPIES, Op, is_shuffle

_EQUAL = re.compile(r"\.(eq|ne|EQ|NE)\b")


def tickets_of(code: Code) -> frozenset[int]:
    """The accesses whose value, perhaps plus a number, is compared for equality; no coordinates of a copy."""
    placing = _placing(code)
    compares = [i for i in code.having(Op.COMPARE) if _EQUAL.search(code[i].text)]
    compared = {s for i in compares for used in code[i].uses for s in _passed_on(code, used, i, placing)}
    copies = code.having(*COPIES)
    placed = {s for i in copies for used in code[i].uses for s in code.sources(used, i)}
    return frozenset(i for i in compared - placed if not _only_resets(code, i))


def _only_resets(code: Code, index: int) -> bool:
    """Whether whoever draws the last number only sets counters back, as all others have passed."""
    branches = frozenset(code.deciders(index))
    accesses = [i for i in code.having(*ACCESSES, *COPIES) if code.is_global(i) and branches & code.guards(i)]
    return bool(accesses) and all(code[i].op is not Op.LOAD and code.constant(i) == 0 for i in accesses)


def _placing(code: Code) -> frozenset[int]:
    places = [
        (i, instruction.address.base)
        for i, instruction in enumerate(code.instructions)
        if instruction.address
    ]
    return frozenset(s for i, base in places if code.is_global(i) for s in code.sources(base, i))


def _passed_on(code: Code, register: str, at: int, placing: frozenset[int]) -> set[int]:
    """The accesses whose value a register holds: moved, added to, or broadcast in the warp or block."""
    places_of_tickets: set[int] = set()
    open_ends, seen = [(register, at)], {(register, at)}
    while open_ends:
        for index in code.flow.definitions(*open_ends.pop()):
            if index < 0:
                continue
            if code[index].op in ACCESSES:
                places_of_tickets.add(index)
            for before in set(_passing(code, index, placing)) - seen:
                seen.add(before)
                open_ends.append(before)
    return places_of_tickets


def _passing(code: Code, index: int, placing: frozenset[int]) -> list[tuple[str, int]]:
    instruction = code[index]
    if (
        instruction.op is Op.LOAD
        and instruction.space == "shared"
        and code.deciders(index)
        and index not in placing
    ):
        return [(used, at) for at in code.left_in_shared(index) for used in code.stored(at)]
    is_passed = instruction.op in (Op.MOVE, Op.ADD) or is_shuffle(instruction)
    return [(used, index) for used in set(instruction.uses) - set(instruction.scaled)] if is_passed else []
