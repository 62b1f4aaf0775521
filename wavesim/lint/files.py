"""The kernels in a file, whatever it is: PTX, a cubin, a fat binary, a library, a folder, CUDA C++.

Example: `listings_of(Path("libkernels.so"))` gives a Listing for each PTX and each cubin that nvcc put there.
`compiled(Path("pair.cu"), "sm_90a")` asks a compiler that is found by name, so that nothing here imports it.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from typing import Protocol

from wavesim.errors import DeviceError, RecordingError
from wavesim.lint.disassembler import disassembly
from wavesim.lint.elf import MAGIC
from wavesim.lint.fatbin import MAGIC_FATBIN, Image, images_of, is_host_elf
from wavesim.lint.instruction import Listing
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.sass import listing_of_sass
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.reading import keep_folder, read_bytes

MOST_BYTES = 256 << 20  # of a file
MOST_TEXT_BYTES = 200 << 20  # of a file of text; PTX and disassemblies have narrower bounds of their own
MOST_FILES = 2_000  # of a folder
MOST_SECONDS = 45  # after which no further image or file is begun
SUFFIXES = (".ptx", ".cubin", ".fatbin", ".so")

_IS_DISASSEMBLY = re.compile(r"^\s*\.target\s+sm_\w+", re.MULTILINE)


def listings_of(path: Path, kernels: re.Pattern[str] | None = None) -> list[Listing]:
    """The listings of a file, or of all files of a folder that hold PTX or machine code.

    With `kernels`, only those whose name it matches somewhere. Raises `RecordingError`: missing, damaged, or
    not of these; `DeviceError`: machine code, and no disassembler.
    """
    deadline = time.monotonic() + MOST_SECONDS
    listings = _of_folder(path, deadline) if path.is_dir() else _of_file(path, deadline)
    if kernels is None:
        return listings
    return [
        replace(listing, kernels=tuple(kernel for kernel in listing.kernels if kernels.search(kernel.name)))
        for listing in listings
    ]


def _of_folder(folder: Path, deadline: float) -> list[Listing]:
    """Triton's cache, for one, has a folder for each kernel; other kinds of files are passed over."""
    told = (file for file in folder.rglob("*") if file.suffix in SUFFIXES or ".so." in file.name)
    files = sorted(islice(told, MOST_FILES + 1))
    where = one_line(str(folder))
    if not files:
        raise RecordingError(f"{where}: no file that ends in {', '.join(SUFFIXES)}")
    if len(files) > MOST_FILES:
        raise RecordingError(f"{where}: more than {MOST_FILES:,} files; give a folder of fewer")
    listings: list[Listing] = []
    for place, file in enumerate(files):
        if time.monotonic() > deadline:
            return [
                *listings,
                _unread(where, f"{len(files) - place} files were not read: it took {MOST_SECONDS} s"),
            ]
        try:
            listings += _of_file(file, deadline)
        except RecordingError as error:
            listings.append(_unread(one_line(str(file)), str(error)))
    return listings


def _of_file(path: Path, deadline: float) -> list[Listing]:
    data = read_bytes(path, MOST_BYTES)
    where = one_line(str(path))
    if data[:4] == MAGIC_FATBIN or is_host_elf(data):
        return _of_images(*images_of(path, data), where, deadline)
    if data[:4] == MAGIC:
        return [listing_of_sass(disassembly(data, where), where)]
    if data[:8] == b"!<arch>\n":
        raise RecordingError(f"{where}: a static library; give a program or a library that is linked with it")
    if len(data) > MOST_TEXT_BYTES or b"\0" in data:
        raise RecordingError(f"{where}: neither PTX nor a cubin, a fat binary or a library with GPU code")
    text = data.decode(errors="replace")
    del data
    return [
        listing_of_sass(text, where)
        if _IS_DISASSEMBLY.search(text) and "/*0000*/" in text
        else listing_of_ptx(text, where)
    ]


def _of_images(images: list[Image], notes: list[str], where: str, deadline: float) -> list[Listing]:
    listings: list[Listing] = []
    for place, image in enumerate(images):
        if time.monotonic() > deadline:
            notes.append(f"{len(images) - place} images were not read: it took {MOST_SECONDS} s")
            break
        try:
            if image.is_ptx:
                listings.append(listing_of_ptx(image.data.rstrip(b"\0").decode(errors="replace"), image.name))
            else:
                listings.append(listing_of_sass(disassembly(image.data, image.name), image.name))
        except RecordingError as error:
            notes.append(str(error))
    if not listings and not notes:
        raise RecordingError(f"{where}: a fat binary without PTX and without cubins")
    return [*listings, _unread(where, *notes)] if notes else listings


def _unread(where: str, *notes: str) -> Listing:
    return Listing(where, "sass", "", (), notes)


COMPILER_GROUP = "wavesim.compilers"
COMPILE_SECONDS = 10  # and memory in proportion
SUFFIX = ".cu"
HEADERS = frozenset({".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".cc", ".cpp"})


class SourceCompiler(Protocol):
    """What compiles a file for an architecture: an entry point of the group `wavesim.compilers`."""

    def __call__(
        self,
        path: Path,
        arch: str,
        instances: Sequence[str],
        folders: Sequence[Path],
        seconds: float,
        defines: Sequence[str] = (),
    ) -> tuple[str, bytes]:
        """PTX and cubin, with source lines; `instances` are template instances wanted besides, by name."""


def compiled(
    path: Path,
    arch: str,
    instances: Sequence[str] = (),
    folders: Sequence[Path] = (),
    seconds: float = COMPILE_SECONDS,
    defines: Sequence[str] = (),
) -> tuple[str, bytes]:
    """PTX and cubin of a file of CUDA C++, with source lines; `folders` are searched for its includes, and
    compiling may take so many seconds; `defines` are macros, such as "TILE=64".

    Raises `DeviceError` where no compiler is installed, `CompileError` with its log, `DescriptionError`.
    """
    keep_folder(path.parent, HEADERS)
    for folder in folders:
        keep_folder(folder)
    for entry in entry_points(group=COMPILER_GROUP):
        compiler: SourceCompiler = entry.load()
        return compiler(path, arch, instances, folders, seconds, *([defines] if defines else []))
    raise DeviceError(
        f"{path.name} is CUDA C++, and no compiler is installed (entry point group {COMPILER_GROUP!r}); in a "
        "checkout run make setup, or compile it with nvcc -cubin -lineinfo and give the cubin"
    )
