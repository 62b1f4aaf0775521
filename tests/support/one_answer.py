"""Whether `predict`, `compare`, `tune` and `crossover` recommend the same plan: fifty descriptions.

Example: `python tests/support/one_answer.py --cases 50` writes pairs and chains of other grids, times, blocks
and devices, some with plans of their own, asks every command for its JSON, and prints those that disagree.
"""

import argparse
import contextlib
import io
import itertools
import json
import sys
import tempfile
from pathlib import Path
from random import Random

from wavesim.cli.command_line import main as wavesim

STAGE = """
[[stages]]
name = "{name}"
grid = [{x}, {y}]
threads = {threads}
registers = {registers}
shared_bytes = {shared}
kernel_us = {us}
"""
LINK = """
[[dependencies]]
consumer = "{consumer}"
needs = ["{producer}[:, y]"]
"""
DEVICES = ("h200", "h100", "a100-80gb", "v100", "b200")
OWN = ("", '\n[plans]\nsync = ["row", "persistent+pdl+tile"]\n')


def description(chance: Random, device: str, own: str) -> tuple[str, int]:
    """A description, and its tile rows."""
    rows, stages = chance.randint(2, 12), chance.choice((2, 2, 3))
    text = f'device = "{device}"\n'
    for number in range(stages):
        shared = chance.choice((24_576, 49_152, 90_112))
        text += STAGE.format(
            name=f"k{number}",
            x=chance.randint(6, 40),
            y=rows,
            threads=chance.choice((128, 256)),
            registers=chance.choice((96, 168)),
            shared=shared,
            us=round(chance.uniform(30, 500), 1),
        )
    links = (LINK.format(consumer=f"k{i}", producer=f"k{i - 1}") for i in range(1, stages))
    return text + "".join(links) + own, rows


def answer(*words: str) -> dict[str, object]:
    """A command's JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = wavesim([*words, "--json"])
    if status:
        raise SystemExit(f"{' '.join(words)}: status {status}")
    return json.loads(out.getvalue())  # type: ignore[no-any-return]


def answers(path: Path, rows: int) -> dict[str, object]:
    """What each command recommends."""
    m = 128 * rows
    crossover = answer("crossover", "--file", str(path), "--tile-rows", "128", "--m", f"{m}:{m}")
    table: list[dict[str, object]] = crossover["table"]  # type: ignore[assignment]
    told = {command: answer(command, str(path))["recommended"] for command in ("predict", "compare", "tune")}
    return told | {"crossover": table[0]["recommended"]}


def main() -> int:
    """Prints each description on which commands disagree, and how many do not."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, same = Random(options.seed), 0  # cases, no secret
    kinds = itertools.cycle(itertools.product(DEVICES, OWN))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.cases):
            text, rows = description(chance, *next(kinds))
            path = Path(folder) / f"case-{number}.toml"
            path.write_text(text, encoding="utf-8")
            told = answers(path, rows)
            same += len(set(told.values())) == 1
            if len(set(told.values())) > 1:
                print(number, told)  # noqa: T201  # a script
            print(f"{number + 1}: {same} the same", file=sys.stderr)  # noqa: T201  # progress
    print(f"{same} of {options.cases} descriptions have one answer")  # noqa: T201  # a script
    return same < options.cases


if __name__ == "__main__":
    sys.exit(main())
