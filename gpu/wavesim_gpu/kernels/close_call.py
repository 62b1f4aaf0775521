"""The last kernel of a library call: NaN in its result and a report to the host if a wait gave up.

Example: `mlp` ends each call that waits with one launch of it, on the caller's stream; `runtime/calls.py`
reads what it reports.
"""

from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.kernels.backend import KernelLaunch

SOURCE = Path(__file__).with_name("close_call.cu")
LAUNCH = KernelLaunch("close_call", threads=512, dynamic_shared_bytes=0, blocks=1)


def arguments(errors: int, slot: int, bell: int, result: int, count: int) -> tuple[Any, ...]:
    """The kernel's parameters: addresses of error buffer, slot, bell and result; the result's elements."""
    return tuple(np.uint64(value) for value in (errors, slot, bell, result, count))
