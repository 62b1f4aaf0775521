"""Pyodide's lock file: which wheel serves which import, with its hash and what it needs.

Example: `{"name": "simpy", "imports": ["simpy"], "depends": [], "file_name": "simpy-4.1.2-...whl", ...}`. The
kernel reads the imports of a cell and loads the wheels that the lock names before it runs the cell.
"""

import hashlib
import json
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BROWSER = {
    "extra": "",
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_system": "Emscripten",
    "sys_platform": "emscripten",
}


def entry_of(wheel: Path, python: str) -> dict[str, Any]:
    """What the lock file says of a wheel, under this Python version of the browser's."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        where = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(where).decode())
    tops = {name.split("/")[0] for name in names if name.endswith(".py")}
    return {
        "name": canonicalize_name(metadata["Name"]),
        "version": metadata["Version"],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(
            top.removesuffix(".py") for top in tops if not top.endswith((".dist-info", ".data"))
        ),
        "depends": _needs(metadata.get_all("Requires-Dist") or [], python),
        "unvendored_tests": False,
    }


def _needs(lines: list[str], python: str) -> list[str]:
    """Names of what a wheel needs in a browser, without its extras."""
    here = {**BROWSER, "python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    needs = map(Requirement, lines)
    return sorted(
        {canonicalize_name(one.name) for one in needs if not one.marker or one.marker.evaluate(here)}
    )


def add_wheels(lock_file: Path, wheels: list[Path]) -> dict[str, Any]:
    """Writes the lock anew with what lies beside it: its own packages that are there, and these wheels.

    Needs that nothing in the folder meets are left out. Returns the packages by name.
    """
    lock = json.loads(lock_file.read_text(encoding="utf-8"))
    folder = lock_file.parent
    known = {name: one for name, one in lock["packages"].items() if (folder / one["file_name"]).is_file()}
    known |= {entry["name"]: entry for entry in (entry_of(wheel, lock["info"]["python"]) for wheel in wheels)}
    for package in known.values():
        package["depends"] = [name for name in package["depends"] if name in known]
    lock["packages"] = known
    lock_file.write_text(json.dumps(lock, indent=1), encoding="utf-8")
    return known
