"""Files of a device and of constants measured on it."""

import random
import tempfile
from pathlib import Path

from harness import Target
from mutations import with_bytes_changed, with_lines_changed

from wavesim.costs.constants import read_device_file
from wavesim.errors import WavesimError
from wavesim.model.device_files import device_entries

VALUES = (
    "[9, 0]",
    "[9, -1]",
    '["NVIDIA H200"]',
    "true",
    "132",
    "1.98e9",
    "700.0",
    '"a source"',
    '"h200"',
    '{ value = 3, unit = "ns" }',
    "{}",
    "4.8e12",
)


def made(chance: random.Random, data: bytes) -> bytes:
    """A file with lines and values changed."""
    if chance.random() < 0.15:
        return with_bytes_changed(chance, data)
    return with_lines_changed(chance, data, VALUES)


def call(path: Path) -> bool:
    """Read as a device, and as constants. Returns whether it is either."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.toml").write_bytes(path.read_bytes())
        try:
            device_entries.__wrapped__(Path(folder))
        except WavesimError:
            read_device_file(path)
    return True


TARGET = Target(made, call)
