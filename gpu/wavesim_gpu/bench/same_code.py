"""Which sources compile to the same machine code as those that results were measured with.

Example: the GEMM learnt to add a residual, which changed the hash of its sources and no instruction of what
the benchmark had timed. `tests/support/same_machine_code.py` found so, instance by instance, and wrote a link
from the old hash to the new one; the results still hold.
"""

from pathlib import Path

from wavesim.bench.gpu_results import Fields
from wavesim.safe_io.documents import read_json

FOLDER = "machine_code"  # in that of the results: a file per comparison
MAX_BYTES = 1 << 16


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
