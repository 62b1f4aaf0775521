"""Bias, activation and gate after a library's product, as a kernel of their own that runs at copy speed.

Example: of a product (512, 28672), gates then values, `Elementwise("bf16", "silu", 512, 14336, (28672,) * 3)`
leaves SiLU(gate) * value in the gates' place, launched by `run(gates, values, gates, 0, 0, stream)`.
"""

import ctypes
import struct
import threading
from pathlib import Path

from wavesim_gpu.kernels.backend import KernelLaunch
from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.driver import (
    OTHER_CONTEXT,
    LaunchConfig,
    current_context,
    in_context,
    require_driver,
)
from wavesim_gpu.runtime.functions import load_function
from wavesim_gpu.runtime.launch_attributes import launch_error

SOURCE = Path(__file__).with_name("elementwise.cu")
ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "gelu-exact": 3, "silu": 4}
THREADS = 256
WIDTH, VECTOR_BYTES = 8, 16  # what a thread reads at once
MOST_ROWS = 65_535  # of a grid; beyond, blocks take several
CONFIG_BYTES = ctypes.sizeof(LaunchConfig)
# A `LaunchConfig`: grid, block, shared memory, stream; no attributes. Behind it `Elementwise` of the kernel:
# five addresses, three strides, rows, columns, activation. Written as one.
LAYOUT = struct.Struct("=3I3II4xQ16x5Q5qi4x")


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
        self._pointers = [ctypes.c_void_p(int(function.function.ptr)) for function in self._functions]
        self._shape = (*strides, rows, columns, ACTIVATIONS[activation])
        # Without a bias a dense matrix is one long row, whatever its columns.
        self._flat = (0, 0, 0, 1, rows * columns, ACTIVATIONS[activation])
        self._is_dense = all(stride == columns for stride in strides)
        self._is_aligned = not any(stride % WIDTH for stride in strides)
        self._launch = require_driver().cuLaunchKernelEx
        self._context = current_context()

    def run(self, gate: int, value: int, out: int, b_gate: int, b_value: int, stream: int) -> None:
        """Launches it on addresses; 0 for a gate or a bias that there is none of. `out` may be an input.

        Raises `DeviceError` with the driver's word for what is wrong.
        """
        is_flat = self._is_dense and not (b_gate | b_value)
        shape = self._flat if is_flat else self._shape
        is_aligned = not (gate | value | out | b_gate | b_value) % VECTOR_BYTES
        is_vector = is_aligned and (is_flat or self._is_aligned)
        rows, columns = shape[3], shape[4]
        of_block = THREADS * WIDTH if is_vector else THREADS
        index = 0 if is_vector else 1
        kept = _parameters
        LAYOUT.pack_into(
            kept.buffer, 0, -(-columns // of_block), min(rows, MOST_ROWS), 1, THREADS, 1, 1, 0, stream,
            gate, value, out, b_gate, b_value, *shape,
        )  # fmt: skip
        arguments = kept.config, self._pointers[index], kept.pointers, None
        status = self._launch(*arguments)
        if status in OTHER_CONTEXT and current_context() != self._context:
            with in_context(self._context):
                status = self._launch(*arguments)
        if status:
            raise launch_error(KernelLaunch(self._names[index], THREADS, 0, 1), status)


def names(dtype: str) -> tuple[str, str]:
    """The kernels of an element type: with 16-byte accesses, and for addresses that do not allow them."""
    return f"elementwise_{dtype}", f"elementwise_{dtype}_unaligned"


class _Parameters(threading.local):
    """A launch and its parameters, one buffer for each thread; the driver copies it at the launch."""

    def __init__(self) -> None:
        self.buffer = (ctypes.c_uint64 * (LAYOUT.size // 8))()
        self.config = ctypes.c_void_p(ctypes.addressof(self.buffer))
        self.pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.buffer) + CONFIG_BYTES)


_parameters = _Parameters()
