"""A run's folder as older commits knew it: nothing is packed, every trace is a file of its own.

Example: the model of such a commit is asked again, and opens `..._row_stream.npz` by its path.
"""

import lzma
import shutil
import tarfile
from pathlib import Path

from wavesim.trace.trace_archive import ARCHIVE


def unpacked_run(folder: Path, into: Path) -> Path:
    """Copies the run there, its traces unpacked. Returns `into`, which is made."""
    shutil.copytree(folder, into)
    with tarfile.open(into / ARCHIVE) as archive:
        archive.extractall(into, filter="data")
    for packed in into.glob("*.json*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    return into
