"""Traces in files: `.npz`, a zip archive of arrays, each a header in Python's literals and the elements.

Example: `load(file)["end_ns"]` of a recorded trace. The header is read as a literal, never as code.
"""

import ast
import io
import zipfile
from typing import Any, BinaryIO, Self

from ._array import asarray, ndarray
from ._making import frombuffer
from ._types import dtype

MAGIC = b"\x93NUMPY"


class NpzFile:
    """An open archive; `files` are its names."""

    def __init__(self, file: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(file)
        self.files = [name.removesuffix(".npy") for name in self._archive.namelist()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def __getitem__(self, name: str) -> ndarray:
        return _array_in(self._archive.read(f"{name}.npy"))


def _array_in(data: bytes) -> ndarray:
    if data[:6] != MAGIC:
        raise ValueError("the magic string is not NumPy's")
    width = 2 if data[6] == 1 else 4
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    head: dict[str, Any] = ast.literal_eval(data[8 + width : start].decode("latin1"))
    if head["descr"].startswith(">") or head["fortran_order"]:
        raise ValueError("this page's part of NumPy reads little-endian arrays in C order")
    return frombuffer(data[start:], head["descr"]).reshape(head["shape"])


def load(file: BinaryIO, allow_pickle: bool = False) -> NpzFile:
    """The arrays of an `.npz`. Raises `ValueError` for pickles, which are code."""
    if allow_pickle:
        raise ValueError("this page's part of NumPy reads no pickles")
    return NpzFile(file)


def savez_compressed(file: BinaryIO, **arrays: Any) -> None:
    """Writes arrays by name."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in arrays.items():
            archive.writestr(f"{name}.npy", _as_bytes(asarray(value)))


def _as_bytes(values: ndarray) -> bytes:
    kind = dtype(values.dtype)
    descr = f"{'|' if kind.itemsize == 1 else '<'}{kind.kind}{kind.itemsize}"
    head = repr({"descr": descr, "fortran_order": False, "shape": values.shape})
    padding = " " * (-(len(head) + 11) % 64)
    text = f"{head}{padding}\n".encode("latin1")
    out = io.BytesIO()
    out.write(MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text + values.tobytes())
    return out.getvalue()
