"""The structures that host and device share, byte for byte: kernel parameters and errors.

Example: a kernel parameter is a NumPy record with the same fields in the same places as the struct in the
`.cuh` file that it names. The device side asserts the sizes; so does this side.
"""

import numpy as np

MAX_INPUTS = 8
MAX_AWAITED_STARTS = 2  # of one wait-kernel

# cusync/call.cuh, Call.
CALL = np.dtype(
    [
        ("slot", "<u8"),
        ("bell", "<u8"),
        ("result", "<u8"),
        ("result_quads", "<u8"),
        ("number", "<u4"),
        ("begins", "<i4"),
    ]
)

# cusync/stage.cuh, SyncParams.
SYNC_PARAMS = np.dtype(
    [
        ("counters", "<u8"),
        ("errors", "<u8"),
        ("records", "<u8"),
        ("limit_ns", "<u8"),
        ("schedule", "<u8"),
        ("schedule_first", "<u8"),
        ("stage", "<i4"),
        ("stage_count", "<i4"),
        ("counter_count", "<i4"),
        ("block_count", "<i4"),
        ("call", CALL),
    ]
)


def stage_params(sizes: int) -> np.dtype[np.void]:
    """cusync/stage.cuh, StageParams: `SYNC_PARAMS`, then the generated struct's integers; 8-byte aligned.

    A struct without members (`sizes` 0) takes one byte of C++, so 8 of these.
    """
    return np.dtype([("sync", SYNC_PARAMS), ("sizes", "<i4", (max(2, sizes + sizes % 2),))])


PARTIAL_SUMS = -1  # in place of a counter's number, cusync/watch.cuh

# kernels/gemm/sm80/gemm.cu, GemmParams.
GEMM_PARAMS = np.dtype(
    [(name, "<u8") for name in ("a", "b", "c", "partials", "tickets")]
    + [(name, "<i4") for name in ("m", "n", "k", "padding")]
)

# run/control.cu, WaitKernelParams.
WAIT_KERNEL_PARAMS = np.dtype(
    [
        ("producers", "<i4", (MAX_AWAITED_STARTS,)),
        ("producer_count", "<i4"),
        ("padding", "<i4"),
        ("times", "<u8"),
    ]
)

assert SYNC_PARAMS.itemsize == 104
