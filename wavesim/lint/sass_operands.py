"""The operands of machine code: registers of 32 bits, predicates, addresses, constants, constant banks.

Example: `desc[UR4][R2.64+0x8]` is Address("R2", 8) and reads R2, R3, UR4 and UR5; `c[0x0][0x210]` is the
kernel's first parameter on sm_90. Registers that are always zero or true (RZ, URZ, PT, UPT) are never named.
"""

import re
import struct
from collections.abc import Iterator, Sequence

from wavesim.lint.instruction import Address

# Hostile text: at most so many registers count as one operand. Accumulators of HGMMA take 128.
MOST_WIDTH = 256

_PART = re.compile(r"(?:[^,\[({]|\[[^\]]*\]|\([^)]*\)|\{[^}]*\})+")
_REGISTER = re.compile(r"\b(U?R)(\d{1,3})\b(\.64)?")
_PREDICATE = re.compile(r"!?(U?P)(\d)$")
_TRUE = re.compile(r"!?U?PT$")
_PLAIN_REGISTER = re.compile(r"[-~|!]*(U?R)(\d{1,3}|Z)\b")
_MEMORY = re.compile(r"(?:desc|gdesc|tmem)?(?:\[(U?R\d+|URZ)\])?\[([^\]]*)\]")
_BANK = re.compile(r"(?<![a-z])c?x?\[(0x[0-9a-f]+|UR\d+)\]\[([^\]]*)\]")
_OFFSET = re.compile(r"(-?)0x([0-9a-f]{1,16})")
_HEX = re.compile(r"-?0x[0-9a-f]{1,16}$")
_FLOAT = re.compile(r"-?(?:\d{1,20}(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?$")
_SPECIAL = re.compile(r"SR_[\w.]+")


def parts(text: str) -> list[str]:
    """The operands, between commas that are in no brackets."""
    if "[" not in text and "(" not in text and "{" not in text:
        return [part for part in text.replace(" ", "").split(",") if part]
    return [part.strip() for part in _PART.findall(text)]


def registers(operand: str, width: int = 1) -> Iterator[str]:
    """The registers that one operand names; `width` of them from each that stands outside of brackets.

    An address of 64 bits, such as `[R2.64]`, is two; a descriptor is two as well.
    """
    if match := _PREDICATE.match(operand):
        yield match[1] + match[2]
        return
    in_brackets = "[" in operand
    for kind, number, is_pair in _REGISTER.findall(operand):
        count = 2 if is_pair else 1 if in_brackets else width
        if in_brackets and operand.startswith(("desc", "gdesc")) and f"desc[{kind}{number}]" in operand:
            count = 2
        yield from span(kind, int(number), count)


def span(kind: str, first: int, count: int) -> Iterator[str]:
    """The names of `count` registers from the `first` on."""
    return (f"{kind}{first + place}" for place in range(min(count, MOST_WIDTH)))


def is_result(operand: str) -> bool:
    """A plain register or predicate, which is what an instruction can write."""
    return operand[:1] not in "!-~|" and bool(
        _PREDICATE.match(operand)
        or _TRUE.match(operand)
        or (_PLAIN_REGISTER.match(operand) and "[" not in operand)
    )


def is_predicate(operand: str) -> bool:
    """P0 to P6, UP0 to UP6, and those that are always true; with a sign or without."""
    return bool(_PREDICATE.match(operand) or _TRUE.match(operand))


def address(operand: str) -> Address | None:
    """What stands in the brackets: one register, several joined by "+", or "" and an offset in bytes."""
    match = _MEMORY.match(operand)
    if not match:
        return None
    inside = match[2]
    bases = [kind + number for kind, number, _ in _REGISTER.findall(inside)]
    offsets = _OFFSET.findall(inside)
    offset = sum(-int(digits, 16) if sign else int(digits, 16) for sign, digits in offsets)
    return Address("+".join(bases), offset)


def bank(operand: str) -> tuple[int, int] | None:
    """Bank and offset of a constant such as `c[0x0][0x210]`; what a register adds is left out."""
    match = _BANK.search(operand)
    if not match or not match[1].startswith("0x") or len(match[1]) > 6:
        return None
    offset = _OFFSET.search(match[2])
    return int(match[1], 16), int(offset[2], 16) if offset else 0


def constant(operand: str) -> int | None:
    """The integer that an immediate operand is; RZ and URZ are zero."""
    if operand in ("RZ", "URZ"):
        return 0
    return int(operand, 16) if _HEX.match(operand) else None


def half_floats(high: str, low: str) -> int | None:
    """The bits of two half floats: how the compiler writes an integer where only HFMA2 has time for it."""
    if not (_FLOAT.match(high) and _FLOAT.match(low)):
        return None
    try:
        upper, lower = struct.unpack("<HH", struct.pack("<ee", float(high), float(low)))
    except OverflowError:
        return None
    return int(upper) << 16 | int(lower)


def special(operands: Sequence[str]) -> str:
    """The special register that is read, such as SR_TID.X."""
    return next((match[0] for operand in operands if (match := _SPECIAL.match(operand))), "")
