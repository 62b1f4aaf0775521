"""What a register holds in one thread of a block: a number, plus multiples of what only the launch can say.

Example: after `shl.b32 %r2, %r1, 2; add.s32 %r3, %r9, %r2` with %r1 the thread's index and %r9 a loop's
variable, %r3 of thread 5 is 20 plus 1 x the variable: Sum(20, {variable: 1}). Two such sums of the same
multiples are a known distance apart. What can't be worked out becomes an unknown of its own.
"""

import functools
import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from wavesim.lint.code import Code
from wavesim.lint.instruction import ACCESSES, is_shuffle

MOST_DEEP = 60
_WORDS = 2**32
_SIDE = 32  # threads of a row, where blocks have rows
_THREAD = {"%tid.x": "x", "SR_TID.X": "x", "%tid.y": "y", "SR_TID.Y": "y", "%laneid": "lane"}
_THREAD |= {"SR_LANEID": "lane", "%ntid.x": "width", "c[0x0][0x0]": "width", "c[0x0][RZ]": "width"}
_REGISTER = re.compile(r"(%\w+|U?R\d+|U?P\d+)(?:\.64|\.reuse)*")
_NUMBER = re.compile(r"-?(0x[0-9a-f]+|\d+)U?")
# The block's rank in the cluster tells whose shared memory it is: addresses are compared without it.
_ZERO = {"RZ", "URZ", "SR_CgaCtaId", "PT", "UPT", "!PT", "!UPT"}
_MOVES = {"mov", "cvt", "cvta", "MOV", "UMOV", "S2R", "S2UR", "R2UR", "CS2R"}
_ADDS = {"add", "IADD3", "UIADD3", "VIADD", "IADD"}
_COMPARES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class Thread(NamedTuple):
    """One thread of a block, by its index, and the size of the block's rows."""

    x: int
    y: int
    width: int

    @property
    def number(self) -> int:
        """Its place in the block."""
        return self.x + self.y * self.width

    @property
    def lane(self) -> int:
        """Its place in its warp."""
        return self.number % 32


class Unknown(NamedTuple):
    """A value that the code alone does not say; `made_at` are the instructions that make it."""

    name: Hashable
    made_at: frozenset[int] = frozenset()


class Sum(NamedTuple):
    """A number plus multiples of unknown values, modulo 2**32."""

    number: int
    unknown: frozenset[tuple[Unknown, int]] = frozenset()

    def plus(self, other: "Sum", times: int = 1) -> "Sum":
        """The sum of it and a multiple of another."""
        total = dict(self.unknown)
        for name, count in other.unknown:
            total[name] = (total.get(name, 0) + count * times) % _WORDS
        number = (self.number + other.number * times) % _WORDS
        return Sum(number, frozenset(part for part in total.items() if part[1]))


def threads_of(code: Code, total: int) -> list[Thread]:
    """The threads of a block of so many."""
    width = min(total, _SIDE) if code.has_rows else total
    return [Thread(at % width, at // width, width) for at in range(total)]


class ThreadValues:
    """Answers about one kernel, for as many threads as are asked."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._known: dict[tuple[str, int, Thread], Sum] = {}

    def address(self, at: int, thread: Thread) -> Sum | None:
        """Where an access of shared memory goes; None where it names no place."""
        inside = re.findall(r"\[([^\[\]]*)\]", self._code[at].text)
        if self._code[at].address is None or not inside:
            return None
        total = Sum(0)
        for word in re.findall(r"[^+\s]+", inside[-1]):
            register, _, scale = word.partition(".X")
            total = total.plus(self._operand(register, at, thread, 0), int(scale or 1))
        return total

    def constant(self, word: str, at: int) -> int | None:
        """What an operand holds in the block's first thread, where the code says."""
        value = self._operand(word, at, Thread(0, 0, _SIDE), 0)
        return None if value.unknown else value.number

    def runs(self, at: int, thread: Thread) -> bool | None:
        """Whether a thread gets there, as far as tests of its index say; None where that is not known."""
        answers: set[bool | None] = set()
        for guard in self._code.thread_guards([at]):
            sign = self._code[guard].guard
            meant = not sign.startswith("!") if guard == at else self._code.outcome(guard, at)
            value = self.predicate(sign, guard, thread)
            if meant is not None:
                answers.add(None if value is None else value == meant)
        return False if False in answers else None if None in answers else True

    def predicate(self, sign: str, at: int, thread: Thread) -> bool | None:
        """The value of a predicate without its sign."""
        value = self._operand(sign.lstrip("!"), at, thread, 0)
        return None if value.unknown else bool(value.number)

    def _operand(self, word: str, at: int, thread: Thread, depth: int) -> Sum:
        word = word.strip()
        if word[:1] in ("!", "-") and word not in _ZERO:
            value = self._operand(word[1:], at, thread, depth)
            if word[0] == "-":
                return Sum(0).plus(value, -1)
            return value if value.unknown else Sum(1 - value.number)
        if (number := _named(word, thread)) is not None:
            return Sum(number % _WORDS)
        match = _REGISTER.fullmatch(word)
        if not match or (word.startswith("%") and not self._code.flow.definitions(match[1], at)):
            return _unknown(word)
        return self._register(match[1], at, thread, depth)

    def _register(self, register: str, at: int, thread: Thread, depth: int) -> Sum:
        key = register, at, thread
        if key not in self._known:
            places = self._code.flow.definitions(register, at)
            self._known[key] = _unknown((register, places), places)
            if len(places) == 1 and min(places) >= 0 and depth < MOST_DEEP:
                self._known[key] = self._made(min(places), register, thread, depth + 1)
        return self._known[key]

    def _made(self, at: int, register: str, thread: Thread, depth: int) -> Sum:
        """What one instruction writes to a register."""
        own = _unknown((register, at, thread), frozenset({at}))
        opcode, _, rest = re.sub(r"^@\S+\s+", "", self._code[at].text.rstrip("; ")).partition(" ")
        words = [word.strip() for word in rest.split(",")]
        if words[0] == "PT" and opcode.startswith("SHFL"):
            words = words[1:]
        if register not in words[0].replace(".64", "").split("|"):
            return own  # the upper half of a pair, a carry
        if opcode.startswith(("LDC", "ULDC", "ld.param")):
            return self._operand(words[-1], at, thread, MOST_DEEP)
        if is_shuffle(self._code[at]):
            lane_0 = thread._replace(x=thread.x - thread.lane) if thread.width % 32 == 0 else thread
            is_first = "idx" in opcode.lower() and words[2] in ("0", "0x0", "RZ", "URZ")
            return self._operand(words[1], at, lane_0, depth) if is_first else own
        is_odd = self._code.reads_thread(frozenset({at})) and not any(word in _THREAD for word in words)
        if is_odd or self._code[at].op in ACCESSES:
            return own
        operands = [self._operand(word, at, thread, depth) for word in words[1:]]
        if (total := _computed(opcode.split("."), operands, words)) is not None:
            return total
        varying = frozenset[int]().union(*(part.made_at for value in operands for part, _ in value.unknown))
        return _unknown((opcode, register, tuple(operands)), varying)


def _named(word: str, thread: Thread) -> int | None:
    """The value of a number or a special register."""
    if word in _ZERO:
        return int(word in ("PT", "UPT"))
    if word in _THREAD:
        return int(getattr(thread, _THREAD[word]))
    return int(word.rstrip("U"), 0) if _NUMBER.fullmatch(word) else None


def _unknown(name: Hashable, made_at: frozenset[int] = frozenset()) -> Sum:
    return Sum(0, frozenset({(Unknown(name, made_at), 1)}))


def _computed(opcode: list[str], values: list[Sum], words: Sequence[str]) -> Sum | None:
    """The result of an instruction; None of one that can't be followed."""
    name, *modifiers = opcode
    plain = _without_predicates(values, words)
    is_part = bool({"HI", "hi", "X"} & set(modifiers)) or any("~" in word for word in words)
    is_left = name == "shl" or (name in ("SHF", "USHF") and "L" in modifiers)
    result: Sum | None = None
    if name in _MOVES and len(values) == 1:
        result = values[0]
    elif name == "mapa" or (name == "PRMT" and "0x654" in words):
        result = values[0] if name == "mapa" else values[2]
    elif name in _ADDS and not is_part:
        result = functools.reduce(Sum.plus, plain)
    elif name == "sub":
        result = values[0].plus(values[1], -1)
    elif name in ("mul", "mad", "IMAD", "UIMAD") and not is_part:
        result = _product(values)
    elif name in ("LEA", "ULEA") and not is_part and len(plain) == 3 and not plain[2].unknown:
        result = plain[1].plus(plain[0], 1 << (plain[2].number & 31))
    elif is_left and not values[1].unknown:
        result = Sum(0).plus(values[0], 1 << (values[1].number & 31))
    elif not any(value.unknown for value in values):
        result = _of_numbers(name, modifiers, [value.number for value in values])
    return result


def _without_predicates(values: list[Sum], words: Sequence[str]) -> list[Sum]:
    kept = zip(values, words[1:], strict=True)
    return [value for value, word in kept if not re.fullmatch(r"!?U?P(\d+|T)", word)]


def _product(values: list[Sum]) -> Sum | None:
    first, second, *third = values[:3]
    if first.unknown:
        first, second = second, first
    if first.unknown:
        return None
    return Sum(0).plus(second, first.number).plus(third[0] if third else Sum(0))


def _of_numbers(name: str, modifiers: Sequence[str], values: list[int]) -> Sum | None:
    """The result where all operands are numbers."""
    if name in ("setp", "ISETP", "UISETP"):
        return _compared(modifiers, values)
    if name in ("LOP3", "ULOP3"):
        is_test = len(values) == 6  # writes a predicate, and a register besides
        a, b, c, table = values[is_test : is_test + 4]
        bits = (_looked_up(table, a >> bit & 1, b >> bit & 1, c >> bit & 1) << bit for bit in range(32))
        return Sum(int(any(bits)) if is_test else sum(bits))
    if name in ("SHF", "USHF") and "HI" in modifiers:
        return Sum(values[2] >> (values[1] & 31))
    first, second = values[0], values[1] if len(values) > 1 else 0
    if name in ("rem", "div") and second:
        return Sum(first % second if name == "rem" else first // second)
    results = {"and": first & second, "or": first | second, "xor": first ^ second}
    results["shr"] = first >> (second & 31)
    results["not"] = 1 - first if "pred" in modifiers else ~first % _WORDS
    return Sum(results[name]) if name in results else None


def _looked_up(table: int, a: int, b: int, c: int) -> int:
    return table >> (4 * a + 2 * b + c) & 1


def _compared(modifiers: Sequence[str], values: list[int]) -> Sum | None:
    relation = next((word.lower() for word in modifiers if word.lower() in _COMPARES), "")
    is_signed = not any(word in ("U32", "u32", "U64", "u64") for word in modifiers)
    operands = values[-2:] if len(values) == 2 else values[1:3]
    first, second = ((v ^ 2**31) - 2**31 if is_signed else v for v in operands)
    results = {"lt": first < second, "le": first <= second, "eq": first == second}
    results |= {"gt": first > second, "ge": first >= second, "ne": first != second}
    if not relation or len(values) not in (2, 4) or "EX" in modifiers:
        return None
    is_or = "OR" in modifiers
    result = results[relation]
    if len(values) == 4:
        result = result or bool(values[3]) if is_or else result and bool(values[3])
    return Sum(int(result))


Reached = Sequence[tuple[Thread, Sum]]


def conflict(
    first: Reached, size: int, second: Reached, second_size: int, is_block: bool
) -> tuple[Thread, Thread] | None:
    """Two threads, of one block's warps or of two blocks, whose accesses, of so many bytes, meet."""
    by_byte: dict[Sum, list[Thread]] = {}
    for thread, place in first:
        for byte in range(size):
            by_byte.setdefault(place.plus(Sum(byte)), []).append(thread)
    for thread, place in second:
        for byte in range(second_size):
            for other in by_byte.get(place.plus(Sum(byte)), ()):
                if not is_block or other.number // 32 != thread.number // 32:
                    return other, thread
    return None
