"""Trace files: read, measured and written again."""

import io
import json
import random
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from harness import Target
from judging import require, require_finite
from mutations import with_bytes_changed, with_values_changed

from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace


def made(chance: random.Random, data: bytes) -> bytes:
    """The archive with other bytes, columns or header."""
    if chance.random() < 0.2:
        return with_bytes_changed(chance, data)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception:  # noqa: BLE001  # an input of the corpus that is none
        return with_bytes_changed(chance, data)
    if "header" in arrays and chance.random() < 0.6:
        arrays["header"] = _header(chance, arrays["header"])
    for name in chance.sample(sorted(arrays), k=min(len(arrays), chance.choice([0, 1, 1, 3]))):
        arrays[name] = _column(chance, arrays[name])
    if chance.random() < 0.1:
        arrays.pop(chance.choice(sorted(arrays)))
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return _with_size_claimed(chance, packed.getvalue()) if chance.random() < 0.05 else packed.getvalue()


def _header(chance: random.Random, raw: Any) -> Any:
    try:
        head = with_values_changed(chance, json.loads(raw.tobytes()))
    except ValueError:
        return raw
    return np.frombuffer(json.dumps(head).encode("utf-8", errors="surrogatepass"), dtype=np.uint8)


def _column(chance: random.Random, column: Any) -> Any:
    kinds = [np.int8, np.uint64, np.float64, np.int64, np.complex64, "U9", bool]
    changed = column.astype(np.int64) if column.dtype.kind in "iu" else np.zeros(3, dtype=np.int64)
    match chance.randrange(6):
        case 0:
            return changed[: chance.randrange(len(changed) + 1)]
        case 1:
            return changed.astype(chance.choice(kinds))
        case 2:
            return np.zeros(chance.choice([0, 1, len(changed), 3_000_000]), dtype=np.int8)
        case 3:
            return changed.reshape(1, -1)
        case 4:
            return np.roll(changed, 1)
    for _ in range(chance.choice([1, 5])):
        if changed.size:
            extremes = [-1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]
            changed[chance.randrange(changed.size)] = chance.choice(extremes)
    return changed


def _with_size_claimed(chance: random.Random, data: bytes) -> bytes:
    """A column whose header says that it has far more rows than follow."""
    rows = chance.choice([10**8, 10**9, 10**18])
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(packed, "w") as after:
        for name in before.namelist():
            member = before.read(name)
            after.writestr(name, member.replace(b"'shape': (", b"'shape': (" + str(rows).encode(), 1))
    return packed.getvalue()


def call(path: Path) -> bool:
    """The trace, its metrics and its line, and the same after saving. Returns whether it was accepted."""
    file = path.with_suffix(".npz")
    file.write_bytes(path.read_bytes())
    trace = Trace.load(file)
    require_finite([trace.makespan_ns, trace.time_ns])
    require(trace.makespan_ns >= 0, f"a makespan of {trace.makespan_ns}")
    require_finite(list(asdict(metrics_of(trace)).values()))
    require(repr(trace).isprintable(), "the trace's line has control characters")
    trace.save(file)
    require(len(Trace.load(file)) == len(trace), "what was saved has other rows")
    return True


TARGET = Target(made, call)
