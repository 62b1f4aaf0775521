"""Writes the list of parts (SBOM, CycloneDX) and THIRD_PARTY.md from the pins and the packages' own metadata.

Example: `make lock` runs it in the environment of `make setup`, where the metadata of what is pinned is
installed. What is for another system is in `ELSEWHERE`, with the licence that its own metadata names.
"""

import importlib.metadata
import json
import re
import tomllib
from typing import Any

from pins import FILES, ROOT, all_pins, pins_of

SBOM = ROOT / "requirements" / "sbom.cdx.json"
PAGE = ROOT / "THIRD_PARTY.md"
# Pinned, and not installed by make setup on Linux.
ELSEWHERE = {
    "appnope": "BSD-2-Clause",
    "colorama": "BSD License",
    "cupy-cuda13x": "MIT",
    "doit": "MIT",
    "jupyterlite-core": "BSD-3-Clause",
    "jupyterlite-pyodide-kernel": "BSD-3-Clause",
    "micropip": "MPL-2.0",
    "nvidia-ml-py": "BSD",
    "pkginfo": "MIT License",
    "pywinpty": "MIT License",
    "uv": "MIT OR Apache-2.0",
}
COPYLEFT = re.compile(r"\b(?:A?GPL|LGPL|MPL|EPL|EUPL|CDDL|GNU|Mozilla)", re.IGNORECASE)
PROPRIETARY = re.compile(r"proprietary|NVIDIA", re.IGNORECASE)


def licence_of(name: str) -> str:
    """As the package's metadata has it: its expression, its short text, or its classifiers."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    data = importlib.metadata.metadata(name)
    # As a list: where importlib_metadata stands in, a field that is missing is an error.
    said = next(iter(data.get_all("License-Expression") or data.get_all("License") or []), "")
    classifiers = [
        line.split(" :: ")[-1]
        for line in data.get_all("Classifier") or []
        if line.startswith("License :: ") and line != "License :: OSI Approved"
    ]
    is_short = bool(said) and "\n" not in said and len(said) < 60 and said != "UNKNOWN"
    return said if is_short else ", ".join(classifiers) or said.strip().split("\n")[0][:60]


def kind_of(licence: str) -> str:
    """Whether redistribution comes with conditions on the source, or not at all."""
    if PROPRIETARY.search(licence):
        return "proprietary"
    return "copyleft" if COPYLEFT.search(licence) else "permissive"


def bill(version: str) -> dict[str, Any]:
    """The CycloneDX document. Hashes are those of every file of the version, whatever the system."""
    pins = all_pins()
    components = [
        {
            "type": "library",
            "bom-ref": f"{name}@{pins[name].version}",
            "name": name,
            "version": pins[name].version,
            "purl": f"pkg:pypi/{name}@{pins[name].version}",  # by which scanners know a package
            "hashes": [{"alg": "SHA-256", "content": sum_} for sum_ in pins[name].hashes],
            "licenses": [{"license": {"name": licence_of(name)}}],
        }
        for name in sorted(pins)
    ]
    own = {"type": "application", "name": "wavesim-cuda", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "licenses": [{"license": {"id": "MIT"}}]}},
        "components": components,
    }


def page() -> str:
    """The table of licences, and first what has conditions."""
    pins, uses = all_pins(), {use: pins_of(ROOT / file) for file, use in FILES.items()}
    found = {name: licence_of(name) for name in sorted(pins)}
    lines = [
        "# Third-party packages",
        "",
        "wavesim ships one part of these, plotly.js's basic bundle (MIT), `wavesim/view/plotly_basic.js.gz`;",
        "an install fetches the rest. Versions and hashes are in `requirements/`",
        "and `binder/requirements.txt`; `requirements/sbom.cdx.json` is the same list for tools (CycloneDX).",
        "`make lite` also takes Pyodide (MPL-2.0) from npm, at the hash in `lite/package-lock.json`.",
        "Written by `make lock` from the packages' own metadata; a test checks it against the pins.",
        "",
    ]
    for kind, title in (("copyleft", "Copyleft"), ("proprietary", "Proprietary")):
        named = [f"{name} ({licence})" for name, licence in found.items() if kind_of(licence) == kind]
        lines += [f"{title}: {', '.join(named) or 'none'}.", ""]
    lines += ["| Package | Version | Licence | For |", "| --- | --- | --- | --- |"]
    for name, licence in found.items():
        needed = ", ".join(use for use, own in uses.items() if name in own)
        lines.append(f"| {name} | {pins[name].version} | {licence} | {needed} |")
    return "\n".join(lines) + "\n"


def sbom() -> str:
    """The list's text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return json.dumps(bill(project["version"]), separators=(",", ":")) + "\n"


def main() -> None:
    """Writes both."""
    SBOM.write_text(sbom(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
