"""Packed traces as files of their own, by Python alone: the site's environment has no NumPy, its page no xz.

Example: `traces.npz.xz` of the H200 becomes 216 .npz, as `wavesim.trace.trace_archive` writes them.
"""

import ast
import io
import json
import lzma
import struct
import zipfile
from array import array
from itertools import accumulate
from pathlib import Path

STEPS = ("issue_ns", "start_ns", "end_ns")  # as in wavesim/trace/trace_archive.py
CODES = {"<i4": "i", "<i8": "q", "|u1": "B"}
MAGIC = b"\x93NUMPY\x01\x00"


def unpack(path: Path) -> None:
    """Writes an archive's traces beside it, and removes it."""
    with zipfile.ZipFile(io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
        table = {name.removesuffix(".npy"): _column(archive.read(name)) for name in archive.namelist()}
    names, headers = (json.loads(table.pop(key).tobytes()) for key in ("names", "header"))
    for name in STEPS:
        table[name] = array(table[name].typecode, accumulate(table[name]))
    begin = 0
    for (name, blocks, *clock), header in zip(names, headers, strict=True):
        own = {key: column[begin : begin + blocks] for key, column in table.items()}
        if clock:
            times = zip(own["cycles"], own["end_ns"], own["start_ns"], strict=True)
            own["cycles"] = array(
                "q", (more + ((end - start) * clock[0] >> 10) for more, end, start in times)
            )
        own["header"] = array("B", json.dumps(header).encode())
        with zipfile.ZipFile(path.with_name(name), "w", zipfile.ZIP_DEFLATED) as file:
            for key, column in own.items():
                file.writestr(f"{key}.npy", _npy(column))
        begin += blocks
    path.unlink()


def _column(data: bytes) -> array:
    (length,) = struct.unpack("<H", data[8:10])
    column = array(CODES[ast.literal_eval(data[10 : 10 + length].decode())["descr"]])
    column.frombytes(data[10 + length :])
    return column


def _npy(column: array) -> bytes:
    descr = next(descr for descr, code in CODES.items() if code == column.typecode)
    head = repr({"descr": descr, "fortran_order": False, "shape": (len(column),)})
    head += " " * (-(len(MAGIC) + 3 + len(head)) % 64) + "\n"
    return MAGIC + struct.pack("<H", len(head)) + head.encode() + column.tobytes()
