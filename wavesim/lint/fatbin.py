"""The PTX and cubins in a fat binary: in a .fatbin file, a shared library or an executable.

Example: nvcc puts a cubin for sm_90a and PTX for newer GPUs into the section .nv_fatbin of a `.so`; both come
out. cuobjdump unpacks what is compressed, which is nvcc's default for PTX; without it a note says so.
"""

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wavesim.errors import DeviceError, RecordingError
from wavesim.lint.disassembler import program, run
from wavesim.lint.elf import MACHINE_CUDA, MAGIC, sections
from wavesim.safe_io.escaping import one_line

MAGIC_FATBIN = b"\x50\xed\x55\xba"
MOST_IMAGES = 1_000
SECTIONS = (".nv_fatbin", "__nv_relfatbin")

_PTX, _ELF = 1, 2
_COMPRESSED = 0x2000 | 0x8000  # LZ4, zstd


class Image(NamedTuple):
    """One piece of PTX or one cubin, or a compressed one, whose `data` is empty."""

    name: str
    is_ptx: bool
    data: bytes
    is_compressed: bool = False


def is_host_elf(data: bytes) -> bool:
    """An ELF file of a host machine: a library, an executable or an object file."""
    return data[:4] == MAGIC and data[18:20] != struct.pack("<H", MACHINE_CUDA)


def fat_binaries(data: bytes, where: str) -> bytes:
    """The sections of a host's ELF file that hold fat binaries. Raises `RecordingError`: damaged, or none."""
    try:
        binaries = [section for section in sections(data) if section.name in SECTIONS]
    except struct.error:
        raise RecordingError(f"{one_line(where)}: a damaged ELF file") from None
    if not binaries:
        raise RecordingError(f"{one_line(where)}: no GPU code in it: it has no section {SECTIONS[0]}")
    return b"".join(data[section.offset : section.offset + section.size] for section in binaries)


def images(data: bytes, where: str) -> Iterator[Image]:
    """The images of all fat binaries in the bytes, in their order."""
    at = count = 0
    while (at := data.find(MAGIC_FATBIN, at)) >= 0 and at + 16 <= len(data):
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + header, min(at + header + size, len(data))
        while entry + 64 <= end and count < MOST_IMAGES:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, entry)
            (arch,) = struct.unpack_from("<I", data, entry + 28)
            (flags,) = struct.unpack_from("<Q", data, entry + 40)
            if header < 64:
                break
            payload = data[entry + header : min(entry + header + size, end)]
            if kind in (_PTX, _ELF):
                name = f"{where} ({'PTX' if kind == _PTX else 'cubin'} {count + 1}, sm_{arch})"
                is_compressed = bool(flags & _COMPRESSED)
                yield Image(name, kind == _PTX, b"" if is_compressed else payload, is_compressed)
                count += 1
            entry += header + size
        at = max(entry, at + 16)


def unpacked(path: Path) -> list[Image]:
    """What cuobjdump takes out of a file. Raises `DeviceError`: not installed; `RecordingError`: it fails."""
    cuobjdump = program("cuobjdump")
    with tempfile.TemporaryDirectory() as folder:
        words = [cuobjdump, "-xelf", "all", "-xptx", "all", str(path.resolve())]
        run(words, str(path), folder)
        files = sorted(Path(folder).iterdir())[:MOST_IMAGES]
        return [
            Image(f"{path} ({file.name})", file.suffix == ".ptx", file.read_bytes())
            for file in files
            if file.suffix in (".ptx", ".cubin")
        ]


def images_of(path: Path, data: bytes) -> tuple[list[Image], list[str]]:
    """The images of a file and notes on those that can't be read."""
    where = one_line(str(path))
    fat = fat_binaries(data, where) if is_host_elf(data) else data
    images_there = list(images(fat, where))
    packed = [image for image in images_there if image.is_compressed]
    if not packed:
        return images_there, []
    try:
        return unpacked(path), []
    except (DeviceError, RecordingError) as error:
        notes = [f"{image.name} is compressed and was not read: {error}" for image in packed]
        return [image for image in images_there if not image.is_compressed], notes
