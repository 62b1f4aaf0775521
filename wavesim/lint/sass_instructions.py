"""One line of disassembly as an Instruction.

Example: `@!P0 LDG.E.64.STRONG.GPU R4, desc[UR6][R2.64+0x8]` is a LOAD under guard "!P0" that defines R4 and
R5, uses R2, R3, UR6, UR7 and P0, of space "global", order "relaxed", scope "gpu", from Address("R2", 8), of 8
bytes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wavesim.lint.instruction import PARAMETERS, Address, Instruction, Op, SourceLine
from wavesim.lint.sass_opcodes import meaning
from wavesim.lint.sass_operands import (
    address,
    bank,
    constant,
    half_floats,
    is_predicate,
    is_result,
    parts,
    registers,
    special,
)

MOST_TEXT = 400  # characters of an instruction that are kept to be shown
# Where parameters begin in constant bank 0, by the architecture; the cubin's attributes say it for certain.
PARAMETER_BASES = {70: 0x160, 75: 0x160, 80: 0x160, 86: 0x160, 87: 0x160, 88: 0x160, 89: 0x160, 90: 0x210}
NEWER_BASE = 0x380  # sm_100 and later
# Where the bank holds the address of the first parameter itself, to which a tensor map's offset is added; by
# where parameters begin. Seen in what ptxas makes of `cvta.param`.
WINDOWS = {0x210: 0x198, NEWER_BASE: 0x348}

_GUARD = re.compile(r"@(!?)(U?P(?:\d|T))\s+")
_LABEL = re.compile(r"`\(([^()`]*)\)")
_TARGETS = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
_CLOCKS = ("SR_CLOCK", "SR_GLOBALTIMER")
_RESULT = "barrier.result"  # which no register holds between BAR.RED and B2R.RESULT
_PREDICATES = 7  # P0 to P6


@dataclass(frozen=True)
class Attributes:
    """What the file says of a function besides its code: parameters as (offset, bytes), and threads.

    `variables` maps offsets of constant bank 4 to the variables whose addresses are there.
    """

    base: int = NEWER_BASE
    parameters: Sequence[tuple[int, int]] = ()
    threads: int = 0
    variables: Mapping[int, str] = field(default_factory=dict)

    def symbol(self, place: int) -> str:
        """The parameter at an offset of bank 0, such as "param 1" or "param 0+8" inside of a struct."""
        if place == WINDOWS.get(self.base):
            return PARAMETERS
        offset = place - self.base
        for number, (start, size) in enumerate(self.parameters):
            if start <= offset < start + size:
                return _field(number, offset - start, size)
        # Without attributes all that follows the base is taken for one struct.
        return (
            _field(0, offset, 8 if offset < 8 else offset + 1) if offset >= 0 and not self.parameters else ""
        )


def _field(number: int, inside: int, size: int) -> str:
    # The upper half of a pointer, which sm_80 reads by itself, belongs to the lower one.
    inside -= 4 if inside % 8 == 4 and size > 4 else 0
    return f"param {number}+{inside}" if inside else f"param {number}"


def instruction_of(
    text: str, line: int, attributes: Attributes, source: SourceLine | None
) -> Instruction | None:
    """Reads one instruction without its semicolon; None where it never does anything (@!PT)."""
    guard = ""
    rest = text
    if match := _GUARD.match(text):
        if match[2].endswith("PT"):
            if match[1]:
                return None
        else:
            guard = match[1] + match[2]
        rest = text[match.end() :]
    opcode, _, rest = rest.partition(" ")
    opcode = opcode.rstrip(";")
    return _Reader(opcode, rest, guard, attributes).instruction(text[:MOST_TEXT], line, source)


class _Reader:
    """The operands of one instruction, sorted into what it defines, reads and names."""

    def __init__(self, opcode: str, rest: str, guard: str, attributes: Attributes) -> None:
        self.opcode = opcode
        self.what = meaning(opcode)
        self.target = _target(self.what.op, rest)
        self.rest = _LABEL.sub("", _TARGETS.sub("", rest))
        self.operands = parts(self.rest)
        self.guard = guard
        self.attributes = attributes
        base = opcode.split(".", maxsplit=1)[0]
        self.is_product = base in ("IMAD", "UIMAD") and ".IADD" not in opcode and ".MOV" not in opcode

    def instruction(self, text: str, line: int, source: SourceLine | None) -> Instruction:
        """Puts all together."""
        what = self.what
        results = self._results()
        reads = self.operands[results:]
        defines = [
            register for operand in self.operands[:results] for register in registers(operand, what.width)
        ]
        uses = self._uses(reads)
        scaled = self._scaled(reads)
        # A constant that is multiplied is an index, no pointer; LEA shifts its first operand alone.
        summed = reads[2:] if self.is_product else reads[1:] if scaled else reads
        symbols = tuple(dict.fromkeys(filter(None, map(self._symbol, summed))))
        op, space = what.op, what.space
        if self.is_product and reads[:2] == ["RZ", "RZ"]:  # IMAD.U32 R5, RZ, RZ, UR5
            op = Op.MOVE
        if what.op is Op.LOAD and space == "const" and symbols and symbols[0].startswith("param "):
            space = "param"
        if name := special(reads):
            uses.append(name)
            op = Op.CLOCK if name.startswith(_CLOCKS) else op
        guard = self.guard
        if op is Op.BRANCH and not guard:  # BRA.U !UP0, `(.L): the predicate is an operand
            guard = next((o for o in self.operands if is_predicate(o) and not o.endswith("PT")), "")
        if self.opcode.startswith(("BRA.CONV", "BRA.DIV")):
            # Past a WARPSYNC that a converged warp does not need, or to one, and to the same work behind it.
            op, self.target = Op.WARP_SYNC, ""
        elif self.opcode == "CALL.REL.NOINC" and self.target.startswith(".L"):
            op = Op.BRANCH  # sm_80 leaves loops by it, and nothing returns
        defines += self._packed("R2P")
        uses += self._packed("P2R")
        if self.opcode.startswith("BAR.RED"):
            defines.append(_RESULT)
        elif self.opcode.startswith("B2R.RESULT"):
            uses.append(_RESULT)
        if self.guard:
            uses.append(self.guard.lstrip("!"))
        count, value = self._constants(op, reads)
        return Instruction(
            text,
            op,
            line,
            defines=tuple(defines),
            uses=tuple(dict.fromkeys(uses)),
            symbols=symbols,
            guard=guard,
            space=space,
            order=what.order,
            scope=what.scope,
            address=self._address(op),
            bytes=what.bytes,
            count=count,
            value=value,
            target=self.target,
            scaled=scaled,
            source=source,
        )

    def _results(self) -> int:
        operands, what = self.operands, self.what
        if not what.writes or not operands or not is_result(operands[0]):
            return 0
        if what.op is Op.COMPARE or self.opcode.startswith("PLOP3") or self.opcode.startswith("UPLOP3"):
            return min(2, len(operands))
        count = 1
        if self.opcode.startswith(("VOTE", "ELECT", "SYNCS.PHASECHK", "REDUX", "MATCH", "B2R")):
            # The last one is read, but for B2R, which reads a barrier: VOTEU.ALL UP0, P1 writes UP0 alone.
            has_second = len(operands) > (1 if self.opcode.startswith("B2R") else 2)
            return 2 if has_second and is_result(operands[1]) and "[" not in operands[1] else 1
        if is_predicate(operands[0]):  # SHFL, ATOMG, LOP3: a predicate, then the register
            return 2 if len(operands) > 1 and is_result(operands[1]) else 1
        # Carries out: IADD3 R2, P0, P1, R3, ...; those that come after the sources are read.
        while count < len(operands) and is_predicate(operands[count]) and operands[count][0] != "!":
            count += 1
        has_sources = any(not is_predicate(operand) for operand in operands[count:])
        return count if has_sources else 1

    def _uses(self, reads: Sequence[str]) -> list[str]:
        what, uses = self.what, []
        is_wide = "WIDE" in self.opcode
        for place, operand in enumerate(reads):
            width = what.read_width
            if is_wide and place == 2:
                width = 2
            if what.space == "global" and operand.startswith("[UR") and self.opcode.startswith("UTM"):
                width = what.width if place == 0 and not self.opcode.startswith("UTMACCTL") else 2
                uses += _from_first(operand, width)
                continue
            if self.opcode.startswith("UBLK") and operand.startswith("[UR"):
                uses += _from_first(operand, 2)
                continue
            uses += registers(operand, width)
        return uses

    def _packed(self, opcode: str) -> list[str]:
        """The predicates that PR stands for, one for each bit of the mask: P2R R4, PR, RZ, 0x20 is P5."""
        mask = constant(self.operands[-1]) if self.opcode.startswith(opcode) and self.operands else None
        return [f"P{bit}" for bit in range(_PREDICATES) if mask and mask >> bit & 1]

    def _symbol(self, operand: str) -> str:
        place = bank(operand)
        if place is None:
            return ""
        number, offset = place
        if number == 0:
            return self.attributes.symbol(offset)
        return self.attributes.variables.get(offset, "") if number == 4 else ""

    def _address(self, op: Op) -> Address | None:
        if self.what.space in ("const", ""):
            return None if op is not Op.PREFETCH else self._memory(0)
        if op is Op.ASYNC_COPY or (op is Op.BULK_LOAD and self.opcode.startswith("UBLKCP")):
            return self._memory(1)
        if self.opcode.startswith(("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF")):
            return self._memory(1)
        return self._memory(0)

    def _memory(self, number: int) -> Address | None:
        operands = [
            operand for operand in self.operands if operand.endswith("]") and not operand.startswith("c[")
        ]
        return address(operands[number]) if number < len(operands) else None

    def _constants(self, op: Op, reads: Sequence[str]) -> tuple[int | None, int | None]:
        numbers = [constant(operand) for operand in reads]
        if op in (Op.BARRIER, Op.BARRIER_ARRIVE):
            plain = [constant(operand) for operand in self.operands]
            return (plain[0] if plain else None), (plain[1] if len(plain) > 1 else None)
        if self.opcode.startswith("HFMA2") and len(reads) == 4 and reads[1] == "RZ":
            return None, half_floats(reads[2], reads[3])
        if op in (Op.STORE, Op.REDUCTION, Op.ATOMIC):
            return None, next((number for number in numbers if number is not None), None)
        if op not in (Op.ADD, Op.MOVE, Op.COMPARE, Op.SLEEP):
            return None, None
        if op is Op.MOVE and any(next(registers(operand), "") or bank(operand) for operand in reads):
            return None, None
        # The last operands of LOP3 and LEA are a table of truth and a shift.
        numbers = numbers[
            : {"LOP3": 3, "ULOP3": 3, "LEA": 2, "ULEA": 2}.get(self.opcode.split(".", maxsplit=1)[0])
        ]
        # Zeros among the operands of a sum are places that are not used.
        given = [number for number in numbers if number] or [
            0 for number in numbers if number == 0 and op is not Op.ADD
        ]
        return None, given[0] if given else None

    def _scaled(self, reads: Sequence[str]) -> tuple[str, ...]:
        if self.what.op is not Op.ADD:
            return ()
        if self.is_product:
            return tuple(_names(reads[:2])) if "0x1" not in reads[:2] else ()
        if self.opcode.startswith(("LEA", "ULEA", "SHF", "USHF", "USHL", "USHR")):
            return tuple(_names(reads[:1]))
        return ()


def _from_first(operand: str, width: int) -> list[str]:
    first = next(registers(operand), "")
    return list(registers(first, width)) if first else []


def _names(operands: Sequence[str]) -> list[str]:
    return [register for operand in operands for register in registers(operand)]


def _target(op: Op, rest: str) -> str:
    if op not in (Op.BRANCH, Op.CALL):
        return ""
    if table := _TARGETS.search(rest):
        return ",".join(name.strip() for name in table[1].split(",") if name.strip())
    label = _LABEL.search(rest)
    return label[1] if label else ""
