"""`wavesim lab`: the notebooks in JupyterLab, from a checkout or as they came with the package.

Example: `wavesim lab waves` copies the notebooks into the folder `waves`, where what is changed is kept, and
opens the first of them there.
"""

import argparse
import site
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from wavesim.cli.printing import complain
from wavesim.errors import DescriptionError
from wavesim.safe_io.writing import write_text

FIRST = "01_start_here.ipynb"
DISTRIBUTION = "wavesim-cuda"
FOLDERS = ("notebooks", "solutions")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("wavesim-notebooks"),
        help="where the notebooks are copied to, if they are not there yet (wavesim-notebooks)",
    )
    parser.add_argument("--no-open", action="store_true", help="copy the notebooks, and start nothing")


def run(options: argparse.Namespace) -> int:
    """Copies the notebooks where they are missing, and runs JupyterLab. Raises `DescriptionError`."""
    copied = copy_notebooks(options.folder)
    complain(f"{copied} files copied to {options.folder}; those that were there are as they were")
    if options.no_open:
        return 0
    if find_spec("jupyterlab") is None:
        raise DescriptionError(
            f"JupyterLab is not installed here: pip install '{DISTRIBUTION}[lab]', or open {options.folder} "
            "with your own"
        )
    first = options.folder / FOLDERS[0] / FIRST
    import_module("jupyterlab.labapp").main([str(first)])
    return 0


def copy_notebooks(folder: Path) -> int:
    """Copies what is missing in `folder`; what is there is the reader's. Returns how many files it copied.

    Raises `DescriptionError` for an install without notebooks, `OutputError` for a folder that can't
    be written.
    """
    copied = 0
    for source in _sources():
        target = folder / source.parent.name / source.name
        if not target.exists():
            write_text(target, source.read_text(encoding="utf-8"))
            copied += 1
    return copied


def _sources() -> list[Path]:
    """The files in the checkout, else in the shared data of the environment, of the user, or of a folder."""
    beside = Path(__file__).parents[2]
    roots = [
        beside,
        *(root / "share" / "wavesim" for root in (beside, Path(sys.prefix), Path(site.getuserbase()))),
    ]
    for root in roots:
        if (root / FOLDERS[0] / FIRST).exists():
            return [path for name in FOLDERS for path in sorted((root / name).iterdir()) if path.is_file()]
    raise DescriptionError(
        f"this install of wavesim has no notebooks; pip install '{DISTRIBUTION}[lab]', or take a checkout"
    )
