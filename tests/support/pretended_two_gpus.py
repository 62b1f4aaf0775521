"""The measuring command for two GPUs where there are none: lines of its form, with times that are made up.

Example: `PretendedRun(clock)` takes the place of `run_command`: it reads the options as the command does and
adds a line per shape, each of which takes 10 s of its clock; it stops where the next would not end in time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wavesim.model.collective import Collective
from wavesim_gpu.bench.kinds.two_gpus import __main__ as command
from wavesim_gpu.bench.kinds.two_gpus.variants import variants_of

LIBRARIES = {
    "all-reduce": ("sequence", "fused", "symmetric one-shot", "symmetric two-shot"),
    "reduce-scatter": ("sequence", "fused"),
    "all-gather": ("sequence", "fused"),
}
ALONE = ("gemm", "all-reduce", "all-reduce ours")
BEGIN_S, SHAPE_S = 20.0, 10.0


@dataclass
class PretendedClock:
    """Seconds that pass as work is pretended."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class PretendedRun:
    """`fails`: shapes at which the process ends with status 1; `hangs`: where it does not end."""

    clock: PretendedClock
    fails: Sequence[tuple[int, int, int]] = ()
    hangs: Sequence[tuple[int, int, int]] = ()
    commands: list[list[str]] = field(default_factory=list)

    def __call__(self, words: Sequence[str], log: Path, _results: Path, seconds: float) -> int | None:
        self.commands.append(list(words))
        begun, options = self.clock.seconds, command.parsed(list(words[3:]))
        self.clock.seconds += BEGIN_S
        until = self.clock.seconds + options.seconds
        for size in sizes_of(options):
            if options.only in command.TIMED and self.clock.seconds + SHAPE_S > until:
                return 0
            if size in self.hangs:
                self.clock.seconds = begun + seconds
                return None
            self.clock.seconds += SHAPE_S
            if size in self.fails:
                log.write_text("Traceback\nRuntimeError: pretended\n")
                return 1
            append(options, size)
        return 0


def sizes_of(options):
    if options.only in command.TIMED:
        return command.chosen(options.shapes, options.kind, options.list)
    if options.only == "right":
        return command.TRIED.get(options.kind, command.WHOLE)
    return (command.SKEWED,)


def append(options, size):
    """A line as rank 0 writes it."""
    with options.out.open("a") as file:
        file.write(json.dumps(line_of(options, size)) + "\n")


def line_of(options, size):
    ways = list(filter(None, options.ways.split(",")))
    line = {"part": options.only, "kind": options.kind, "size": size, "commit": options.commit, "ways": ways}
    facts = {
        "right": {"errors": {"stores, 128x256": 0.004, "exchange, 128x256": None}, "wrong": ["exchange"]},
        "skew": {"calls": options.calls, "different_bits": 0, "error": 0.004},
        "killed": {"message": "a wait of rank 1 gave up\nmore", "seconds": 1.2, "gpu_works": True},
        "operators": {"us": {"row_parallel_linear": 90.0, "torch": 100.0}, "errors": [0.004, 0.004]},
    }
    if options.only in facts:
        return line | facts[options.only]
    found = ways_of(options.kind, size, options.only == "both", options.rounds)
    return line | {"part": "times", "dtype": "bf16", "seconds": SHAPE_S, "versions": {}} | found


def ways_of(kind, size, is_both, rounds):
    """Times that grow with the work: of ours 0.8 of those in a row from 64 rows on, below 1.2."""
    m, k, n = size
    base = 20_000 + m * n * k / 3e8 + m * n / 30
    ours = (0.8 if m >= 64 else 1.2) * base
    ways = {
        name: way(ours * (1 + 0.01 * at), found[0].words, rounds)
        for at, (name, found) in enumerate(variants_of(size, Collective(kind), 2).items())
    }
    ways |= {name: way(base * (1 + 0.02 * at), "", rounds) for at, name in enumerate(LIBRARIES[kind])}
    if is_both:
        ways |= {
            name: way(base * part, "", rounds) for name, part in zip(ALONE, (0.7, 0.4, 0.5), strict=True)
        }
    # A way that was wrong, as the command writes it.
    ways["stores:16"] = {"error": None, "failure": "wrong results: not timed", "ns": [], "words": "128x256"}
    return {"ways": ways, "needs": dict.fromkeys(ways, "peer access")}


def way(ns, words, rounds):
    return {"error": 0.004, "failure": "", "ns": [round(ns)] * rounds, "words": words}
