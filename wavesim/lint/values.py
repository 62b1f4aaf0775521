"""Which computations give the same value: value numbers, with constant distances taken apart.

Example: `add.s64 %rd2, %rd1, 8` and `add.s64 %rd3, %rd1, 24` are the same number, 16 bytes apart; two loads
of the same kernel parameter are one number, two loads of memory are two.
"""

import re
from typing import NamedTuple

from wavesim.lint.data_flow import DataFlow
from wavesim.lint.instruction import PARAMETERS, Instruction, Op

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
