"""Measures products across two GPUs beside what libraries do, in pieces.

`python -m wavesim_gpu.evaluation.two_gpus --out FILE --commit COMMIT --only killed` first, then `skew`, then
`times --shapes 0:6`, ...: each adds lines of JSON to the file. "alone" times products and all-reduces by
themselves, "both" these beside the ways, "operators" what a user calls in PyTorch. Needs two GPUs of one host
with peer access, and PyTorch. NVLink multicast stays off. With `--devices 0,0` both ranks' processes have one
GPU in turns: "killed" and "skew" then run but for the link; there is nothing to time. `entries.py` makes of
the lines what the page shows.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from wavesim.errors import DescriptionError
from wavesim.guard.program import run_program
from wavesim_gpu.evaluation.two_gpus.cases import LISTS, shapes

PARTS = ("killed", "skew", "times", "alone", "both", "operators")
# Ways, products and all-reduces by themselves, both in one run; calls of PyTorch operators.
TIMED = ("times", "alone", "both", "operators")
KINDS = ("all-reduce", "reduce-scatter", "all-gather")
SKEWED = (512, 6144, 4096)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m wavesim_gpu.evaluation.two_gpus")
    parser.add_argument("--out", required=True, type=Path, help="a file of JSON lines, which grows")
    parser.add_argument("--commit", required=True, help="of the kernels")
    parser.add_argument("--only", choices=PARTS, default="times", help="which part")
    parser.add_argument("--kind", choices=KINDS, default="all-reduce", help="which collective")
    parser.add_argument(
        "--shapes", default="0:", metavar="A:B", help="which of the list, from 0 (default 0:, all)"
    )
    parser.add_argument("--list", choices=LISTS, default=LISTS[0], help="of shapes written down before")
    parser.add_argument("--ways", default="", metavar="A,B*", help="only ways of these names (default all)")
    parser.add_argument("--kraken", default="", metavar="DIR", help="a checkout of meta-pytorch/kraken")
    parser.add_argument("--rounds", type=int, default=20, help="of times (default 20)")
    parser.add_argument("--calls", type=int, default=10_000, help="under skew (default 10000)")
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
    """The shapes A to B, without B, of a list that a collective can take. Raises `DescriptionError`."""
    begin, colon, end = text.partition(":")
    known = shapes(name)
    end = end or (colon and str(len(known)))
    if not (begin.isdigit() and end.isdigit() and int(begin) < int(end) <= len(known)):
        raise DescriptionError(f"--shapes is {text!r}; it must be A:B with A < B <= {len(known)}. Use 0:6")
    return tuple(one for one in known[int(begin) : int(end)] if kind == "all-reduce" or one[0] % 256 == 0)


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
    from wavesim_gpu.evaluation.two_gpus.worker import Setting, run_ranks  # noqa: PLC0415  # PyTorch

    sizes: tuple[tuple[int, int, int], ...] = (SKEWED,)
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
        )
        run_ranks(setting)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("two_gpus", main))
