"""What every command prints: its result as text or as one JSON object, its progress, and what is wrong.

No text from outside moves the cursor, colours or turns round what stands on the terminal: a kernel's name
with an escape sequence is shown with question marks.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from wavesim.safe_io.escaping import lines, one_line

LONGEST_COMPLAINT = 4_000


def print_result(options: argparse.Namespace, document: Any, text: str) -> int:
    """Writes the document as JSON if `--json` asks for it, else the text. Returns status 0."""
    sys.stdout.write((json.dumps(document) if options.json else lines(text)) + "\n")
    return 0


def complain(text: str) -> None:
    """Writes one line to standard error."""
    sys.stderr.write(f"wavesim: {one_line(text, LONGEST_COMPLAINT)}\n")


def progress(verb: str, after_s: float = 0.0) -> Callable[[int, int], None]:
    """Shows n of total on standard error, on one line where that is a terminal; nothing of what is over
    within `after_s`.
    """
    is_terminal, began = sys.stderr.isatty(), time.monotonic()

    def show(done: int, total: int) -> None:
        if time.monotonic() - began < after_s:
            return
        if is_terminal:
            sys.stderr.write(f"\r{verb}: {done} of {total}" + ("\n" if done == total else ""))
        elif done == total:
            sys.stderr.write(f"{verb}: {done} of {total}\n")

    return show


BAD_INPUT = 2
INTERRUPTED = 130
