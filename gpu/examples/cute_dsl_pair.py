"""Row semaphores in CuTe DSL (Python): a wait, a post, and two kernels that copy tile rows.

Example: `wait_for_row(semaphores, y, tiles_per_row, looks)` stands before the first load of A, called by
all that load; `post_row(semaphores, y)` behind a tile's last store, called by the thread that stored it by
TMA, or by one thread behind a barrier. Needs pip's nvidia-cutlass-dsl.
"""

import cutlass
from cutlass import cute
from cutlass.cute import arch

THREADS = 128


@cute.jit
def wait_for_row(semaphores: cute.Tensor, y, awaited, looks) -> cutlass.Boolean:
    """Until a row's semaphore has reached a value, or after so many looks: then it returns False."""
    place = (semaphores.iterator + y).llvm_ptr
    # Every look acquires: what was stored before the post that it sees may be read after it.
    seen = arch.load(place, cutlass.Int32, sem="acquire", scope="gpu")
    while seen < awaited and looks > 0:
        looks -= 1
        seen = arch.load(place, cutlass.Int32, sem="acquire", scope="gpu")
    arch.fence_proxy("async.global")  # loads by TMA read through another proxy
    return seen >= awaited


@cute.jit
def post_row(semaphores: cute.Tensor, y):
    """Says that a tile of a row is stored, by TMA or by threads that a barrier has joined."""
    arch.cp_async_bulk_wait_group(0)  # made, and not only read from shared memory
    arch.red(
        (semaphores.iterator + y).llvm_ptr,
        cutlass.Int32(1),
        op="add",
        dtype="s32",
        sem="release",
        scope="gpu",
    )


@cute.kernel
def first(source: cute.Tensor, middle: cute.Tensor, semaphores: cute.Tensor):
    """Copies tile (x, y), of one row and `THREADS` columns."""
    arch.griddepcontrol_launch_dependents()
    x, y, _ = arch.block_idx()
    thread, _, _ = arch.thread_idx()
    middle[y, x * THREADS + thread] = source[y, x * THREADS + thread]
    arch.barrier()
    if thread == 0:
        post_row(semaphores, y)


@cute.kernel
def second(middle: cute.Tensor, out: cute.Tensor, semaphores: cute.Tensor, tiles_per_row, looks):
    """Copies the row's tiles in the other direction once all of the row is there; NaN if it does not come."""
    x, y, _ = arch.block_idx()
    thread, _, _ = arch.thread_idx()
    is_there = wait_for_row(semaphores, y, tiles_per_row, looks)
    column = (tiles_per_row - 1 - x) * THREADS + thread
    value = middle[y, column]
    if not is_there:
        value = cutlass.Float32(float("nan"))
    out[y, x * THREADS + thread] = value


@cute.jit
def run(
    source: cute.Tensor, middle: cute.Tensor, out: cute.Tensor, semaphores: cute.Tensor, looks: cutlass.Int32
):
    """Both, the second by dependent launch. The semaphores are zero before."""
    rows, columns = source.shape
    tiles = columns // THREADS
    first(source, middle, semaphores).launch(grid=[tiles, rows, 1], block=[THREADS, 1, 1])
    second(middle, out, semaphores, tiles, looks).launch(
        grid=[tiles, rows, 1], block=[THREADS, 1, 1], use_pdl=True
    )
