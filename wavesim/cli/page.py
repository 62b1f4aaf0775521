"""The page without a kernel: a what-if, a race, waves and a form for the reader's own pair, as one file.

Example: `wavesim page -o try.html`; the file opens from a disk, from a static host or from a mail.
"""

import argparse
from pathlib import Path

from wavesim.cli.printing import print_result, progress
from wavesim.safe_io.writing import require_writable, write_text


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("-o", "--out", type=Path, default=Path("wavesim-page.html"), help="the file to write")
    parser.add_argument("--site", default="", help="address of the documentation that its links lead to")


def run(options: argparse.Namespace) -> int:
    """Simulates every size of its slider and writes the page."""
    from wavesim.teaching.puzzle_cards import puzzle_section
    from wavesim.widgets.open_page import kernelless_page

    require_writable(options.out)
    html = kernelless_page(progress("simulating"), puzzles=puzzle_section(), site=options.site)
    path = write_text(options.out, html)
    size = len(html.encode())
    text = f"{path}: {size / 1e6:.2f} MB, complete in one file; open it in a browser"
    return print_result(options, {"html": str(path), "bytes": size}, text)
