"""Pairs of GEMMs as a GPU benchmark measured them: a summary that ships with the package.

Example: GPT-3's MLP at 3,328 tokens on an H200: 1,594 us on one stream, 1,553 with row semaphores and by
cuBLASLt. `wavesim results --docs docs` writes the summary from a full results file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wavesim.errors import RecordingError
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.documents import read_json

FILE = FOLDER / "measured_pairs.json"
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class MeasuredPairs:
    """One benchmark run. `median_ns`: {workload: {tokens: {candidate: median of its rounds in ns}}}.

    `file` is the results file that it sums up; each candidate ran in its own best tiles and order.
    """

    file: str
    device: str
    date: str
    commit: str
    kernels: str
    median_ns: Mapping[str, Mapping[int, Mapping[str, int]]]


def measured_pairs_from(path: Path = FILE) -> MeasuredPairs:
    """The summary as committed. Raises `RecordingError` for a file that is none."""
    entry = read_json(path, MAX_BYTES)
    try:
        pairs = {
            str(workload): {int(tokens): dict(times) for tokens, times in sizes.items()}
            for workload, sizes in entry.pop("median_ns").items()
        }
        return MeasuredPairs(**entry, median_ns=pairs)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingError(f"{path}: not a summary of measured pairs: {error!r}") from None
