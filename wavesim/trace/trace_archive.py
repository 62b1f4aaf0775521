"""The traces of a folder as one file: traces.tar.xz, a third of what they take apart, for most of it repeats.

Example: `tar xf traces.tar.xz` gives the .npz files back as `Trace.save` names them, uncompressed.
"""

import io
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from wavesim.errors import RecordingError
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import read_packed
from wavesim.safe_io.writing import replacing
from wavesim.trace.trace import Trace

ARCHIVE = "traces.tar.xz"
MAX_UNPACKED_BYTES = 1 << 28  # ten times the largest folder of recordings


def pack_traces(folder: Path) -> Path | None:
    """Moves all .npz of a folder into its archive, beside those there; None where there is none.

    A file of a name that is packed already takes its place. Raises `RecordingError` or `OutputError`.
    """
    loose = sorted(folder.glob("*.npz"))
    if not loose:
        return None
    path = folder / ARCHIVE
    packed = dict(_members(path)) if path.exists() else {}
    packed |= {member.name: _uncompressed(member) for member in loose}
    with replacing(path) as file, tarfile.open(fileobj=file, mode="w:xz", preset=9) as archive:
        for name, data in sorted(packed.items()):
            info = tarfile.TarInfo(name)  # without date and owner: the same traces are the same bytes
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    for member in loose:
        member.unlink()
    return path


def trace_paths(folder: Path) -> list[Path]:
    """Where the traces of a folder are, loose or packed: `load_trace` reads each. Raises `RecordingError`."""
    return sorted({*folder.glob("*.npz"), *(folder / name for name in _beside(folder / ARCHIVE))})


def has_trace(path: Path) -> bool:
    """Whether a trace is there, as a file or in the archive beside it. Raises `RecordingError`."""
    return path.exists() or path.name in _beside(path)


def load_trace(path: Path) -> Trace:
    """A trace from its file or else from the archive beside it. Raises `RecordingError`."""
    if path.exists() or not has_trace(path):
        return Trace.load(path)
    return Trace.load(path, io.BytesIO(_beside(path)[path.name]))


def _beside(path: Path) -> Mapping[str, bytes]:
    archive = path.with_name(ARCHIVE)
    if not archive.exists():
        return {}
    return _members_at(archive, archive.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _members_at(path: Path, changed_ns: int) -> Mapping[str, bytes]:
    del changed_ns  # a part of the key: an archive that was written anew is read anew
    return dict(_members(path))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    unpacked = read_packed(path, MAX_UNPACKED_BYTES)
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
            for info in archive:
                member = archive.extractfile(info)
                if member is not None:
                    yield info.name, member.read()
    except (tarfile.TarError, EOFError) as error:
        raise RecordingError(f"{path}: damaged: {one_line(str(error))}") from None


def _uncompressed(path: Path) -> bytes:
    """The file's columns as they are: what is compressed already does not shrink among its like."""
    data = io.BytesIO()
    with zipfile.ZipFile(path) as compressed, zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as plain:
        for name in compressed.namelist():
            plain.writestr(zipfile.ZipInfo(name), compressed.read(name))
    return data.getvalue()
