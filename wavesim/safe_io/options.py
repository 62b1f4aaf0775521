"""Options of a command line: plain numbers, each option once, and one line for what is wrong.

Example: `--tokens ²` or `--tokens 1_0` is no integer, and of `--sync row --sync tile` the first would be lost
without a word; all three are refused by name. So is
`--toml in.json` where `in.json` is what is read: the profile would be gone.
"""

import argparse
import itertools
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import MOST_COUNT, real, whole
from wavesim.safe_io.escaping import one_line

BAD_INPUT = 2
LONGEST_LINE = 500  # of an error: an option may be as long as the system lets it


class OneLineParser(argparse.ArgumentParser):
    """Bad arguments are one line and status 2, like every other bad input; an option is given once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("action", None, _Once)

    def parse_args(self, *words: Any, **options: Any) -> Any:
        """As argparse's; refuses one file for two options, as what is written would replace the other."""
        parsed = super().parse_args(*words, **options)
        # A word that names a file, such as a device's, is read.
        files = [
            (name, Path(value))
            for name, value in vars(parsed).items()
            if isinstance(value, Path) or (isinstance(value, str) and os.path.isfile(value))  # noqa: PTH113
        ]
        for (first, path), (second, again) in itertools.combinations(files, 2):
            if _is_same_file(path, again):
                self.error(f"{again} is given as {first} and as {second}; give each a file of its own")
        return parsed

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {one_line(message, LONGEST_LINE)}; see {self.prog} --help\n")


def _is_same_file(first: Path, second: Path) -> bool:
    """Whether two paths lead to one file, which need not be there yet. Devices take any number of outputs."""
    try:
        status = first.stat(), second.stat()
    except (OSError, ValueError):  # not there; a NUL in a path
        return os.path.realpath(first) == os.path.realpath(second)
    return os.path.samestat(*status) and not stat.S_ISCHR(status[0].st_mode)


class _Once(argparse.Action):
    """Stores an option's value. Of several the last would win, and the others be lost without a word."""

    is_given = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        if self.is_given:
            raise argparse.ArgumentError(self, "is given twice; give it once")
        self.is_given = True
        setattr(namespace, self.dest, values)


def integer(text: str) -> int:
    """What an option's text says, for `argparse`; how large it may be is the command's to say."""
    try:
        return whole("it", text, -MOST_COUNT, MOST_COUNT)
    except DescriptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def number(text: str) -> float:
    """What an option's text says, for `argparse`: a finite number of at least 0."""
    try:
        return real("it", text)
    except DescriptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
