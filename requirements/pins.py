"""The files that `lock.py` writes, read: which versions and hashes each install is made of.

Example: `pins_of(path)["numpy"]` is its version, the marker that says where it is installed, "" for
everywhere, and the SHA-256 of each of its files.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What each file is for.
FILES = {
    "requirements/dev.txt": "make setup",
    "requirements/demo.txt": "make demo",
    "binder/requirements.txt": "Binder",
    "requirements/gpu.txt": "a GPU",
    "requirements/lock.txt": "make lock",
    "requirements/lite.txt": "make lite",
    "requirements/browser.txt": "a browser",
}
_ENTRY = re.compile(r"([a-z0-9][a-z0-9-]*)==([\w.+!-]+)(?: ; (.+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package at one version."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def pins_of(path: Path) -> dict[str, Pin]:
    """By normalised name. Raises `ValueError` for a line that is neither a version nor a hash."""
    found: dict[str, Pin] = {}
    for entry in path.read_text(encoding="utf-8").replace("\\\n", "").splitlines():
        head, *hashes = re.split(r"\s+(?=--hash)", entry.strip())
        match = _ENTRY.fullmatch(head)
        sums = [_HASH.fullmatch(text.strip()) for text in hashes]
        if match is None or not sums or None in sums:
            raise ValueError(f"{path}: {entry[:80]!r} is no pinned package with hashes; run make lock")
        found[match[1]] = Pin(match[1], match[2], match[3] or "", tuple(one[1] for one in sums if one))
    return found


def all_pins() -> dict[str, Pin]:
    """Of all files together; they agree on versions."""
    return {name: pin for file in FILES for name, pin in pins_of(ROOT / file).items()}
