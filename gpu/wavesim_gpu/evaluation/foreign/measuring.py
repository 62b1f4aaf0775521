"""Measures foreign pairs: each kernel alone and stream sync by itself, later every plan in turns with it.

Example: `alone(pair)` gives both kernels' times, what their blocks occupy and a recorded stream-sync run, all
that predictions are made from. `in_turns(pair)` gives 20 rounds of stream sync and of every plan.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wavesim.errors import WavesimError
from wavesim.evaluation.foreign_pairs import BASELINE, NAMES, ForeignPair
from wavesim.model.kernel import Block
from wavesim.trace.trace import Trace
from wavesim_gpu.evaluation.foreign.kernels import Made
from wavesim_gpu.runtime.timing import Contender, interleaved_ns, run_in_turn

ROUNDS, ALONE_ROUNDS = 20, 10
REPEATS = 4  # of a kernel alone in its graph, so that starting the graph is a small part
REPLAYS, LEAD_NS = 5, 30_000_000  # recorded runs, of which the median is kept, each after that much of load


@dataclass(frozen=True)
class Alone:
    """What is known before any plan has run: nanoseconds and blocks by kernel, stream sync's trace."""

    kernel_ns: dict[str, int]
    blocks: dict[str, Block]
    stream: Trace


@dataclass(frozen=True)
class InTurns:
    """Rounds in nanoseconds by word, stream sync's among them, and why plans are missing."""

    rounds: dict[str, list[int]]
    missing: dict[str, str]


def alone(pair: ForeignPair) -> Alone:
    """Raises `WrongResultError` if stream sync's outputs are wrong."""
    made = Made(pair)
    stream = made.contender(BASELINE)
    made.require_product(made.outputs(stream.launch))
    contenders = [made.alone(number, REPEATS) for number in range(len(NAMES))]
    rounds = interleaved_ns([*contenders, stream], ALONE_ROUNDS)
    kernel_ns = {
        name: round(statistics.median(own)) for name, own in zip(NAMES, rounds[: len(NAMES)], strict=True)
    }
    return Alone(kernel_ns, made.blocks, _recorded(pair, stream, rounds[-1]))


def _recorded(pair: ForeignPair, stream: Contender, rounds_ns: Sequence[int]) -> Trace:
    """Of a few recorded runs under load the one with the median makespan."""
    made = Made(pair, is_recording=True)
    lead = [stream] * max(1, round(LEAD_NS / statistics.median(rounds_ns)))
    traces = []
    for _ in range(REPLAYS):
        run_in_turn(lead)
        traces.append(made.trace(BASELINE, {"rounds_ns": tuple(rounds_ns)}))
    return sorted(traces, key=lambda trace: trace.makespan_ns)[len(traces) // 2]


def in_turns(pair: ForeignPair, plans: Sequence[str], rounds: int = ROUNDS) -> InTurns:
    """Stream sync and the plans; a plan whose bits are not stream sync's, before or after, is missing."""
    made, missing = Made(pair), {}
    contenders: dict[str, Contender] = {BASELINE: made.contender(BASELINE)}
    wanted = made.outputs(contenders[BASELINE].launch)
    made.require_product(wanted)
    for word in plans:
        try:
            contenders[word] = _checked(made, word, wanted)
        except WavesimError as error:
            missing[word] = str(error)
    times = dict(zip(contenders, interleaved_ns(list(contenders.values()), rounds), strict=True))
    for word, contender in contenders.items():
        try:
            made.require_same(made.outputs(contender.launch), wanted, word)
        except WavesimError as error:
            missing[word] = f"after its rounds: {error}"
            del times[word]
    return InTurns(times, missing)


def _checked(made: Made, word: str, wanted: tuple[Any, Any]) -> Contender:
    contender = made.contender(word)
    made.require_same(made.outputs(contender.launch), wanted, word)
    return contender
