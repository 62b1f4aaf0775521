"""A layer's GEMM in our own kernel, prepared once: of few rows its launch is what the host waits for.

Example: `TiledLinear(shape, (64, 128), w).launch(x, out, stream)` stores two addresses into parameters that
lie ready and launches. Of few rows cuBLASLt is faster on the GPU, and takes the host 10 us more.
"""

import threading

import numpy as np

from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim.workloads.tried_tiles import split_of
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import Hopper
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_K
from wavesim_gpu.peers.choice import LinearShape
from wavesim_gpu.peers.workspace import WORD, PreparedLaunch

PLAN = "persistent+one-stream+boundary"


class TiledLinear:
    """Calls, one after the other, of out (m, n) = x (m, k) times w (n, k) transposed, where TMA reaches.

    The GPU must be current. Raises `DescriptionError`, `DeviceError` and `CompileError`.
    """

    def __init__(self, shape: LinearShape, tile: tuple[int, int], w: int, bias: int = 0) -> None:
        self._lock, cupy, hopper, plan = threading.Lock(), require_cupy(), Hopper(), parse_plan(PLAN)
        gemm = Gemm(
            "gemm", shape.m, shape.n, shape.k, *tile, TILE_K, split_of(shape.size, tile),
            dtype=shape.dtype, b_order="column", has_bias=bias != 0, carveout="full",  # type: ignore[arg-type]
        )  # fmt: skip
        launch = hopper.launch(gemm, plan, query())
        state = SyncState(Pipeline("layer", [Stage("gemm", gemm)]), plan, block_count=launch.blocks)
        partials = cupy.zeros(max(1, hopper.partial_bytes(gemm, plan)), np.uint8)
        # Any aligned address does until a call has told its own.
        places = Addresses(w, w, w, int(partials.data.ptr), state.tickets("gemm"), bias=bias)
        arguments = state.params("gemm"), *hopper.arguments(gemm, plan, places)
        shared, header = launch.dynamic_shared_bytes, state.headers["gemm"].text
        function = load_function(hopper.source, launch.expression, Build(), shared, header)
        cupy.cuda.Device().synchronize()  # tables are zeroed on another stream
        self._launch, self._kept = (
            PreparedLaunch(DeviceLaunch(function, launch, arguments, 0)),
            (state, partials),
        )
        start, fields = self._launch.starts[1], hopper.address_fields(gemm, plan)
        self._x, self._out = (
            [(start + field.offset) // WORD for field in fields if field.operand == name] for name in "ac"
        )
        self._has_words = all(self._launch.has_plain_map(word, w) for word in (*self._x, *self._out))

    def launch(self, x: int, out: int, stream: int) -> None:
        """One call on a stream. Raises `DeviceError`."""
        with self._lock:
            for places, address in ((self._x, x), (self._out, out)):
                for word in places:
                    if self._has_words:
                        self._launch.words[word] = address
                    else:
                        self._launch.move_map(word, address)
            self._launch.start(stream)
