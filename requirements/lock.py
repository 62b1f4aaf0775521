"""Writes what every install of this project is made of: each package's version, and the hashes of its files.

Example: `make lock` after a change of pyproject.toml. Versions that are written down stay; `make lock
UPGRADE=--upgrade` takes the newest that fit. The resolver answers for Linux, macOS and Windows and for every
Python that the project supports, and lists the files of all of them.
"""

import argparse
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FIRST_PYTHON = "3.11.5"  # that the packages of the pinned JupyterLab run on
DEV = ROOT / "requirements" / "dev.txt"
BROWSER = ROOT / "requirements" / "browser.txt"
# Pyodide's Python, which runs wheels without machine code; the platform's year does not matter to these.
IN_A_BROWSER = (
    "--python-version",
    "3.14",
    "--python-platform",
    "wasm32-pyodide2024",
    "--only-binary",
    ":all:",
)
# What the demo imports.
DEMO = ("numpy", "simpy", "plotly", "ijson")


def main() -> None:
    """Writes all files; those after the first take its versions."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--uv", default="uv", help="the resolver's command")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    options = parser.parse_args()
    extras, build = PROJECT["project"]["optional-dependencies"], PROJECT["build-system"]["requires"]
    base = PROJECT["project"]["dependencies"]
    lab = [*base, *extras["lab"]]
    demo = [line for line in lab if line.split(">")[0] in DEMO]
    dev = [need for line in extras["dev"] for need in own_needs(line, extras)]
    groups = PROJECT["dependency-groups"]
    wanted = {
        DEV: [*base, *dev],
        ROOT / "requirements" / "gpu.txt": [*extras["gpu"], *extras["nvrtc"]],  # kernels are compiled there
        ROOT / "requirements" / "demo.txt": [*demo, *build],
        ROOT / "requirements" / "lock.txt": ["uv"],
        ROOT / "requirements" / "lite.txt": groups["lite"],
        BROWSER: groups["browser"],
        ROOT / "binder" / "requirements.txt": [*lab, *build],
    }
    for path, needs in wanted.items():
        resolve(options.uv, path, needs, is_upgraded=options.upgrade)


def own_needs(line: str, extras: dict[str, list[str]]) -> list[str]:
    """What a line of an extra stands for: `wavesim-cuda[nvrtc,docs]` for the lines of these two."""
    own = f"{PROJECT['project']['name']}["
    if not line.startswith(own):
        return [line]
    return [need for name in line[len(own) : -1].split(",") for need in extras[name]]


def resolve(uv: str, path: Path, needs: list[str], *, is_upgraded: bool) -> None:
    """One file: everything that the needs need. Raises `CalledProcessError` if nothing fits."""
    where = IN_A_BROWSER if path == BROWSER else ("--universal", "--python-version", FIRST_PYTHON)
    command = [uv, "pip", "compile", "-", *where]
    command += [] if path == DEV else ["--constraint", str(DEV)]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "--quiet", "--output-file", str(path)]
    command += ["--upgrade"] if is_upgraded else []
    subprocess.run(command, input="\n".join(needs), text=True, check=True, cwd=ROOT)  # noqa: S603  # our own words


if __name__ == "__main__":
    main()
