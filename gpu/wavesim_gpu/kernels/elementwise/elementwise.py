"""Bias, activation and gate after a library's product, as a kernel of their own that runs at copy speed.

Example: of a product (512, 28672), gates then values, `Elementwise("bf16", "silu", 512, 14336, (28672,) * 3)`
leaves SiLU(gate) * value in the gates' place, launched by `run(gates, values, gates, 0, 0, stream)`.
"""

import ctypes
import struct
import threading
from pathlib import Path
from typing import Any

from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.driver_api import (
    OTHER_CONTEXT,
    LaunchConfig,
    current_context,
    in_context,
    require_driver,
)
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_error

SOURCE = Path(__file__).with_name("elementwise.cu")
ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "gelu-exact": 3, "silu": 4}
THREADS = 256
WIDTH, VECTOR_BYTES = 8, 16  # what a thread reads at once
MOST_ROWS = 65_535  # of a grid; beyond, blocks take several
CONFIG_BYTES = ctypes.sizeof(LaunchConfig)
# A `LaunchConfig`: grid, block, shared memory, stream; no attributes. Behind it `Elementwise` of the kernel:
# five addresses, three strides, rows, columns, activation.
LAYOUT = struct.Struct("=3I3II4xQ16x5Q5qi4x")
CALL_AT, CALL = LaunchConfig.stream.offset, struct.Struct("=Q16x5Q")  # what differs from call to call


class Elementwise:
    """out = activation(value + b_value), or with a gate activation(gate + b_gate) * (value + b_value).

    Matrices (rows, columns) of fp16 or bf16 with `strides` of gate, value and out, in elements from row to
    row. Made for the current GPU; launched from any thread.
    """

    def __init__(
        self, dtype: str, activation: str | None, rows: int, columns: int, strides: tuple[int, int, int]
    ) -> None:
        self._names = names(dtype)
        # The module unloads with the last `Function`.
        self._functions = [load_function(SOURCE, name, Build()) for name in self._names]
        word = ACTIVATIONS[activation]
        # Without a bias a dense matrix is one long row, whatever its columns.
        flat = (0, 0, 0, 1, rows * columns, word)
        pointers = [int(function.function.ptr) for function in self._functions]
        self._ready = _Ready(pointers, ((*strides, rows, columns, word), flat))
        self._is_dense = all(stride == columns for stride in strides)
        self._is_aligned = not any(stride % WIDTH for stride in strides)
        self._launch = require_driver().cuLaunchKernelEx
        self._context = current_context()

    def run(self, gate: int, value: int, out: int, b_gate: int, b_value: int, stream: int) -> None:
        """Launches it on addresses; 0 for a gate or a bias that there is none of. `out` may be an input.

        Raises `DeviceError` with the driver's word for what is wrong.
        """
        is_flat = self._is_dense and not (b_gate | b_value)
        is_aligned = not (gate | value | out | b_gate | b_value) % VECTOR_BYTES
        is_vector = is_aligned and (is_flat or self._is_aligned)
        buffer, arguments = self._ready.launches[is_flat][is_vector]
        CALL.pack_into(buffer, CALL_AT, stream, gate, value, out, b_gate, b_value)
        status = self._launch(*arguments)
        if status in OTHER_CONTEXT and current_context() != self._context:
            with in_context(self._context):
                status = self._launch(*arguments)
        if status:
            raise launch_error(KernelLaunch(self._names[not is_vector], THREADS, 0, 1), status)


def names(dtype: str) -> tuple[str, str]:
    """The kernels of an element type: with 16-byte accesses, and for addresses that do not allow them."""
    return f"elementwise_{dtype}", f"elementwise_{dtype}_unaligned"


class _Ready(threading.local):
    """Launches of a matrix as it is and as one row, each without and with 16-byte accesses.

    Each thread has its own, a buffer and the driver's arguments; the driver copies it at the launch.
    """

    def __init__(self, pointers: list[int], shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        vector, unaligned = pointers
        self.launches = [
            [_launch(unaligned, THREADS, shape), _launch(vector, THREADS * WIDTH, shape)] for shape in shapes
        ]


def _launch(pointer: int, of_block: int, shape: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]]:
    *_, rows, columns, _ = shape
    buffer = (ctypes.c_uint64 * (LAYOUT.size // 8))()
    blocks = -(-columns // of_block)
    LAYOUT.pack_into(buffer, 0, blocks, min(rows, MOST_ROWS), 1, THREADS, *(1, 1, 0, 0), *(0,) * 5, *shape)
    config = ctypes.addressof(buffer)
    parameters = (ctypes.c_void_p * 1)(config + CONFIG_BYTES)
    return buffer, (ctypes.c_void_p(config), ctypes.c_void_p(pointer), parameters, None)
