"""Which instructions a register's value comes from, and which computations give the same value.

Example: after `mov %r1, 0; @%p mov %r1, 1` both may have set %r1: a predicated definition does not end the
one before it. For an instruction under the same predicate it does. `add.s64 %rd2, %rd1, 8` and
`add.s64 %rd3, %rd1, 24` have the same value number, 16 bytes apart; two loads of the same kernel parameter
have one number, two loads of memory two.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from wavesim.lint.blocks import ControlFlow
from wavesim.lint.instruction import PARAMETERS, Instruction, Op


class DataFlow:
    """Reaching definitions and backward slices, each worked out when it is first asked for."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow
        self.instructions = flow.instructions
        self.effort = flow.effort
        self._by_register: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for at, instruction in enumerate(flow.instructions):
            for register in instruction.defines:
                self._by_register[register].setdefault(flow.block_of[at], []).append(at)
        # Most registers of PTX are written once: whatever reads them afterwards reads that.
        self._only = {
            register: places[0]
            for register, by_block in self._by_register.items()
            if len(places := [place for block in by_block.values() for place in block]) == 1
        }
        self._readers: dict[str, list[int]] = {}
        self._found: dict[tuple[str, int], frozenset[int]] = {}
        self._at_start: dict[tuple[str, int], frozenset[int]] = {}

    def definitions(self, register: str, at: int) -> frozenset[int]:
        """The instructions whose value of `register` may be what `at` reads."""
        if register not in self._by_register:
            return frozenset()
        if (register, at) not in self._found:
            self._found[register, at] = self._before(register, at)
        return self._found[register, at]

    def readers(self, register: str) -> list[int]:
        """The instructions that read a register of that name, whichever value it then has."""
        if not self._readers:
            for at, instruction in enumerate(self.instructions):
                for used in instruction.uses:
                    self._readers.setdefault(used, []).append(at)
        return self._readers.get(register, [])

    def _before(self, register: str, at: int) -> frozenset[int]:
        only = self._only.get(register, -1)
        if 0 <= only != at and self._flow.dominates(only, at):
            return frozenset((only,))
        places: set[int] = set()
        block = self._flow.block_of[at]
        if not self._within(register, block, at, places):
            places |= self._reaching(register, block)
        self._flow.effort.spend(len(places))
        return frozenset(places)

    def _within(self, register: str, block: int, before: int, places: set[int]) -> bool:
        """Adds the definitions of one block before an instruction; whether one of them is certain."""
        for definition in reversed(self._by_register[register].get(block, ())):
            if definition < before:
                places.add(definition)
                guard = self._flow.instructions[definition].guard
                if not guard or self._is_guarded_alike(definition, before, block):
                    return True
        return False

    def _is_guarded_alike(self, definition: int, reader: int, block: int) -> bool:
        """Whether what reads it in its block runs only where the definition did: by the same predicate."""
        guard = self._flow.instructions[definition].guard
        if reader == self._flow.end or self._flow.instructions[reader].guard != guard:
            return False
        changes = self._by_register.get(guard.lstrip("!"), {}).get(block, ())
        return not any(definition <= change < reader for change in changes)

    def _reaching(self, register: str, block: int) -> frozenset[int]:
        if (register, block) in self._at_start:
            return self._at_start[register, block]
        places: set[int] = set()
        seen: set[int] = set()
        work = list(self._flow.back[block])
        while work:
            before = work.pop()
            if before in seen:
                continue
            seen.add(before)
            self._flow.effort.spend(1)
            if not self._within(register, before, self._flow.end, places):
                work += self._flow.back[before]
        self._flow.effort.spend(len(places))
        self._at_start[register, block] = frozenset(places)
        return self._at_start[register, block]

    def slice_of(self, register: str, at: int) -> frozenset[int]:
        """The instructions that the value of `register` at `at` is computed from, through registers alone."""
        return self.closure(self.definitions(register, at))

    def closure(self, starts: Iterable[int]) -> frozenset[int]:
        """The instructions and all that their operands are computed from."""
        closed: set[int] = set()
        work = list(starts)
        while work:
            at = work.pop()
            if at in closed:
                continue
            closed.add(at)
            self._flow.effort.spend(1)
            for register in self._flow.instructions[at].uses:
                work += self.definitions(register, at)
        return frozenset(closed)


MOST_DEEP = 100  # steps of a computation, after which a value is unlike all others
_WORD = re.compile(r"[\w%$@]+")
_SUFFIX = re.compile(r"[@~].*", re.DOTALL)  # of a scope or a call, which the text has not
_UPPER = re.compile(r"U?R\d*[13579]$")
_OPCODE = re.compile(r"(?:@\s*!?\s*[\w%$]+\s+)?([\w.:]+)")
# Their results depend on what they are, on what they read and on nothing else.
_PURE = frozenset((Op.ADD, Op.MOVE, Op.COMPARE, Op.OTHER))
_SAME = frozenset(("mov", "cvta", "MOV", "UMOV", "R2UR"))


class Value(NamedTuple):
    """A number that equal computations share, and a constant that is added."""

    number: int
    offset: int = 0


def opcode_of(instruction: Instruction) -> str:
    """The opcode with its modifiers, as PTX or machine code has it."""
    match = _OPCODE.match(instruction.text)
    return match[1] if match else ""


class Values:
    """Numbers the values of a kernel's registers, each when it is first asked for."""

    def __init__(self, data: DataFlow) -> None:
        self._data = data
        self._instructions = data.instructions
        self._numbers: dict[object, int] = {}
        self._names: dict[int, str] = {}
        self._of_definition: dict[tuple[int, str], Value] = {}

    def of(self, register: str, at: int, depth: int = 0) -> Value:
        """What `register` holds when instruction `at` reads it."""
        definitions = self._data.definitions(register, at)
        if len(definitions) != 1:
            return Value(self._number(("merge", register, definitions)))
        return self.of_definition(next(iter(definitions)), register, depth + 1)

    def of_symbol(self, symbol: str) -> Value:
        """The address of a parameter or variable."""
        value = Value(self._number(("symbol", symbol)))
        self._names[value.number] = symbol
        return value

    def of_address(self, at: int) -> Value | None:
        """The address of access `at`; None where it has none."""
        address = self._instructions[at].address
        if address is None:
            return None
        if not address.base:
            return Value(self._number("absolute"), address.offset)
        is_register = address.base in self._instructions[at].uses
        value = self.of(address.base, at) if is_register else self.of_symbol(address.base)
        return value._replace(offset=value.offset + address.offset)

    def symbol(self, value: Value) -> str:
        """The parameter or variable that the value is an address in, or ""."""
        return self._names.get(value.number, "")

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def of_definition(self, at: int, register: str, depth: int = 0) -> Value:
        """What instruction `at` writes to `register`."""
        if (at, register) not in self._of_definition:
            # Taken for its own value while it is worked out, which ends circles.
            self._of_definition[at, register] = Value(self._number(("at", at, register)))
            if depth < MOST_DEEP:
                self._of_definition[at, register] = self._computed(at, register, depth)
        return self._of_definition[at, register]

    def _computed(self, at: int, register: str, depth: int) -> Value:
        instruction = self._instructions[at]
        own = self._of_definition[at, register]
        if instruction.guard:
            return own
        if instruction.symbols == (PARAMETERS,) and register == instruction.defines[0]:
            return self.of_symbol(PARAMETERS)
        if instruction.op is Op.LOAD and instruction.space == "param":
            return self._parameter(at, register)
        return self._result(at, register, depth) if instruction.op in _PURE else own

    def _result(self, at: int, register: str, depth: int) -> Value:
        instruction = self._instructions[at]
        is_pair = ".64" in opcode_of(
            instruction
        )  # machine code names both halves: the lower one stands for both
        uses = [used for used in instruction.uses if not (is_pair and _UPPER.match(used))]
        parts = [self.of(used, at, depth) for used in uses]
        parts += map(self.of_symbol, instruction.symbols)
        base = opcode_of(instruction).partition(".")[0]
        is_passed = base in ("ld", "st")  # to or from a function in whose place its body stands
        if len(parts) == 1 and (base in _SAME or is_passed):
            return parts[0]
        if base in ("add", "IADD3", "UIADD3", "IADD") and (total := self._sum(instruction, parts)):
            return total
        slot = instruction.defines.index(register)
        return Value(self._number((_template(instruction), slot, *parts)))

    def _sum(self, instruction: Instruction, parts: list[Value]) -> Value | None:
        # Machine code adds more than the operands: a carry, a complement.
        is_plain = "-" not in instruction.text.replace("+-", "") and ".X" not in instruction.text
        if not parts or not (is_plain or instruction.text.startswith("add")) or "~" in instruction.text:
            return None
        offset = sum(part.offset for part in parts) + (instruction.value or 0)
        if len(parts) == 1:
            return Value(parts[0].number, offset)
        return Value(self._number(("sum", *sorted(part.number for part in parts))), offset)

    def _parameter(self, at: int, register: str) -> Value:
        instruction = self._instructions[at]
        address = self.of_address(at)
        own = self._of_definition[at, register]
        if address is None or not self.symbol(address).startswith("param "):
            return own
        slot = instruction.defines.index(register)
        offset = address.offset + slot * (instruction.bytes // max(len(instruction.defines), 1))
        return Value(self._number(("parameter", self.symbol(address), offset, instruction.bytes)))


def _template(instruction: Instruction) -> str:
    names = {_SUFFIX.sub("", name) for name in (*instruction.defines, *instruction.uses)}
    return _WORD.sub(lambda word: "#" if word[0] in names else word[0], instruction.text)
