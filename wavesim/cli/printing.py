"""What every command prints: its result as text or as one JSON object, and its progress."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any


def print_result(options: argparse.Namespace, document: Any, text: str) -> int:
    """Writes the document as JSON if `--json` asks for it, else the text. Returns status 0."""
    sys.stdout.write((json.dumps(document) if options.json else text) + "\n")
    return 0


def progress(verb: str) -> Callable[[int, int], None]:
    """Shows n of total on standard error, on one line where that is a terminal."""
    is_terminal = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        if is_terminal:
            sys.stderr.write(f"\r{verb}: {done} of {total}" + ("\n" if done == total else ""))
        elif done == total:
            sys.stderr.write(f"{verb}: {done} of {total}\n")

    return show
