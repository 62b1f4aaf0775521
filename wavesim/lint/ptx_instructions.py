"""One PTX instruction with its operands as an Instruction.

Example: `@%p2 atom.add.release.gpu.global.u32 %r4, [%rd1+8], 1` is an ATOMIC under guard "%p2" that defines
%r4, uses %rd1 and %p2, and adds `value` 1 at Address("%rd1", 8).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wavesim.lint.instruction import Address, Instruction, Op, SourceLine
from wavesim.lint.opcodes import Meaning
from wavesim.lint.ptx_opcodes import meaning
from wavesim.lint.ptx_operands import NameScope, Operand, integer, operands

MOST_TEXT = 400  # characters of an instruction that are kept to be shown
MOST_READ = 20_000  # characters of an instruction; a wgmma of 256 columns has 1,300

_PARTS = re.compile(r"(?:@\s*(!?)\s*([\w$%]+)\s+)?([\w.:$]+)\s*")
_TO_SHARED = frozenset((Op.ASYNC_COPY, Op.BULK_LOAD))  # their second address is the one that is read
_PENDING = frozenset((Op.ASYNC_WAIT, Op.BULK_WAIT, Op.BULK_WAIT_READ))
_BARRIERS = frozenset((Op.BARRIER, Op.BARRIER_ARRIVE))
_TIMERS = ("%clock", "%globaltimer")


@dataclass(frozen=True)
class Context:
    """What an instruction's words mean where it stands: scope, parameters, branch tables, source line."""

    scope: NameScope
    parameters: Mapping[str, str]
    tables: Mapping[str, tuple[str, ...]]
    source: SourceLine | None


@dataclass
class _Named:
    """The registers, symbols and constants that some operands name."""

    registers: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)


def instruction_of(statement: str, line: int, context: Context) -> Instruction:
    """Reads one statement without its semicolon; what no PTX has becomes OTHER without operands."""
    text = " ".join(statement[:MOST_READ].split())
    match = _PARTS.match(text)
    if not match:
        return Instruction(text[:MOST_TEXT], Op.OTHER, line, source=context.source)
    sign, predicate, opcode = match.groups()
    what, rest = meaning(opcode), text[match.end() :]
    if what.op is Op.BRANCH:
        fields = _branch(opcode, rest, context)
    elif what.op is Op.CALL:
        fields = _call(rest, context)
    else:
        fields = _plain(opcode, what, operands(rest) if rest else [], context)
    if predicate:
        guard = context.scope.resolved(predicate, context.parameters)[1]
        fields |= {"uses": (*fields.get("uses", ()), guard), "guard": f"{sign}{guard}"}
    return Instruction(text=text[:MOST_TEXT], listing_line=line, source=context.source, **fields)


def _plain(opcode: str, what: Meaning, parts: Sequence[Operand], context: Context) -> dict[str, Any]:
    has_result = what.writes and bool(parts) and not parts[0].is_address
    results = _named(parts[:1] if has_result else [], context)
    # A wgmma adds to its accumulators, which come first.
    reads = parts[1:] if has_result and not opcode.startswith("wgmma") else parts
    read = _named(reads, context)
    op = what.op
    if op is Op.MOVE and any(name.startswith(_TIMERS) for name in read.registers):
        op = Op.CLOCK
    value, count = _constants(op, opcode, reads, read.constants)
    return {
        "op": op,
        "defines": tuple(results.registers),
        "uses": tuple(read.registers),
        "symbols": tuple(read.symbols),
        "space": what.space,
        "order": what.order,
        "scope": what.scope,
        "address": _address(op, parts, context),
        "bytes": what.bytes or (value or 0 if op is Op.ASYNC_COPY else 0),
        "count": count,
        "value": value,
        "scaled": tuple(_named(parts[1:3], context).registers) if opcode.startswith("mad") else (),
    }


def _named(parts: Sequence[Operand], context: Context) -> _Named:
    named = _Named()
    for part in parts:
        for word in part.names:
            if word[0].isdigit() or word[0] == "-":
                constant = None if part.is_address else integer(word)
                if constant is not None:
                    named.constants.append(constant)
            elif word != "_":  # "_" is the operand that is not wanted
                meant, name = context.scope.resolved(word, context.parameters)
                (named.registers if meant == "register" else named.symbols).append(name)
    return named


def _constants(
    op: Op, opcode: str, parts: Sequence[Operand], constants: Sequence[int]
) -> tuple[int | None, int | None]:
    if op in _PENDING:
        return None, constants[0] if constants else 0 if opcode.endswith("_all") else None
    if op in _BARRIERS:
        numbers = [integer(part.names[0]) if part.names else None for part in parts]
        return numbers[1] if len(numbers) > 1 else None, numbers[0] if numbers else None
    if not constants:
        return None, None
    return constants[0] if op is Op.ASYNC_COPY else constants[-1], None


def _address(op: Op, parts: Sequence[Operand], context: Context) -> Address | None:
    addresses = [part for part in parts if part.is_address]
    if not addresses:
        return None
    address = addresses[1] if op in _TO_SHARED and len(addresses) > 1 else addresses[0]
    base = context.scope.resolved(address.base, context.parameters)[1] if address.base else ""
    return Address(base, address.offset)


def _branch(opcode: str, rest: str, context: Context) -> dict[str, Any]:
    names = [word for part in operands(rest) for word in part.names]
    if opcode.startswith("bra") and names:
        return {"op": Op.BRANCH, "target": context.scope.label(names[0])}
    # brx.idx index, table
    table = context.tables.get(names[1], ()) if len(names) > 1 else ()
    used = _named([Operand(tuple(names[:1]))], context)
    return {"op": Op.BRANCH, "uses": tuple(used.registers), "target": ",".join(table)}


def _call(rest: str, context: Context) -> dict[str, Any]:
    """`call (results), function, (arguments), prototype`; a register instead of a function has no target."""
    parts = operands(rest)
    results = _named(parts[:1] if rest.startswith("(") else [], context)
    others = parts[1:] if rest.startswith("(") else parts
    used = _named(others, context)
    is_known = bool(others and others[0].names) and others[0].names[0] in used.symbols
    return {
        "op": Op.CALL,
        "defines": tuple(results.registers),
        "uses": tuple(used.registers),
        "symbols": (*results.symbols, *(used.symbols[1:] if is_known else used.symbols)),
        "target": others[0].names[0] if is_known else "",
    }
