"""Triton kernels of the corpus, compiled with no GPU: `python tests/support/lint_corpus_triton.py FOLDER`.

Needs Triton (3.6 made what is packed) and writes FOLDER/NAME.ARCH.ptx and .cubin, for
`lint_corpus_others.py`.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

ARCHS = {"sm_80": 80, "sm_90a": 90, "sm_100a": 100, "sm_120a": 120}


@triton.jit
def scale(x, y, n, tile: tl.constexpr):
    """No synchronisation at all."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)


@triton.jit
def post_rows(x, rows, ready, tile: tl.constexpr):
    """A tile is stored; one thread posts with release once all warps have stored."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(rows + at, tl.load(x + at) * 2.0)
    tl.debug_barrier()
    tl.atomic_add(ready + tl.program_id(0) // 4, 1, sem="release", scope="gpu")


@triton.jit
def post_without_barrier(x, rows, ready, tile: tl.constexpr):
    """The same without the barrier, and relaxed."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(rows + at, tl.load(x + at) * 2.0)
    tl.atomic_add(ready + tl.program_id(0) // 4, 1, sem="relaxed", scope="gpu")


@triton.jit
def wait_by_acquire(rows, y, ready, tile: tl.constexpr):
    """The loop's condition uses what the acquiring operation returns."""
    while tl.atomic_add(ready + tl.program_id(0), 0, sem="acquire", scope="gpu") < 4:
        pass
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def wait_by_swap(rows, y, ready, tile: tl.constexpr):
    """A wait by compare-and-swap of the usual order, acquire and release."""
    while tl.atomic_cas(ready + tl.program_id(0), 4, 4, sem="acq_rel", scope="gpu") != 4:
        pass
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def wait_relaxed(rows, y, ready, tile: tl.constexpr):
    """The same, relaxed."""
    while tl.atomic_cas(ready + tl.program_id(0), 4, 4, sem="relaxed", scope="gpu") != 4:
        pass
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def discarded_acquire(rows, y, ready, tile: tl.constexpr):
    """Volatile loads poll; the acquiring operation after them is deleted, as nobody uses what it returns."""
    while tl.load(ready + tl.program_id(0), volatile=True) < 4:
        pass
    tl.atomic_add(ready + tl.program_id(0), 0, sem="acquire", scope="gpu")
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def kept_acquire(rows, y, ready, tile: tl.constexpr):
    """Acquire and release together are not deleted; but one thread does them and tells nobody."""
    while tl.load(ready + tl.program_id(0), volatile=True) < 4:
        pass
    tl.atomic_add(ready + tl.program_id(0), 0, sem="acq_rel", scope="gpu")
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def kept_acquire_and_barrier(rows, y, ready, tile: tl.constexpr):
    """Only one thread does what Triton's atomic does, so the others need a barrier after it."""
    while tl.load(ready + tl.program_id(0), volatile=True) < 4:
        pass
    tl.atomic_add(ready + tl.program_id(0), 0, sem="acq_rel", scope="gpu")
    tl.debug_barrier()
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def wait_for_peer(rows, y, ready, tile: tl.constexpr, reach: tl.constexpr):
    """The flag and the rows lie on another GPU."""
    while tl.atomic_cas(ready + tl.program_id(0), 1, 0, sem="acquire", scope=reach) != 1:
        pass
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(y + at, tl.load(rows + at) + 1.0)


@triton.jit
def dependent(x, weights, y, tile: tl.constexpr, is_waiting: tl.constexpr):
    """A programmatic dependent: weights before the wait, the other kernel's output after it."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    weight = tl.load(weights + at)
    if is_waiting:
        gdc_wait()
    value = tl.load(x + at)
    gdc_launch_dependents()
    tl.store(y + at, value * weight)


@triton.jit
def early_dependent(x, weights, y, tile: tl.constexpr):
    """A programmatic dependent that loads the other kernel's output before the wait."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    value = tl.load(x + at)
    gdc_wait()
    gdc_launch_dependents()
    tl.store(y + at, value * tl.load(weights + at))


@triton.jit
def lock_and_add(x, total, lock, tile: tl.constexpr):
    """A lock by exchange around a sum in memory, as Triton's layer-norm tutorial has it."""
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    value = tl.load(x + at)
    columns = tl.arange(0, tile)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    before = tl.load(total + columns)
    tl.store(total + columns, before + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def matmul(  # noqa: PLR0917 -- a kernel takes what it takes
    a, b, c, ready, k, n, awaited, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr
):
    """A pipelined product whose rows of A are awaited before its loop."""
    row, column = tl.program_id(0), tl.program_id(1)
    while tl.atomic_add(ready + row, 0, sem="acquire", scope="gpu") < awaited:
        pass
    rows, columns, depth = (
        row * tile_m + tl.arange(0, tile_m),
        column * tile_n + tl.arange(0, tile_n),
        tl.arange(0, tile_k),
    )
    left = a + rows[:, None] * k + depth[None, :]
    right = b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for _ in range(0, k, tile_k):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += tile_k
        right += tile_k * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


# Types of parameters by their names; all others point to fp32.
HALVES = ("a", "b", "c", "a_ptr", "b_ptr", "c_ptr", "out_ptr")
WORDS = ("ready", "lock", "sync", "semaphores", "recording")
NUMBERS = ("m", "n", "k", "awaited", "stage", "patience", "rows_per_semaphore")
KINDS = dict.fromkeys(HALVES, "*fp16") | dict.fromkeys(WORDS, "*i32") | dict.fromkeys(NUMBERS, "i32")
TILE = {"tile": 1024}
MATMUL = {"tile_m": 128, "tile_n": 128, "tile_k": 32}
# Name in the corpus: kernel, constants, options.
KERNELS = {
    "scale": (scale, TILE, {}),
    "post_rows": (post_rows, TILE, {}),
    "post_without_barrier": (post_without_barrier, TILE, {}),
    "wait_by_acquire": (wait_by_acquire, TILE, {}),
    "wait_by_swap": (wait_by_swap, TILE, {}),
    "wait_relaxed": (wait_relaxed, TILE, {}),
    "discarded_acquire": (discarded_acquire, TILE, {}),
    "kept_acquire": (kept_acquire, TILE, {}),
    "kept_acquire_and_barrier": (kept_acquire_and_barrier, TILE, {}),
    "wait_for_peer_gpu": (wait_for_peer, {**TILE, "reach": "gpu"}, {}),
    "wait_for_peer_sys": (wait_for_peer, {**TILE, "reach": "sys"}, {}),
    "dependent": (dependent, {**TILE, "is_waiting": True}, {"launch_pdl": True}),
    "early_dependent": (early_dependent, TILE, {"launch_pdl": True}),
    "lock_and_add": (lock_and_add, TILE, {}),
    "matmul": (matmul, MATMUL, {"num_warps": 4, "num_stages": 3}),
}


def compile_into(folder, kernels):
    """Writes PTX and machine code of each, for the architectures that know its instructions."""
    for name, (kernel, constants, options) in kernels.items():
        for arch, number in ARCHS.items():
            if "launch_pdl" in options and number < 90:
                continue
            made = triton.compile(
                source_of(kernel, constants), target=GPUTarget("cuda", number, 32), options=options
            )
            (folder / f"triton.{name}.{arch}.ptx").write_text(made.asm["ptx"])
            (folder / f"triton.{name}.{arch}.cubin").write_bytes(made.asm["cubin"])


def source_of(kernel, constants):
    """Integers and pointers are multiples of 16, as at usual sizes."""
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else KINDS.get(name, "*fp32") for name in names}
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if name not in constants}
    return ASTSource(kernel, signature, constants, aligned)


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]), KERNELS)
