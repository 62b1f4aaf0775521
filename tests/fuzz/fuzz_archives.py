"""Archives of traces beside a folder's: packed columns, names and headers that do not fit each other."""

import io
import json
import lzma
import random
from pathlib import Path

import numpy as np
from harness import Target
from mutations import with_bytes_changed, with_values_changed

from wavesim.trace.trace_archive import ARCHIVE, load_trace, trace_paths


def made(chance: random.Random, data: bytes) -> bytes:
    """The archive with other bytes, names, headers or columns."""
    try:
        unpacked = lzma.decompress(data)
        with np.load(io.BytesIO(unpacked), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception:  # noqa: BLE001  # an input of the corpus that is none
        return with_bytes_changed(chance, data)
    if chance.random() < 0.2:
        return lzma.compress(with_bytes_changed(chance, unpacked), preset=0)
    name = chance.choice(sorted(arrays))
    if name in ("names", "header"):
        value = with_values_changed(chance, json.loads(arrays[name].astype(np.uint8).tobytes()))
        arrays[name] = np.frombuffer(json.dumps(value).encode(errors="replace"), dtype=np.uint8)
    else:
        arrays[name] = arrays[name][: chance.randrange(len(arrays[name]) + 1)]
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return lzma.compress(packed.getvalue(), preset=0)


def call(path: Path) -> bool:
    """Every trace of the archive. Returns whether it was accepted."""
    folder = path.with_suffix(".folder")
    folder.mkdir(exist_ok=True)
    (folder / ARCHIVE).write_bytes(path.read_bytes())
    for trace in trace_paths(folder):
        load_trace(trace)
    return True


TARGET = Target(made, call)
