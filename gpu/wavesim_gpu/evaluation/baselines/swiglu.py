"""SwiGLU as a kernel of its own, for products whose library cannot fuse it.

Example: a row of 5,632 products, gate, value, gate, value, ..., becomes 2,816 outputs Swish(gate) * value.
Each thread reads 16 bytes, four pairs, and writes 8: the pass runs at copy speed.
"""

from functools import cache
from pathlib import Path
from typing import Any

from wavesim_gpu.runtime.device import require_cupy

THREADS = 256
PAIRS_PER_THREAD = 4

SOURCE = Path(__file__).parents[2] / "kernels" / "swiglu.cu"


def launch_swiglu(pairs: Any, out: Any, dtype: str, stream: Any) -> None:
    """`pairs` (m, 2 n) to `out` (m, n), both row-major CuPy arrays; n a multiple of 4. Capturable."""
    cupy = require_cupy()
    quads = out.size // PAIRS_PER_THREAD
    with stream:
        _kernel(dtype)((-(-quads // THREADS),), (THREADS,), (pairs, out, cupy.int64(quads)))


@cache
def _kernel(dtype: str) -> Any:
    return require_cupy().RawKernel(SOURCE.read_text(), f"swiglu_{dtype}")
