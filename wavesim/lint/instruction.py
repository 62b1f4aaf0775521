"""An instruction of PTX or machine code, a kernel as a list of them, a file as a list of kernels.

Example: `ld.acquire.gpu.global.u32 %r1, [%rd2+4];` is a LOAD that defines %r1, uses %rd2, of space "global",
order "acquire", scope "gpu", from Address("%rd2", 4), 4 bytes. A PTX file with two .entry functions is a
Listing of two KernelCodes, of language "ptx".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Space = Literal["", "global", "shared", "shared::cluster", "generic", "local", "param", "const", "tensor"]
# "weak" is an ordinary access; "nc" a weak load by the non-coherent path (ld.global.nc, LDG.CONSTANT).
Ordering = Literal["", "weak", "nc", "volatile", "mmio", "relaxed", "acquire", "release", "acq_rel", "sc"]
Scope = Literal["", "cta", "cluster", "gpu", "sys"]

SCOPES: tuple[Scope, ...] = ("", "cta", "cluster", "gpu", "sys")  # each wider than the one before
ACQUIRES: frozenset[Ordering] = frozenset({"acquire", "acq_rel", "sc"})
RELEASES: frozenset[Ordering] = frozenset({"release", "acq_rel", "sc"})
STRONG: frozenset[Ordering] = ACQUIRES | RELEASES | {"relaxed", "volatile", "mmio"}

_SHUFFLE = re.compile(r"\b(shfl|SHFL)\b|\bBRA\.CONV\b")  # BRA.CONV is what __syncwarp() becomes on sm_80
PARAMETERS = "parameters"  # the symbol of all parameters together, at whose address the first one begins


class Op(Enum):
    """What an instruction does to the order of memory accesses."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"  # returns the value before
    REDUCTION = "reduction"  # an atomic that returns nothing
    FENCE = "fence"  # fence, membar; in machine code MEMBAR
    PROXY_FENCE = "proxy fence"  # between ordinary and asynchronous accesses
    INVALIDATE = "invalidate"  # machine code: CCTL.IVALL, which makes the loads after it read anew
    BARRIER = "barrier"  # of the block, by all threads or some; `count` is its number where it has one
    BARRIER_ARRIVE = "barrier arrive"  # of the block, without waiting
    CLUSTER_ARRIVE = "cluster arrive"
    CLUSTER_WAIT = "cluster wait"
    WARP_SYNC = "warp sync"
    MBARRIER_INIT = "mbarrier init"
    MBARRIER_ARRIVE = "mbarrier arrive"
    MBARRIER_EXPECT = "mbarrier expect"
    MBARRIER_TEST = "mbarrier test"  # test_wait or try_wait
    ASYNC_COPY = "async copy"  # cp.async: global to shared by the threads
    ASYNC_COMMIT = "async commit"
    ASYNC_WAIT = "async wait"  # `count` groups may be pending
    ASYNC_ARRIVE = "async arrive"  # cp.async.mbarrier.arrive
    BULK_LOAD = "bulk load"  # TMA and cp.async.bulk, global to shared
    BULK_STORE = "bulk store"  # shared to global
    BULK_REDUCE = "bulk reduce"  # shared to global, adding
    BULK_PREFETCH = "bulk prefetch"
    BULK_COMMIT = "bulk commit"
    BULK_WAIT = "bulk wait"  # `count` groups may be pending; until they are written
    BULK_WAIT_READ = "bulk wait read"  # .read: until shared memory may be reused, no further
    GRID_WAIT = "grid wait"  # griddepcontrol.wait
    GRID_TRIGGER = "grid trigger"  # griddepcontrol.launch_dependents
    PREFETCH = "prefetch"
    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    EXIT = "exit"
    TRAP = "trap"
    CLOCK = "clock"  # reads a clock or timer
    SLEEP = "sleep"
    ADD = "add"  # arithmetic that keeps a pointer a pointer
    COMPARE = "compare"  # defines predicates
    MOVE = "move"
    OTHER = "other"


@dataclass(frozen=True)
class Address:
    """Register (or symbol, or "") plus bytes."""

    base: str
    offset: int = 0


@dataclass(frozen=True)
class SourceLine:
    """Where the instruction comes from, as the compiler noted it, or its line in the listing itself."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `guard` is its predicate with sign, such as "!%p1", or "".

    `defines` and `uses` name registers and predicates; `uses` includes those of addresses and the guard, and
    special registers ("%tid.x"). `scaled` are those of `uses` that an ADD multiplies or shifts: no pointers.
    `symbols` are the kernel parameters and variables that it names: "param 0" for the kernel's first.
    `address` is that of global memory where a copy has two. `target` is the label that a branch goes to
    (several, with commas, for a table's; "" where it isn't known) or the function that is called.
    `value` is a constant that is stored, added or compared with: threads of a barrier, bytes of a copy.
    """

    text: str
    op: Op
    listing_line: int  # from 1, in the PTX or the disassembly
    defines: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    guard: str = ""
    space: Space = ""
    order: Ordering = ""
    scope: Scope = ""
    address: Address | None = None
    bytes: int = 0
    count: int | None = None
    value: int | None = None
    target: str = ""
    scaled: tuple[str, ...] = ()
    source: SourceLine | None = None


@dataclass(frozen=True)
class KernelCode:
    """`labels` maps a label to the index of the instruction after it (len(instructions) at the end).

    `parameters` names the kernel's parameters in their order: their sizes in bytes, by name. `threads` is
    what .reqntid or .maxntid says, 0 where nothing does. `is_entry` is False for a device function. `offsets`
    are where the parameters begin among each other in machine code, in bytes, where that is known.
    """

    name: str
    instructions: Sequence[Instruction]
    labels: Mapping[str, int]
    parameters: Mapping[str, int] = field(default_factory=dict)
    threads: int = 0
    is_entry: bool = True
    offsets: Sequence[int] = ()


@dataclass(frozen=True)
class Listing:
    """The kernels of one piece of PTX or machine code. `where` names it; `arch` is such as "sm_90a"."""

    where: str
    language: Literal["ptx", "sass"]
    arch: str
    kernels: Sequence[KernelCode]
    notes: Sequence[str] = ()  # what could not be read, in words


def is_shuffle(instruction: Instruction) -> bool:
    """Whether it hands a register's value to the warp's other lanes."""
    return bool(_SHUFFLE.search(instruction.text))


ACCESSES = frozenset({Op.LOAD, Op.STORE, Op.ATOMIC, Op.REDUCTION})
COPIES = frozenset({Op.ASYNC_COPY, Op.BULK_LOAD, Op.BULK_STORE, Op.BULK_REDUCE})


def width(scope: Scope) -> int:
    """Scopes as numbers: a wider one is greater, none is 0."""
    return SCOPES.index(scope)
