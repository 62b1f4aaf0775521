"""What an opcode of machine code does to memory: operation, state space, order, scope, bytes.

Example: `meaning("LDG.E.64.STRONG.GPU")` is a LOAD of 8 bytes of space "global", order "relaxed", scope
"gpu". An acquire of PTX is this load and a CCTL.IVALL after it, a release is a MEMBAR before the strong
store: `docs/machine-code.md` has the table, and `tests/compile/test_lowering.py` compiles each line of it.

Source: learnt from what ptxas makes of single instructions of PTX; the mnemonics are listed in "CUDA Binary
Utilities", chapter 4.3 (instruction set reference).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from wavesim.lint.instruction import Op, Ordering, Scope, Space
from wavesim.lint.opcodes import Meaning, plain_opcodes

_SCOPES: dict[str, Scope] = {"CTA": "cta", "SM": "cta", "GPU": "gpu", "VC": "sys", "SYS": "sys"}
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32, "8": 1, "16": 2, "32": 4}


@lru_cache(maxsize=4096)  # hostile text may hold any number of opcodes
def meaning(opcode: str) -> Meaning:
    """What an opcode with its modifiers does, such as "ATOMG.E.ADD.STRONG.GPU"."""
    base, *modifiers = opcode.split(".")
    if base in _FAMILIES:
        return _FAMILIES[base](modifiers)
    if base in _FIXED:
        return _FIXED[base]
    if base in _PLAIN and not _PLAIN[base].writes:
        return _PLAIN[base]
    return _arithmetic(base, modifiers)


def _scope(modifiers: Sequence[str]) -> Scope:
    return next((_SCOPES[word] for word in modifiers if word in _SCOPES), "")


def _bytes(modifiers: Sequence[str]) -> int:
    return next((_BYTES[word] for word in modifiers if word in _BYTES), 4)


def _access(op: Op, space: Space, writes: bool) -> Callable[[Sequence[str]], Meaning]:

    def decode(modifiers: Sequence[str]) -> Meaning:
        size = _bytes(modifiers)
        width = max(1, size // 4)
        return Meaning(op, space, _order(op, modifiers), _scope(modifiers), size, writes, width, width)

    return decode


def _order(op: Op, modifiers: Sequence[str]) -> Ordering:
    if "MMIO" in modifiers:
        return "mmio"
    if "STRONG" in modifiers or op in (Op.ATOMIC, Op.REDUCTION):
        return "relaxed"
    return "nc" if "CONSTANT" in modifiers else "weak"


def _matrix_load(modifiers: Sequence[str]) -> Meaning:
    count = next((int(word) for word in modifiers if word in ("2", "4")), 1)
    return Meaning(Op.LOAD, "shared", "weak", "", 4 * count, True, count)


def _membar(modifiers: Sequence[str]) -> Meaning:
    return Meaning(
        Op.FENCE, "", "sc" if "SC" in modifiers else "acq_rel", _scope(modifiers) or "cta", writes=False
    )


def _fence(modifiers: Sequence[str]) -> Meaning:
    if modifiers[:2] != ["VIEW", "ASYNC"]:
        return Meaning(writes=False)
    spaces: dict[str, Space] = {"S": "shared", "G": "global", "T": "tensor"}
    return Meaning(
        Op.PROXY_FENCE, next((spaces[word] for word in modifiers[2:] if word in spaces), ""), writes=False
    )


def _cache_control(modifiers: Sequence[str]) -> Meaning:
    if "IVALL" in modifiers:
        return Meaning(Op.INVALIDATE, writes=False)
    if any(word.startswith("PF") for word in modifiers):
        return Meaning(Op.PREFETCH, "global", "weak", writes=False)
    return Meaning(writes=False)


def _barrier(modifiers: Sequence[str]) -> Meaning:
    op = Op.BARRIER_ARRIVE if "ARV" in modifiers else Op.BARRIER
    return Meaning(op, scope="cta", writes=False)


def _mbarrier(modifiers: Sequence[str]) -> Meaning:
    words = set(modifiers)
    if "EXCH" in words:
        return Meaning(Op.MBARRIER_INIT, "shared", "relaxed", "cta", 8)
    if "PHASECHK" in words:
        return Meaning(Op.MBARRIER_TEST, "shared", "acquire", "cta", 8)
    if "ARRIVE" not in words:
        return Meaning(writes=False)
    # The suffix counts arrivals and transactions: A1T0 arrives once, ART0 as often as a register says, A0TR
    # expects bytes, none does both, A0TX completes bytes, A0T1 announces an arrival of cp.async.
    suffix = next(
        (word for word in modifiers if len(word) == 4 and word[0] == "A" and word[2] == "T"), "A1TR"
    )
    if suffix.endswith("TR"):
        return Meaning(
            Op.MBARRIER_EXPECT, "shared", "release" if suffix != "A0TR" else "relaxed", "cta", 8, True, 2
        )
    if suffix.startswith("A0"):
        return Meaning(Op.OTHER, "shared", width=2)
    return Meaning(Op.MBARRIER_ARRIVE, "shared", "release", "cta", 8, True, 2)


def _shared_atomic(modifiers: Sequence[str]) -> Meaning:
    if "ARRIVE" in modifiers:  # before SYNCS, sm_80 arrives by an atomic
        return Meaning(Op.MBARRIER_ARRIVE, "shared", "release", "cta", 8, True, 2)
    return _access(Op.ATOMIC, "shared", True)(modifiers)._replace(scope="cta")


def _bulk_copy(modifiers: Sequence[str]) -> Meaning:
    if modifiers[:2] == ["G", "S"]:
        return Meaning(Op.BULK_STORE, "global", "weak", writes=False, read_width=2)
    space: Space = "global" if modifiers[:2] == ["S", "G"] else "shared::cluster"
    return Meaning(Op.BULK_LOAD, space, "weak", writes=False, read_width=2)


def _tensor_copy(op: Op) -> Callable[[Sequence[str]], Meaning]:
    """UTMALDG and its like: the first address is of registers for shared memory, mbarrier and coordinates."""

    def decode(modifiers: Sequence[str]) -> Meaning:
        rank = next((int(word[0]) for word in modifiers if word[:1].isdigit() and word[1:] == "D"), 5)
        return Meaning(op, "global", "weak", writes=False, width=2 + rank, read_width=2)

    return decode


def _tensor_map(modifiers: Sequence[str]) -> Meaning:
    if "PF" in modifiers:
        return Meaning(Op.PREFETCH, "global", "weak", writes=False, read_width=2)
    # UTMACCTL.IV: the acquire side of fence.proxy.tensormap.
    return Meaning(Op.PROXY_FENCE, "", "acquire", "gpu", writes=False, read_width=2)


def _load_constant(modifiers: Sequence[str]) -> Meaning:
    size = _bytes(modifiers)
    return Meaning(Op.LOAD, "const", "weak", "", size, True, max(1, size // 4))


def _special(modifiers: Sequence[str]) -> Meaning:
    return Meaning(Op.MOVE, width=1 if "32" in modifiers else 2)


def _arithmetic(base: str, modifiers: Sequence[str]) -> Meaning:
    width, read_width = _widths(base, modifiers)
    if "MOV" in modifiers:  # IMAD.MOV.U32
        return Meaning(Op.MOVE)
    if base in _PLAIN:
        return _PLAIN[base]._replace(width=width, read_width=read_width)
    if base.endswith("SETP") or base in ("ISETP", "UISETP", "DSETP"):
        return Meaning(Op.COMPARE, width=1, read_width=read_width)
    return Meaning(Op.OTHER, width=width, read_width=read_width)


def _widths(base: str, modifiers: Sequence[str]) -> tuple[int, int]:
    """Registers of the result and of each register read; those of tensor-core operations by their shape."""
    if base in _WIDE_RESULTS:
        return _WIDE_RESULTS[base]
    if "WIDE" in modifiers:  # 32 bits times 32 bits plus 64 bits
        return 2, 1
    if "64" in modifiers or "S64" in modifiers or {"F64", "U64"} & set(modifiers[:1]):
        return 2, 2
    if base == "HGMMA":  # accumulators in as many registers as columns / 2
        columns = next((word.split("x")[1] for word in modifiers if word.startswith("64x")), "")
        return (int(columns) // 2 if columns.isdigit() and len(columns) <= 3 else 4), 4
    return 1, 1


# Results and operands in registers, where the modifiers don't say it.
_WIDE_RESULTS = {
    **dict.fromkeys(("SHF", "USHF", "LEA", "ULEA"), (1, 1)),  # .64 says here how the bits are shifted
    **dict.fromkeys(("HMMA", "IMMA", "QMMA", "OMMA", "BMMA"), (4, 4)),
    **dict.fromkeys(("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"), (2, 2)),
    "DMMA": (4, 2),
}
_PLAIN = plain_opcodes("sass")
_FIXED = {
    "TEX": Meaning(Op.LOAD, "global", "nc", "", 4),
    "S2R": Meaning(Op.MOVE),
    "S2UR": Meaning(Op.MOVE),
    "CALL": Meaning(Op.CALL, writes=False, read_width=2),
    "UBLKRED": Meaning(Op.BULK_REDUCE, "global", "weak", writes=False, read_width=2),
    "UBLKPF": Meaning(Op.BULK_PREFETCH, "global", "weak", writes=False, read_width=2),
}
_FAMILIES: dict[str, Callable[[Sequence[str]], Meaning]] = {
    "LDG": _access(Op.LOAD, "global", True),
    "LD": _access(Op.LOAD, "generic", True),
    "LDS": _access(Op.LOAD, "shared", True),
    "LDL": _access(Op.LOAD, "local", True),
    "LDGMC": _access(Op.LOAD, "global", True),
    "TLD": _access(Op.LOAD, "global", True),
    "LDSM": _matrix_load,
    "LDC": _load_constant,
    "ULDC": _load_constant,
    "LDCU": _load_constant,
    "STG": _access(Op.STORE, "global", False),
    "ST": _access(Op.STORE, "generic", False),
    "STS": _access(Op.STORE, "shared", False),
    "STL": _access(Op.STORE, "local", False),
    "STSM": _access(Op.STORE, "shared", False),
    "STAS": _access(Op.STORE, "shared::cluster", False),
    "ATOMG": _access(Op.ATOMIC, "global", True),
    "ATOM": _access(Op.ATOMIC, "generic", True),
    "ATOMS": _shared_atomic,
    "RED": _access(Op.REDUCTION, "global", False),
    "REDG": _access(Op.REDUCTION, "global", False),
    "REDAS": _access(Op.REDUCTION, "shared::cluster", False),
    "LDGSTS": lambda modifiers: Meaning(Op.ASYNC_COPY, "global", "weak", "", _bytes(modifiers), False),
    "MEMBAR": _membar,
    "FENCE": _fence,
    "CCTL": _cache_control,
    "CCTLL": _cache_control,
    "BAR": _barrier,
    "SYNCS": _mbarrier,
    "UBLKCP": _bulk_copy,
    "UTMALDG": _tensor_copy(Op.BULK_LOAD),
    "UTMASTG": _tensor_copy(Op.BULK_STORE),
    "UTMAREDG": _tensor_copy(Op.BULK_REDUCE),
    "UTMAPF": _tensor_copy(Op.BULK_PREFETCH),
    "UTMACCTL": _tensor_map,
    "CS2R": _special,
    "CS2UR": _special,
}
