"""The parts of a cubin's ELF that lint needs: sections, names, and the attributes of kernels.

Example: `Elf(data, "gemm.cubin").parameters("gemm")` is [(0, 8), (8, 8), (16, 4)], offset and bytes of three
parameters, and `.parameter_base("gemm")` is 0x210 on sm_90.

Source: System V ABI, ELF-64; the attributes' numbers are those that nvdisasm prints of .nv.info.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from wavesim.errors import RecordingError
from wavesim.safe_io.escaping import one_line

MAGIC = b"\x7fELF"
MACHINE_CUDA = 190
MOST_SECTIONS = 100_000
MOST_NAME = 4_000  # bytes of a name

_STRING_TABLE = 3
_MAX_THREADS = 0x05  # EIATTR_MAX_THREADS: x, y, z
_PARAMETER_BANK = 0x0A  # EIATTR_PARAM_CBANK: symbol, offset, bytes
_REQUIRED_THREADS = 0x10  # EIATTR_REQNTID: x, y, z
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO: index, ordinal, offset, bytes


class ElfSection(NamedTuple):
    """A section header: where its bytes are, and what it links to."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


class Elf:
    """A cubin. Raises `RecordingError`: no ELF of CUDA, or damaged."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = one_line(where)
        try:
            self._read()
        except struct.error:
            raise RecordingError(
                f"{self.where}: a damaged cubin: it ends in the middle of its tables"
            ) from None

    def _read(self) -> None:
        data = self.data
        if data[:4] != MAGIC or data[4:6] != b"\x02\x01":
            raise RecordingError(f"{self.where}: no 64-bit ELF file")
        self.kind, machine = struct.unpack_from("<HH", data, 16)
        if machine != MACHINE_CUDA:
            raise RecordingError(
                f"{self.where}: an ELF file of machine {machine}, not of CUDA ({MACHINE_CUDA})"
            )
        self.flags = struct.unpack_from("<I", data, 48)[0]
        self.sections = list(sections(data))

    def bytes_of(self, section: ElfSection) -> bytes:
        """A section's bytes, as many as the file has."""
        return self.data[section.offset : section.offset + section.size]

    def section(self, name: str) -> ElfSection | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    @property
    def kernels(self) -> list[str]:
        """Names of all functions with code of their own section."""
        return [section.name[6:] for section in self.sections if section.name.startswith(".text.")]

    def attributes(self, kernel: str) -> Iterator[tuple[int, bytes]]:
        """Number and value of each attribute of a kernel."""
        section = self.section(f".nv.info.{kernel}")
        data = self.bytes_of(section) if section else b""
        at = 0
        while at + 4 <= len(data):
            form, number, size = struct.unpack_from("<BBH", data, at)
            # Other forms hold their value where this one has its size.
            length = size if form == 4 else 0
            yield number, data[at + 4 : at + 4 + length]
            at += 4 + length

    def parameters(self, kernel: str) -> list[tuple[int, int]]:
        """Offset and bytes of each parameter, in their order."""
        parameters = {}
        for number, value in self.attributes(kernel):
            if number == _PARAMETER and len(value) >= 12:
                _, ordinal, offset, sizes = struct.unpack_from("<IHHI", value)
                parameters[ordinal] = (
                    offset,
                    sizes >> 18,
                )  # the lower bits are logarithm of alignment, space, bank
        return [parameters[ordinal] for ordinal in sorted(parameters)]

    def parameter_base(self, kernel: str) -> int | None:
        """Where parameters begin in constant bank 0, if the file says so."""
        for number, value in self.attributes(kernel):
            if number == _PARAMETER_BANK and len(value) >= 8:
                return int(struct.unpack_from("<H", value, 4)[0])
        return None

    def threads(self, kernel: str) -> int:
        """Threads of a block as required, or at most; 0 where nothing is said."""
        for number, value in self.attributes(kernel):
            if number in (_MAX_THREADS, _REQUIRED_THREADS) and len(value) >= 12:
                x, y, z = struct.unpack_from("<III", value)
                return int(x * y * z)
        return 0

    def variables(self) -> dict[int, str]:
        """Offsets of constant bank 4 to the names of variables whose addresses are there."""
        names: dict[int, str] = {}
        for section in self.sections:
            if section.kind in (4, 9) and section.name.endswith(".nv.constant4"):
                size = 24 if section.kind == 4 else 16
                symbols = self.sections[section.link] if section.link < len(self.sections) else None
                for at in range(0, min(section.size, 1_000_000) - size + 1, size):
                    place, info = _unpacked("<QQ", self.data, section.offset + at)
                    if symbols is not None:
                        names[place] = self._symbol(symbols, info >> 32)
        return names

    def _symbol(self, symbols: ElfSection, number: int) -> str:
        (name,) = _unpacked("<I", self.data, symbols.offset + 24 * number)
        names = self.sections[symbols.link] if symbols.link < len(self.sections) else None
        return _text(self.data, names.offset + name) if names else ""

    def with_plain_names(self) -> bytes:
        """The file with "?" for each control character in its names, so that a name stays on its line."""
        changed = bytearray(self.data)
        for section in self.sections:
            if section.kind == _STRING_TABLE:
                span = slice(section.offset, section.offset + section.size)
                changed[span] = changed[span].translate(_PLAIN)
        return bytes(changed)


def _unpacked(form: str, data: bytes, at: int) -> tuple[int, ...]:
    size = struct.calcsize(form)
    return struct.unpack(form, data[at : at + size].ljust(size, b"\0"))


_PLAIN = bytes(byte if byte == 0 or 32 <= byte != 127 else ord("?") for byte in range(256))


def sections(data: bytes) -> Iterator[ElfSection]:
    """The sections of any 64-bit ELF file. Raises `struct.error` where it is cut off."""
    (table,) = struct.unpack_from("<Q", data, 40)
    if table > len(data):
        raise struct.error("the table of sections lies behind the end")
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if table and size >= 64 and not count:  # more than fit into 16 bits: the first header says how many
        (count,) = struct.unpack_from("<Q", data, table + 32)
    if count == 0 or size < 64:
        return
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", data, table + number * size)
        for number in range(min(count, MOST_SECTIONS))
    ]
    if names == 0xFFFF:
        names = headers[0][6]
    start = headers[names][4] if names < len(headers) else 0
    for name, kind, _, _, offset, length, link, info, _, _ in headers:
        yield ElfSection(_text(data, start + name) if start else "", kind, offset, length, link, info)


def _text(data: bytes, start: int) -> str:
    end = data.find(b"\0", start, start + MOST_NAME)
    raw = data[start : end if end >= 0 else start + MOST_NAME]
    return one_line(raw.translate(_PLAIN).decode(errors="replace"), MOST_NAME)


def attribute_lines(elf: Elf) -> Iterator[str]:
    """What `listing_of_sass` wants to know besides the code, one line a kernel."""
    variables = ",".join(
        f"{place}={name}" for place, name in elf.variables().items() if name and not set(name) & set(", =")
    )
    for kernel in elf.kernels:
        base = elf.parameter_base(kernel)
        if base is not None:
            parameters = ",".join(f"{offset}:{size}" for offset, size in elf.parameters(kernel))
            head = f"//# base {base} threads {elf.threads(kernel)}"
            yield f"{head} parameters {parameters} variables {variables} of {kernel}"
