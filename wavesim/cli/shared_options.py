"""Options that several commands take, each declared once.

Example: `add_shared(parser, "--file", "--html")` adds both; `html="write the scores"` changes a help text.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wavesim.cli.printing import complain
from wavesim.safe_io.options import integer
from wavesim.safety.verdict import BASES

# Options that several commands take: what argparse needs of each.
SHARED: dict[str, dict[str, Any]] = {
    "--file": {
        "type": Path,
        "metavar": "FILE.toml",
        "help": "kernels of your own, see docs/describe-your-kernels.md",
    },
    "--split-k": {"type": integer, "default": 1, "help": "how many ways K is split, each a block of its own"},
    "--edges": {
        "default": "",
        "metavar": "PRODUCER-CONSUMER=POLICY,...",
        "help": (
            "edges with a policy of their own, as in qkv-attention=row,attention-out=grid; grid: this edge "
            "does not overlap"
        ),
    },
    "--way": {"help": "with [gpus] in the file, how they communicate"},
    "--dask": {
        "metavar": "ADDRESS",
        "help": "simulate on the Dask cluster of this scheduler, such as tcp://HOST:8786",
    },
    "--accept": {
        "choices": BASES,
        "help": (
            "what the plan to run may rest on: cuda: what CUDA guarantees (the default where the GPU has "
            "dependent launch), seen: what the devices of docs/safety.md do, idle: a GPU without other work"
        ),
    },
    "--verbose": {"action": "store_true", "help": "say what the numbers rest on, and every plan tried"},
    "--html": {"type": Path, "help": "write the picture and the table as a page"},
    "--perfetto": {
        "type": Path,
        "metavar": "FILE.json[.gz]",
        "help": "write every block and wait for ui.perfetto.dev",
    },
}


class Moved(argparse.Action):
    """An option under its old name: does what the option `now` does, and says so."""

    def __init__(self, option_strings: Sequence[str], dest: str, now: str, **options: Any) -> None:
        super().__init__(option_strings, dest, help=argparse.SUPPRESS, **options)
        self._now = now

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        if getattr(namespace, self.dest, None) != parser.get_default(self.dest):
            raise argparse.ArgumentError(self, f"is called {self._now} now, which is given, too")
        complain(f"{option} is called {self._now} now; the old name works until version 1.1")
        setattr(namespace, self.dest, values)


def add_moved(parser: argparse.ArgumentParser, old: str, now: str, **options: Any) -> None:
    """The old name of an option, hidden from the help. `options` are those of the new one."""
    parser.add_argument(old, action=Moved, now=now, dest=now.removeprefix("--"), **options)


def add_rows(parser: argparse.ArgumentParser, text: str, **options: Any) -> None:
    """The number of rows M, which commands for tokens call `--tokens`: both names work in every command."""
    parser.add_argument("--m", "--tokens", help=text, **options)


def add_shared(parser: argparse.ArgumentParser, *names: str, **helps: str) -> None:
    """Options of `SHARED` by name; `html="..."` gives an option another help."""
    for name in names:
        text = helps.get(name.removeprefix("--"))
        parser.add_argument(name, **SHARED[name] | ({"help": text} if text else {}))
