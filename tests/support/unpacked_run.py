"""A run's folder as older commits knew it: nothing is packed, every trace is a file of its own.

Example: the model of such a commit is asked again, and opens `..._row_stream.npz` by its path.
"""

import lzma
import shutil
from pathlib import Path

from wavesim.trace.trace_archive import ARCHIVE, unpack_traces


def unpacked_run(folder: Path, into: Path) -> Path:
    """Copies the run there, its traces unpacked. Returns `into`, which is made."""
    shutil.copytree(folder, into)
    unpack_traces(folder, into)
    (into / ARCHIVE).unlink()
    for packed in into.glob("*.json*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    return into
