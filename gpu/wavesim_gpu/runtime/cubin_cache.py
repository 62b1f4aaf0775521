"""Compiled kernels on disk, a file for each, under a key made of all that went into it.

Example: `use(folder)` before the first kernel is compiled keeps them in a folder that can be carried to
another machine: a key has no path in it. By default they are in the user's cache folder.
"""

import json
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT = Path.home() / ".cache" / "wavesim" / "cubin"
MOST_BYTES = 64 << 20  # of one entry, unpacked
_folder = DEFAULT


@dataclass(frozen=True)
class Cubin:
    """Machine code for one target, and the mangled name of each requested template instance."""

    data: bytes
    lowered: Mapping[str, str]
    ptx: str


def use(folder: Path) -> None:
    """From now on kernels are read from and kept in `folder`, which need not exist yet."""
    global _folder  # noqa: PLW0603  # one cache per process, as there is one compiler
    _folder = folder


def read(key: str) -> Cubin | None:
    """What was kept under a key; None where there is nothing, or something damaged."""
    try:
        with zipfile.ZipFile(_folder / f"{key}.zip") as entry:
            if sum(part.file_size for part in entry.infolist()) > MOST_BYTES:
                return None
            names = json.loads(entry.read("names.json"))
            return Cubin(entry.read("code.cubin"), names, entry.read("code.ptx").decode())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def keep(key: str, cubin: Cubin) -> None:
    """Written beside and renamed into place, so that a reader never sees half an entry."""
    try:
        _folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=_folder, suffix=".part", delete=False) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as entry,
        ):
            entry.writestr("names.json", json.dumps(dict(cubin.lowered)))
            entry.writestr("code.cubin", cubin.data)
            entry.writestr("code.ptx", cubin.ptx)
        Path(file.name).replace(_folder / f"{key}.zip")
    except OSError:
        return  # a read-only home only costs the next process its compile time
