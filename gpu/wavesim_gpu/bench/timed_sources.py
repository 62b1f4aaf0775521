"""Everything of ours that a benchmark times, as one hash: results of other sources are stale.

Example: an operator changed in the copy kernel, and `python -m wavesim_gpu report` says that the results in
gpu/results were measured with other sources, as it does for the GEMM.
`driver/kernel_sources.py` says what counts.
"""

from pathlib import Path

from wavesim.bench.stored_kernels import kernels_named
from wavesim_gpu.driver.kernel_sources import ROOT, source_hash
from wavesim_gpu.kernels.backends import backend_named

# Beside GEMMs: copy pairs, primitives, the wait-kernel, and what follows a product of cuBLASLt.
BESIDE = tuple(
    ROOT / name
    for name in (
        "kernels/elementwise/copy.cu",
        "bench/labs/primitives.cu",
        "run/control.cu",
        "kernels/elementwise/elementwise.cu",
    )
)


def kernel_files(kernels: str) -> tuple[Path, ...]:
    """What the benchmark of a stored name runs. Raises `DescriptionError` where there is none."""
    return (backend_named(kernels_named(kernels).backend).source, *BESIDE)


def timed_hash(kernels: str) -> str:
    """Sixteen hex digits over those and all that they include; another backend's files do not change it."""
    return source_hash(*kernel_files(kernels))
