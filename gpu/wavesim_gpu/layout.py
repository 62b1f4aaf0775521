"""The structures that host and device share, byte for byte: kernel parameters, block records, errors.

Picture: a kernel parameter is a NumPy record with the same fields in the same places as the struct in the
`.cuh` file that it names. The device side asserts the sizes; so does this side.
"""

import numpy as np

MAX_STAGES = 16
MAX_WAITERS = 64
MAX_INPUTS = 2
MAX_OUTPUTS = 4

# cusync/stage.cuh, StageParams.
STAGE_PARAMS = np.dtype(
    [
        ("semaphores", "<u8"),
        ("tile_counter", "<u8"),
        ("issued", "<u8"),
        ("order", "<u8"),
        ("errors", "<u8"),
        ("records", "<u8"),
        ("limit_ns", "<u8"),
        ("inputs", "<u8", (MAX_INPUTS,)),
        ("outputs", "<u8", (MAX_OUTPUTS,)),
        ("schedule", "<u8"),
        ("schedule_first", "<u8"),
        ("input_columns", "<i4", (MAX_INPUTS,)),
        ("grid", "<i4", (3,)),
        ("stage", "<i4"),
        ("stage_count", "<i4"),
        ("output_count", "<i4"),
    ]
)

# cusync/trace.cuh, BlockRecord.
BLOCK_RECORD = np.dtype(
    [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("cycles", "<u8"),
        ("wait_ns", "<u4"),
        ("wait_cycles", "<u4"),
        ("tile", "<i4"),
        ("slice", "<i4"),
        ("sm", "<i4"),
        ("position", "<i4"),
    ]
)

WAITER = np.dtype(
    [(name, "<i4") for name in ("stage", "x", "y", "z", "semaphore", "sm", "block", "reserved")]
    + [("seen", "<u4"), ("awaited", "<u4")]
)

# cusync/semaphore.cuh, ErrorBuffer.
ERROR_BUFFER = np.dtype(
    [
        ("aborted", "<u4"),
        ("waiter_count", "<u4"),
        ("issued", "<u4", (MAX_STAGES,)),
        ("waiters", WAITER, (MAX_WAITERS,)),
    ]
)

# kernels/gemm.cu, GemmParams.
GEMM_PARAMS = np.dtype(
    [(name, "<u8") for name in ("a", "b", "c", "partials", "tickets")]
    + [(name, "<i4") for name in ("m", "n", "k", "padding")]
)

# kernels/control.cu, WaitKernelParams.
WAIT_KERNEL_PARAMS = np.dtype(
    [("producers", "<i4", (MAX_INPUTS,)), ("producer_count", "<i4"), ("padding", "<i4"), ("times", "<u8")]
)

assert STAGE_PARAMS.itemsize == 152
assert BLOCK_RECORD.itemsize == 48
assert ERROR_BUFFER.itemsize == 2632
