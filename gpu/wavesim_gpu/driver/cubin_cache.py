"""Compiled kernels on disk, a file for each, under a key made of all that went into it.

Example: `use(folder)` before the first kernel is compiled keeps them in a folder that can be carried to
another machine: a key has no path in it. By default they are in the user's cache folder.
"""

import contextlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wavesim.errors import OutputError
from wavesim.safe_io.reading import open_data
from wavesim.safe_io.writing import replacing

MOST_BYTES = 64 << 20  # of one entry, unpacked
_chosen: Path | None = None


@dataclass(frozen=True)
class Cubin:
    """Machine code for one target, and the mangled name of each requested template instance."""

    data: bytes
    lowered: Mapping[str, str]
    ptx: str


def use(folder: Path) -> None:
    """From now on kernels are read from and kept in `folder`, which need not exist yet."""
    global _chosen  # noqa: PLW0603  # one cache per process, as there is one compiler
    _chosen = folder


def read(key: str) -> Cubin | None:
    """What was kept under a key; None where there is nothing, or something damaged, by its checksums."""
    kept = folder()
    if kept is None:
        return None
    try:
        with open_data(kept / f"{key}.zip", MOST_BYTES) as file, zipfile.ZipFile(file) as entry:
            if sum(part.file_size for part in entry.infolist()) > MOST_BYTES:
                return None
            names = json.loads(entry.read("names.json"))
            return Cubin(entry.read("code.cubin"), names, entry.read("code.ptx").decode())
    except Exception:  # noqa: BLE001  # a damaged entry surfaces under any type, and is compiled anew
        return None


def keep(key: str, cubin: Cubin) -> None:
    """Keeps it for later processes, which never see half an entry."""
    kept = folder()
    if kept is None:
        return
    # A full disk or a read-only home only costs the next process its compile time.
    with (
        contextlib.suppress(OutputError),
        replacing(kept / f"{key}.zip") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as entry,
    ):
        entry.writestr("names.json", json.dumps(dict(cubin.lowered)))
        entry.writestr("code.cubin", cubin.data)
        entry.writestr("code.ptx", cubin.ptx)


def folder() -> Path | None:
    """The folder in use: the one chosen, or the user's cache folder; None for a user without a home."""
    if _chosen is not None:
        return _chosen
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ".cache" / "wavesim" / "cubin" if home.is_absolute() else None
