"""Whether an instruction runs in one thread of its block.

Example: after `mov %r1, %tid.x; setp.ne %p1, %r1, 0; @%p1 bra END` the instructions up to END do. So do those
under `tid / 32 == 0` and `tid % 32 == 0` together, and those of the thread that elect.sync chose.

A condition fixes some bits of the thread's number, low or high ones: together they must leave one thread.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from wavesim.lint.control import Control
from wavesim.lint.data_flow import DataFlow, opcode_of
from wavesim.lint.instruction import Instruction, Op

ALL_BITS = 32
WARP_BITS = 5
MOST_DEEP = 12  # steps from a predicate to the thread's number

_THREAD = re.compile(r"%tid\b|SR_TID\b")
_LANE = re.compile(r"%laneid\b|SR_LANEID\b")
_SHUFFLE = re.compile(r"\b(shfl|SHFL)\b")
_PREDICATE = re.compile(r"%p|U?P\d|p\b")
_SAME = (
    "mov",
    "cvt",
    "MOV",
    "UMOV",
    "R2UR",
    "S2R",
    "S2UR",
    "CS2R",
    "shfl",
    "SHFL",
    "add",
    "sub",
    "or",
    "mad",
    "IMAD",
)
_MASKS = ("and", "LOP3", "ULOP3")
_SHIFTS = ("shr", "SHF", "USHF")
_LOGIC = ("and", "or", "not", "mov")
_ARITHMETIC = frozenset((Op.MOVE, Op.ADD, Op.OTHER))
# Which bound fixes a number that is not negative, under which comparison and outcome.
_FIXED: dict[tuple[str, bool], int | None] = {
    ("eq", True): None,
    ("ne", False): None,
    ("lt", True): 1,
    ("ge", False): 1,
    ("le", True): 0,
    ("gt", False): 0,
}


class Bits(NamedTuple):
    """The thread's number from bit `low` on, below bit `high`; `value` is what these are, or -1."""

    low: int = 0
    high: int = ALL_BITS
    value: int = -1


class OneThread:
    """Answers for the instructions of one kernel, whose blocks have `threads` threads (0: not known)."""

    def __init__(self, data: DataFlow, control: Control, threads: int) -> None:
        self._data = data
        self._control = control
        self._threads = threads
        self._found: dict[tuple[int, bool], list[Bits]] = {}

    def holds(self, at: int) -> bool:
        """Whether at most one thread of the block runs instruction `at` (in one round of a loop)."""
        return self._leave_one(self._all_fixed(at))

    def number(self, at: int) -> int | None:
        """The number of the one thread that runs instruction `at`, where a comparison says so."""
        numbers = {bits.value for bits in self._all_fixed(at) if bits.low == 0 and bits.high >= ALL_BITS}
        return max(numbers) if len(numbers) == 1 and min(numbers) >= 0 else None

    def _all_fixed(self, at: int) -> list[Bits]:
        return [
            bits for place, truth in self._control.conditions(at) for bits in self._by_guard(place, truth)
        ]

    def _by_guard(self, place: int, truth: bool) -> list[Bits]:
        if (place, truth) not in self._found:
            guard = self._data.instructions[place].guard
            self._found[place, truth] = self._fixed(
                guard.lstrip("!"), place, truth != guard.startswith("!"), 0
            )
        return self._found[place, truth]

    def _leave_one(self, fixed: Sequence[Bits]) -> bool:
        needed = (self._threads - 1).bit_length() if self._threads else ALL_BITS
        known = 0
        for bits in sorted(fixed):
            if bits.low <= known:
                known = max(known, bits.high)
        return known >= needed

    def _fixed(self, predicate: str, at: int, truth: bool, depth: int) -> list[Bits]:
        """The bits of the thread's number that all threads share in which `predicate` is `truth`."""
        definitions = self._data.definitions(predicate, at)
        if len(definitions) != 1 or depth > MOST_DEEP:
            return []
        (place,) = definitions
        instruction = self._data.instructions[place]
        opcode = opcode_of(instruction)
        base = opcode.partition(".")[0]
        if base in ("elect", "ELECT"):
            return [Bits()] if truth else []
        if base in ("setp", "ISETP", "UISETP"):
            return self._by_comparison(place, truth, depth)
        if base in ("VOTE", "VOTEU"):
            return self._by_vote(place, truth, depth)
        return self._by_logic(place, truth, depth) if opcode.endswith("pred") and base in _LOGIC else []

    def _by_logic(self, place: int, truth: bool, depth: int) -> list[Bits]:
        instruction = self._data.instructions[place]
        base = opcode_of(instruction).partition(".")[0]
        # Both of "and" hold, both of "or" fail; otherwise one of the two is known, not which.
        if base in ("and", "or") and (base == "and") != truth:
            return []
        inner = truth != (base == "not")
        return [bits for used in instruction.uses for bits in self._fixed(used, place, inner, depth + 1)]

    def _by_vote(self, place: int, truth: bool, depth: int) -> list[Bits]:
        """A vote guards an instruction of uniform registers: any lane that is to run it runs it."""
        instruction = self._data.instructions[place]
        if (".ANY" in instruction.text) != truth or len(instruction.uses) != 1:
            return []
        is_negated = f"!{instruction.uses[0]}" in instruction.text
        return self._fixed(instruction.uses[0], place, truth != is_negated, depth + 1)

    def _by_comparison(self, place: int, truth: bool, depth: int) -> list[Bits]:
        instruction = self._data.instructions[place]
        words = opcode_of(instruction).lower().split(".")
        predicates = [used for used in instruction.uses if _PREDICATE.match(used)]
        bits_of_all: list[Bits] = []
        if predicates and truth:  # setp.and, ISETP.AND: the comparison and another predicate
            if "and" not in words:
                return []
            for predicate in predicates:
                is_negated = f"!{predicate}" in instruction.text.partition(" ")[2]
                bits_of_all += self._fixed(predicate, place, not is_negated, depth + 1)
        elif predicates and "or" not in words:
            return []
        numbers = [used for used in instruction.uses if used not in predicates]
        return bits_of_all + self._equal(instruction, words, truth, numbers, place)

    def _equal(
        self, instruction: Instruction, words: Sequence[str], truth: bool, numbers: Sequence[str], place: int
    ) -> list[Bits]:
        bound = next((_FIXED[word, truth] for word in words if (word, truth) in _FIXED), "no comparison")
        value = 0 if instruction.value is None and "RZ" in instruction.text else instruction.value
        if bound is not None and value != bound:
            return []
        bits = {number: self._bits(number, place, 0) for number in numbers}
        known = [part for part in bits.values() if part is not None]
        others = [number for number, part in bits.items() if part is None]
        is_fixed = len(known) == 1 and all(self._is_uniform(number, place) for number in others)
        if is_fixed and value is not None and all(self._is_plain(number, place) for number in numbers):
            return [known[0]._replace(value=0 if bound is not None else value)]
        return known if is_fixed else []

    def _is_uniform(self, register: str, at: int) -> bool:
        """Whether a register holds the same in all threads: made of parameters and constants."""
        sources = [self._data.instructions[source] for source in self._data.slice_of(register, at)]
        return bool(sources) and all(
            (source.op in _ARITHMETIC or source.space in ("param", "const"))
            and not _THREAD.search(source.text)
            and not _LANE.search(source.text)
            for source in sources
        )

    def _is_plain(self, register: str, at: int) -> bool:
        sources = [self._data.instructions[source] for source in self._data.slice_of(register, at)]
        return all(source.op is Op.MOVE and not _SHUFFLE.search(source.text) for source in sources)

    def _bits(self, register: str, at: int, depth: int) -> Bits | None:
        if _THREAD.match(register):
            return Bits()
        if _LANE.match(register):
            return Bits(0, WARP_BITS)
        definitions = self._data.definitions(register, at)
        if len(definitions) != 1 or depth > MOST_DEEP:
            return None
        (place,) = definitions
        instruction = self._data.instructions[place]
        if _THREAD.search(instruction.text):
            return Bits()
        if _LANE.search(instruction.text):
            return Bits(0, WARP_BITS)
        parts = [self._bits(used, place, depth + 1) for used in instruction.uses]
        return _combined(instruction, [part for part in parts if part is not None])


def _combined(instruction: Instruction, parts: Sequence[Bits]) -> Bits | None:
    base, value = opcode_of(instruction).partition(".")[0], instruction.value
    if not parts:
        return None
    low, high, _ = parts[0]
    if base in _SAME:
        return parts[0]
    if value is not None and base in _MASKS and value & (value + 1) == 0:
        return Bits(low, min(high, low + value.bit_length()))
    if value is not None and base in _SHIFTS:
        return Bits(min(low + value, high), high)
    if value is not None and base == "div" and value & (value - 1) == 0:
        return Bits(min(low + value.bit_length() - 1, high), high)
    return None
