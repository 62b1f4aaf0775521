"""What machine code says only together with its neighbours: which copies a DEPBAR waits for, and how far.

Example: `cp.async.bulk.wait_group 0` and `cp.async.bulk.wait_group.read 0` both become `DEPBAR.LE SB0, 0x0`;
only the first is followed by CCTL.IVALL. `cp.async.wait_group 0` becomes the same DEPBAR, after an LDGDEPBAR
and not after a UTMACMDFLUSH. A strong load right before a CCTL.IVALL is an acquire. A NOP is what
__syncwarp() becomes where the warp's lanes are together, unless a matrix instruction comes next.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from wavesim.lint.instruction import Instruction, Op

_WAIT = re.compile(r"DEPBAR\.LE SB0, (0x[0-9a-f]{1,4})")
_MATRIX = re.compile(r"\b[A-Z]+MMA\b")
_PHASE = re.compile(r"LOP3\.LUT U?P\d, RZ, \w+, 0x80000000,")
_PHASE_REACH = 12  # instructions in which the load of an mbarrier's phase is followed by its test
_REACH = 40  # instructions in which the CCTL.IVALL of an acquire or of a wait is looked for
_CALL_REACH = 200  # instructions in which a call's address is looked for
# sm_120 has no clusters in hardware: a copy to another block's shared memory is a function of the driver.
_BULK_SYSCALL = "__cuda_syscall_cp_async_bulk"
_TOUCHING = frozenset(
    (Op.LOAD, Op.STORE, Op.ATOMIC, Op.REDUCTION, Op.FENCE, Op.BARRIER, Op.BRANCH, Op.CALL, Op.EXIT, Op.RETURN)
)


def with_context(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions of one function, with what their neighbours say of them."""
    commits = [
        (place, i.op) for place, i in enumerate(instructions) if i.op in (Op.ASYNC_COMMIT, Op.BULK_COMMIT)
    ]
    changed = list(instructions)
    for place, instruction in enumerate(instructions):
        if instruction.op is Op.CALL and not instruction.target:
            changed[place] = _named(instructions, place)
    for place, instruction in enumerate(instructions):
        if _acquires(instructions, place):
            changed[place] = replace(instruction, order="acquire")
        elif instruction.op is Op.OTHER and (found := _WAIT.search(instruction.text)):
            op = _waited_for(commits, place)
            if op is None:
                continue
            if op is Op.BULK_WAIT and not _is_followed_by_invalidate(instructions, place):
                op = Op.BULK_WAIT_READ
            changed[place] = replace(instruction, op=op, count=int(found[1], 16))
        elif (
            instruction.op is Op.PROXY_FENCE
            and instruction.space == "shared"
            and _is_wide(instructions, place)
        ):
            changed[place] = replace(instruction, space="")
        elif _means_nothing(instructions, place):
            changed[place] = replace(instruction, op=Op.OTHER)
    return tuple(_with_phase_tests(changed))


def _with_phase_tests(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    """Before SYNCS, on sm_80, a test of an mbarrier is a load of shared memory."""
    if not any(i.op is Op.ASYNC_ARRIVE or "ATOMS.ARRIVE" in i.text for i in instructions):
        return instructions
    return [
        replace(one, op=Op.MBARRIER_TEST, order="acquire", scope="cta")
        if _tests_phase(instructions, place)
        else one
        for place, one in enumerate(instructions)
    ]


def _tests_phase(instructions: Sequence[Instruction], place: int) -> bool:
    """Whether an mbarrier's upper half is loaded, and its top bit, the phase, tested."""
    load, following = instructions[place], instructions[place + 1 : place + _PHASE_REACH]
    if load.op is not Op.LOAD or load.space != "shared" or load.bytes != 4:
        return False
    reader = next((one for one in following if set(load.defines) & set(one.uses)), None)
    return reader is not None and bool(_PHASE.search(reader.text))


def _means_nothing(instructions: Sequence[Instruction], place: int) -> bool:
    """Whether it closes no group, being part of fence.proxy.tensormap, or is a NOP before a product."""
    instruction, around = instructions[place], instructions[max(0, place - 1) : place + 2]
    if instruction.op is Op.BULK_COMMIT:
        return place > 0 and "UTMACCTL.IV" in around[0].text
    return instruction.text == "NOP" and bool(_MATRIX.search(around[-1].text))


def _named(instructions: Sequence[Instruction], place: int) -> Instruction:
    """A call by address, whose function is the symbol that was loaded into its registers."""
    call = instructions[place]
    for instruction in reversed(instructions[max(0, place - _CALL_REACH) : place]):
        if set(instruction.defines) & set(call.uses):
            name = instruction.symbols[0] if instruction.symbols else ""
            is_copy = name.startswith(_BULK_SYSCALL)
            return replace(
                call, target=name, op=Op.BULK_LOAD if is_copy else Op.CALL, space="global" if is_copy else ""
            )
    return call


def _waited_for(commits: Sequence[tuple[int, Op]], place: int) -> Op | None:
    """By the nearest commit before, or after where there is none: a loop may begin with its wait."""
    before = [op for at, op in commits if at < place][-1:] or [op for _, op in commits][:1]
    if not before:
        return None
    return Op.ASYNC_WAIT if before[0] is Op.ASYNC_COMMIT else Op.BULK_WAIT


def _acquires(instructions: Sequence[Instruction], place: int) -> bool:
    """A strong load or atomic whose CCTL.IVALL comes before any other access: an acquire of the source."""
    instruction = instructions[place]
    is_strong = instruction.op in (Op.LOAD, Op.ATOMIC) and instruction.order == "relaxed"
    is_shared = instruction.space in ("global", "generic") and instruction.scope in ("gpu", "sys")
    return is_strong and is_shared and _is_followed_by_invalidate(instructions, place)


def _is_followed_by_invalidate(instructions: Sequence[Instruction], place: int) -> bool:
    for instruction in instructions[place + 1 : place + _REACH]:
        if instruction.op is Op.INVALIDATE:
            return True
        if instruction.op in _TOUCHING and instruction.space not in ("param", "const"):
            return False
    return False


def _is_wide(instructions: Sequence[Instruction], place: int) -> bool:
    """fence.proxy.async of all spaces: MEMBAR.ALL.GPU before; of shared memory alone: MEMBAR.ALL.CTA."""
    before = next((i for i in reversed(instructions[max(0, place - 4) : place]) if i.op is Op.FENCE), None)
    return before is not None and before.scope in ("gpu", "sys")
