"""A JupyterLite site with wavesim in it, for any static web server and with no network: `make lite`.

Example: `python lite/build.py --out build/lite` writes build/lite/site, whose notebooks run in the browser.
Everything comes from the repository and from files whose hashes are written down: JupyterLite from the
environment that runs this, Pyodide from npm, wheels from PyPI. Pyodide's lock file names every wheel by
import name, so that a cell's `from wavesim import ...` is all that a notebook needs.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

from browser_lock import add_wheels
from slim_wheel import slim_copy
from unpack_traces import unpack

LITE = Path(__file__).parent
ROOT = LITE.parent
BROWSER_PINS = ROOT / "requirements" / "browser.txt"
# Scores of the project itself and their recordings: no notebook of the site reads them.
LEFT_OUT = ("bench", "recordings/blind", "recordings/foreign", "recordings/sketch")
# Kernels that a notebook shows and compares; beside the package as in a checkout.
EXAMPLES = ("plain_triton.py", "synchronised_triton.py")
# What notebooks need of what they do not import by name.
NEEDS = ["anywidget", "ipywidgets", "numpy", "plotly", "simpy"]
# Loaded while the page opens, for the kernel; micropip and jedi are asked for by its start.
KERNEL = ["comm", "ipykernel", "ipython", "jedi", "micropip", "piplite", "pyodide-kernel"]
# Scripts of the page, which JupyterLite has as extensions; their wheels are of no use to a kernel.
FOR_THE_PAGE = ("jupyterlab-widgets", "widgetsnbextension")
FIRST = "lab/index.html?path=01_start_here.ipynb"


def main() -> None:
    """Builds the site and says what to open next."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "lite", help="folder for site and parts")
    parser.add_argument(
        "--pyodide", type=Path, help="an unpacked Pyodide distribution, whose NumPy is used then"
    )
    options = parser.parse_args()
    out = options.out.resolve()
    base = out / "base"
    shutil.rmtree(base, ignore_errors=True)
    pyodide = base / "static" / "pyodide"
    shutil.copytree(options.pyodide or npm_pyodide(out), pyodide)
    wheels = [*download_wheels(out / "wheels"), *kernel_wheels(out / "wheels"), own_wheel("wavesim", out)]
    write_lock(pyodide, wheels, out)
    copy_notebooks(base / "notebooks")
    shutil.copy(LITE / "jupyter-lite.json", base)
    site = out / "site"
    run(
        [
            sys.executable,
            "-m",
            "jupyterlite_core",
            "build",
            "--lite-dir",
            base,
            "--contents",
            base / "notebooks",
            "--output-dir",
            site,
            "--no-sourcemaps",
            "--no-unused-shared-packages",
        ],
        base,
    )
    page = site / "lab" / "index.html"
    page.write_text(with_check(page.read_text(encoding="utf-8")), encoding="utf-8")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    sys.stdout.write(
        f"{site}: {size:.0f} MB. To look at it:\n"
        f"  {sys.executable} -m http.server --directory {site} --bind 127.0.0.1 8000\n"
        f"and open http://127.0.0.1:8000/{FIRST}\n"
    )


def with_check(page: str) -> str:
    """The page with the script that says in a sentence what the browser does not allow."""
    if "<head>" not in page:
        sys.exit("JupyterLite's page has no <head>; lite/build.py was written for another version")
    check = (LITE / "browser_check.js").read_text(encoding="utf-8")
    return page.replace("<head>", f"<head><script>{check}</script>", 1)


def run(command: list[object], folder: Path = ROOT) -> None:
    """Runs a command whose output is shown if it fails. Ends this program then."""
    done = subprocess.run(  # noqa: S603  # our own words
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def npm_pyodide(out: Path) -> Path:
    """Pyodide's core as npm has it, checked against the hash in package-lock.json."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(
            "make lite needs npm (Node.js), which brings Pyodide; or give --pyodide an unpacked distribution"
        )
    folder = out / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LITE / name, folder)
    run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return folder / "node_modules" / "pyodide"


def download_wheels(folder: Path) -> list[Path]:
    """The wheels of requirements/browser.txt, hashes checked, but for those that are the page's."""
    shutil.rmtree(folder, ignore_errors=True)
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--python-version",
            "3.14",
            "--platform",
            "any",
            "--dest",
            folder,
            "--requirement",
            BROWSER_PINS,
        ]
    )
    return [path for path in sorted(folder.glob("*.whl")) if not is_for_the_page(path)]


def is_for_the_page(wheel: Path) -> bool:
    """Whether a wheel holds scripts that JupyterLite has already."""
    return wheel.name.split("-")[0].replace("_", "-").lower() in FOR_THE_PAGE


def kernel_wheels(folder: Path) -> list[Path]:
    """The kernel's own wheels, out of its extension."""
    extension = Path(
        sys.prefix, "share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension/static/pypi"
    )
    found = [path for path in sorted(extension.glob("*.whl")) if not is_for_the_page(path)]
    return [Path(shutil.copy(path, folder)) for path in found]


def own_wheel(name: str, out: Path) -> Path:
    """A wheel of the package without GPU part, or of the part of NumPy, built with nothing fetched."""
    stage = out / "stage" / name
    shutil.rmtree(stage, ignore_errors=True)
    if name == "wavesim":
        hidden = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, stage / name, ignore=hidden)
        for part in LEFT_OUT:
            shutil.rmtree(stage / name / part)
        for archive in (stage / name / "recordings").rglob("traces.npz.xz"):
            unpack(archive)
        examples = stage / "gpu" / "examples"
        examples.mkdir(parents=True)
        for example in EXAMPLES:
            shutil.copy(ROOT / "gpu" / "examples" / example, examples)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        version, needs = project["version"], NEEDS
    else:
        shutil.copytree(
            LITE / "numpy_subset" / name, stage / name, ignore=shutil.ignore_patterns("__pycache__")
        )
        version, needs = "0+wavesim.lite", []
    (stage / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = {json.dumps(needs)}\n'
        f'[tool.setuptools.packages.find]\ninclude = ["{name}*", "gpu*"]\nnamespaces = true\n'
        f'[tool.setuptools.package-data]\n"*" = ["*"]\n',
        encoding="utf-8",
    )
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "--wheel-dir",
            out / "wheels",
            stage,
        ]
    )
    return next((out / "wheels").glob(f"{name}-*.whl"))


def write_lock(pyodide: Path, wheels: list[Path], out: Path) -> None:
    """Pyodide's lock file: what the distribution holds, and our wheels beside it.

    The part of NumPy is among these only where the distribution holds no NumPy.
    """
    if not list(pyodide.glob("numpy-*.whl")):
        wheels = [*wheels, own_wheel("numpy", out)]
    known = add_wheels(pyodide / "pyodide-lock.json", [slim_copy(wheel, pyodide) for wheel in wheels])
    missing = sorted(set(KERNEL + NEEDS) - set(known))
    if missing:
        sys.exit(f"the site lacks {', '.join(missing)}; run make lock")


# A link of a notebook to another one.
LINK = re.compile(r"\[(?P<words>[^\[\]\"\n]+)\]\((?P<name>\d\d_\w+\.ipynb)\)")


def copy_notebooks(folder: Path) -> None:
    """The notebooks that lite/notebooks.txt names; a link to one that is not there becomes a sentence."""
    folder.mkdir(parents=True)
    names = (LITE / "notebooks.txt").read_text(encoding="utf-8").split()
    for name in names:
        text = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
        (folder / name).write_text(with_known_links(text, names), encoding="utf-8")


def with_known_links(text: str, names: Collection[str]) -> str:
    """A notebook's text whose links lead to these notebooks only."""

    def told(link: re.Match[str]) -> str:
        number = int(link["name"][:2])
        return (
            link[0]
            if link["name"] in names
            else f"{link['words']} (notebook {number}, with wavesim installed)"
        )

    return LINK.sub(told, text)


if __name__ == "__main__":
    main()
