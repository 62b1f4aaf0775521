"""The recorder for Triton kernels: what `wavesim_recorder.cuh` is for CUDA C++, in PTX from inside Triton.

Example: a kernel's parameter `recording` is `Recording.buffer`, or None, which leaves nothing in the kernel.

    number = begin(recording)                      # first line
    begin_wait(recording, number)                  # around a wait, if there is one
    end_wait(recording, number)
    end(recording, number, 0, tile_x, tile_y)      # last line

Every program records; one of its threads writes. Only Triton kernels import this module.
"""

import triton
import triton.language as tl

from wavesim_gpu.record.layout import HEADER, MAGIC, RECORD, WORD

_MAGIC = tl.constexpr(MAGIC)
_HEADER_WORDS = tl.constexpr(HEADER.itemsize // WORD)
_RECORD_WORDS = tl.constexpr(RECORD.itemsize // WORD)
# Places of the record's fields, in words of 4 bytes.
_START, _END, _STAGE, _WAIT_NS, _WAIT_CYCLES, _SM, _THREADS = (
    tl.constexpr(RECORD.fields[name][1] // WORD)
    for name in ("start_ns", "end_ns", "stage", "wait_ns", "wait_cycles", "sm", "threads")
)


@triton.jit
def begin(recording):
    """The tile starts now. Returns the number of its record, -1 where it has none."""
    number = -1
    if recording is not None:
        ns, cycles = _time_ns(), _cycles()
        capacity = tl.load(recording + 1)
        own = tl.atomic_add(recording + 2, 1, sem="relaxed")
        # A count beyond 2^31 comes out negative: full too.
        has_room = (tl.load(recording) == _MAGIC) & (own >= 0) & (own < capacity)
        number = tl.where(has_room, own, -1)
        times = _record(recording, number).to(tl.pointer_type(tl.int64))
        tl.store(times, ns, mask=has_room)
        tl.store(times + 1, cycles, mask=has_room)
        tl.store(times + 2, 0, mask=has_room)
        tl.store(times + 3, 0, mask=has_room)
        words = _record(recording, number)
        tl.store(words + _WAIT_NS, 0, mask=has_room)
        tl.store(words + _WAIT_CYCLES, 0, mask=has_room)
        tl.store(words + _SM, _special_register("mov.u32 $0, %smid;"), mask=has_room)
        tl.store(words + _THREADS, _special_register("mov.u32 $0, %ntid.x;"), mask=has_room)
    return number


@triton.jit
def begin_wait(recording, number):
    """A wait starts now. Sums are kept modulo 2^32: a difference of two clocks comes out right."""
    if recording is not None:
        words = _record(recording, number)
        tl.atomic_add(words + _WAIT_NS, (-_time_ns()).to(tl.int32), mask=number >= 0, sem="relaxed")
        tl.atomic_add(words + _WAIT_CYCLES, (-_cycles()).to(tl.int32), mask=number >= 0, sem="relaxed")


@triton.jit
def end_wait(recording, number):
    """The wait is over."""
    if recording is not None:
        words = _record(recording, number)
        tl.atomic_add(words + _WAIT_NS, _time_ns().to(tl.int32), mask=number >= 0, sem="relaxed")
        tl.atomic_add(words + _WAIT_CYCLES, _cycles().to(tl.int32), mask=number >= 0, sem="relaxed")


@triton.jit
def end(recording, number, stage, x, y=0, z=0):
    """The tile ends now, when all its warps are done. `stage` is its place among the recording's stages."""
    if recording is not None:
        tl.debug_barrier()
        words = _record(recording, number)
        times = (words + _END).to(tl.pointer_type(tl.int64))
        tl.store(times, _time_ns(), mask=number >= 0)
        tl.store(times + 1, _cycles(), mask=number >= 0)
        tl.store(words + _STAGE, stage, mask=number >= 0)
        tl.store(words + _STAGE + 1, x, mask=number >= 0)
        tl.store(words + _STAGE + 2, y, mask=number >= 0)
        tl.store(words + _STAGE + 3, z, mask=number >= 0)


@triton.jit
def _record(recording, number):
    return recording + _HEADER_WORDS + tl.maximum(number, 0).to(tl.int64) * _RECORD_WORDS


@triton.jit
def _time_ns():
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def _cycles():
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def _special_register(move: tl.constexpr):
    return tl.inline_asm_elementwise(move, "=r", [], dtype=tl.int32, is_pure=True, pack=1)
