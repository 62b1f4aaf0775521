"""Everything of ours that a benchmark times, as one hash: results of other sources are stale.

Example: an operator changed in the copy kernel, and `python -m wavesim_gpu report` says that the results in
gpu/results were measured with other sources, as it does for the GEMM.
`driver/kernel_sources.py` says what counts.
"""

from pathlib import Path

from wavesim.bench.gpu_results import Fields
from wavesim.bench.stored_kernels import kernels_named
from wavesim.safe_io.documents import read_json
from wavesim_gpu.driver.kernel_sources import ROOT, source_hash
from wavesim_gpu.kernels.backends import backend_named

FOLDER = "machine_code"  # in that of the results: a file per comparison of two sources
MAX_BYTES = 1 << 16
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


def has_same_code(results: Path, measured: str, current: str) -> bool:
    """Whether comparisons stored beside results link the hash of the measured sources to the current one.

    Raises `RecordingError` for a damaged file.
    """
    files = sorted((results / FOLDER).glob("*.json"))
    links = [Fields(read_json(path, MAX_BYTES), str(path)) for path in files]
    reached = {measured}
    for _ in links:
        reached |= {link.get("to", str) for link in links if link.get("from", str) in reached}
    return current in reached
