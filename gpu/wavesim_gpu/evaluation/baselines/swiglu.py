"""SwiGLU as a kernel of its own, for products whose library cannot fuse it.

Example: a row of 5,632 products, gate, value, gate, value, ..., becomes 2,816 outputs Swish(gate) * value.
Each thread reads 16 bytes, four pairs, and writes 8: the pass runs at copy speed.
"""

from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.functions import load_function

THREADS = 256
PAIRS_PER_THREAD = 4

SOURCE = Path(__file__).parents[2] / "kernels" / "swiglu.cu"


def launch_swiglu(pairs: Any, out: Any, dtype: str, stream: Any) -> None:
    """`pairs` (m, 2 n) to `out` (m, n), both row-major CuPy arrays; n a multiple of 4. Capturable."""
    quads = out.size // PAIRS_PER_THREAD
    function = load_function(SOURCE, f"swiglu_{dtype}", Build()).function
    arguments = (np.uint64(pairs.data.ptr), np.uint64(out.data.ptr), np.int64(quads))
    function((-(-quads // THREADS), 1, 1), (THREADS, 1, 1), arguments, 0, stream)
