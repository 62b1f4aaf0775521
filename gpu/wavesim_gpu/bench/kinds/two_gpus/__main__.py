"""Measures products across two GPUs beside what libraries do, in pieces; `campaign.py` runs all of them.

`python -m wavesim_gpu.bench.kinds.two_gpus --out FILE --commit COMMIT --only right` first, then `killed`,
`skew`, `times --shapes 0:6`, ...: each adds lines of JSON to the file. "right" runs every way in every tile
once, "alone" times products and all-reduces by themselves, "both" these beside the ways, "operators" what a
user calls in PyTorch. Needs two GPUs of one host with peer access, and PyTorch. NVLink multicast stays off.
With `--devices 0,0` both ranks' processes have one GPU in turns: "right", "killed" and "skew" then run but
for the link; there is nothing to time. `collected.py` makes of the lines what the page shows.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path

from wavesim.errors import DescriptionError
from wavesim.safe_io.options import number
from wavesim.safe_io.program import run_program
from wavesim_gpu.bench.kinds.two_gpus.cases import LISTS, shapes

PARTS = ("right", "killed", "skew", "times", "alone", "both", "operators")
# Ways, products and all-reduces by themselves, both in one run; calls of PyTorch operators.
TIMED = ("times", "alone", "both", "operators")
KINDS = ("all-reduce", "reduce-scatter", "all-gather")
SKEWED = (512, 6144, 4096)
# Rows that are cut off and odd in number, one row of tiles; of others whole tiles for each rank.
WHOLE = ((1024, 1408, 4096), (1536, 2048, 4096))
TRIED = {"all-reduce": ((1000, 1408, 4096), (640, 2048, 4096), (64, 2048, 4096))}


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m wavesim_gpu.bench.kinds.two_gpus")
    parser.add_argument("--out", required=True, type=Path, help="a file of JSON lines, which grows")
    parser.add_argument("--commit", required=True, help="of the kernels")
    parser.add_argument("--only", choices=PARTS, default="times", help="which part")
    parser.add_argument("--kind", choices=KINDS, default="all-reduce", help="which collective")
    parser.add_argument(
        "--shapes", default="0:", metavar="A:B,C", help="which of the list, from 0 (default 0:, all)"
    )
    parser.add_argument("--list", choices=LISTS, default=LISTS[0], help="of shapes written down before")
    parser.add_argument("--ways", default="", metavar="A,B*", help="only ways of these names (default all)")
    parser.add_argument("--kraken", default="", metavar="DIR", help="a checkout of meta-pytorch/kraken")
    parser.add_argument("--rounds", type=int, default=20, help="of times (default 20)")
    parser.add_argument("--calls", type=int, default=10_000, help="under skew (default 10000)")
    parser.add_argument(
        "--seconds", type=number, default=math.inf, help="begin no shape that would not end within them"
    )
    parser.add_argument("--devices", default="0,1", help="the ranks' GPUs; 0,0: both on one (default 0,1)")
    return parser.parse_args(arguments)


def devices_of(text: str, part: str) -> tuple[int, ...]:
    """GPUs by rank. Raises `DescriptionError`: no numbers, fewer than two, or times where ranks share one."""
    words = text.split(",")
    if len(words) < 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise DescriptionError(f"--devices is {text!r}; it must be a GPU's number per rank. Use 0,1 or 0,0")
    devices = tuple(map(int, words))
    if part in TIMED and len(set(devices)) < len(devices):
        raise DescriptionError(
            f"--devices is {text!r}; ranks that share a GPU have no link to time. Use --only skew or killed"
        )
    return devices


def chosen(text: str, kind: str, name: str = LISTS[0]) -> tuple[tuple[int, int, int], ...]:
    """The shapes of a list that "A:B,C" names, without B, and that a collective can take.

    Raises `DescriptionError`.
    """
    known = shapes(name)
    numbers = [at for word in text.split(",") for at in _numbers(word, len(known), text)]
    return tuple(known[at] for at in numbers if takes(kind, known[at]))


def takes(kind: str, size: tuple[int, int, int]) -> bool:
    """Whether a collective of two ranks has whole rows of tiles for each, as all but all-reduces must."""
    return kind == "all-reduce" or size[0] % 256 == 0


def _numbers(word: str, count: int, text: str) -> range:
    begin, colon, end = word.partition(":")
    last = str(count) if colon else ""
    if begin.isdigit() and not colon:
        last = str(int(begin) + 1)
    end = end or last
    if not (begin.isdigit() and end.isdigit() and int(begin) < int(end) <= count):
        raise DescriptionError(
            f"--shapes is {text!r}; it must be numbers or A:B with A < B <= {count}. Use 0:6 or 3,7"
        )
    return range(int(begin), int(end))


def require_kraken(folder: str) -> None:
    """Raises `DescriptionError` for a folder that is no checkout of kraken."""
    if folder and not Path(folder, "kraken", "fused").is_dir():
        raise DescriptionError(
            f"--kraken is {folder!r}; it has no kraken/fused. Give a checkout of meta-pytorch/kraken"
        )


def main() -> int:
    """The command."""
    options = parsed()
    devices = devices_of(options.devices, options.only)
    require_kraken(options.kraken)
    from wavesim_gpu.bench.kinds.two_gpus.rank import Setting  # noqa: PLC0415  # PyTorch
    from wavesim_gpu.bench.kinds.two_gpus.worker import run_ranks  # noqa: PLC0415

    sizes: tuple[tuple[int, int, int], ...] = (SKEWED,)
    if options.only == "right":
        sizes = TRIED.get(options.kind, WHOLE)
    if options.only in TIMED:
        sizes = chosen(options.shapes, options.kind, options.list)
    if options.only in ("alone", "both") and options.kind != "all-reduce":
        raise DescriptionError(
            f"--kind is {options.kind!r}; only all-reduces are timed alone. Use --only times"
        )
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            *(options.out, options.commit, options.only, sizes, options.kind, options.rounds, options.calls),
            meeting=f"{folder}/meeting",
            devices=devices,
            ways=tuple(filter(None, options.ways.split(","))),
            kraken=options.kraken,
            seconds=options.seconds,
        )
        run_ranks(setting)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("two_gpus", main))
