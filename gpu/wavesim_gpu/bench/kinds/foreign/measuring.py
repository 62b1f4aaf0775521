"""Measures foreign pairs: each kernel alone and stream sync by itself, later every plan in turns with it.

Example: `known(pair)` gives both kernels' times, what their blocks occupy and a recorded stream-sync run, all
that predictions are made from. `in_turns(pair)` gives 20 rounds of stream sync and of every plan.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from wavesim.bench.foreign_pairs import BASELINE, NAMES, ForeignPair
from wavesim.bench.foreign_runs import ComparedPair, KnownPair
from wavesim.errors import WavesimError
from wavesim.trace.trace import Trace
from wavesim_gpu.bench.kinds.foreign.kernels import Made
from wavesim_gpu.run.timing import Contender, interleaved_ns, run_in_turn

ROUNDS, ALONE_ROUNDS = 20, 10
REPEATS = 4  # of a kernel alone in its graph, so that starting the graph is a small part
TRACED = ("row", "tile")  # plans that leave traces
REPLAYS, LEAD_NS = 5, 30_000_000  # recorded runs, of which the median is kept, each after that much of load


def known(pair: ForeignPair) -> KnownPair:
    """Raises `WrongResultError` if stream sync's outputs are wrong."""
    made = Made(pair)
    stream = made.contender(BASELINE)
    made.require_product(made.outputs(stream.launch))
    contenders = [made.alone(number, REPEATS) for number in range(len(NAMES))]
    rounds = interleaved_ns([*contenders, stream], ALONE_ROUNDS)
    kernel_ns = {
        name: round(statistics.median(own)) for name, own in zip(NAMES, rounds[: len(NAMES)], strict=True)
    }
    blocks, recorder = made.blocks, Made(pair, is_recording=True)
    stream_ns = round(statistics.median(rounds[-1]))
    return KnownPair(pair, kernel_ns, blocks, stream_ns, _recorded(recorder, BASELINE, stream, rounds[-1]))


def _recorded(made: Made, word: str, lead: Contender, rounds_ns: Sequence[int]) -> Trace:
    """Of a few recorded runs, each right behind others of `lead`, the one with the median makespan."""
    recorded, traces = made.contender(word), []
    for _ in range(REPLAYS):
        made.empty_recording()
        # At the clock and with the caches of the rounds.
        run_in_turn([*[lead] * max(1, round(LEAD_NS / statistics.median(rounds_ns))), recorded])
        traces.append(made.trace(word, {"rounds_ns": tuple(rounds_ns)}))
    return sorted(traces, key=lambda trace: trace.makespan_ns)[len(traces) // 2]


def in_turns(pair: ForeignPair) -> ComparedPair:
    """A plan whose bits are not stream sync's, before or after its rounds, is missing."""
    made, missing = Made(pair), dict[str, str]()
    contenders: dict[str, Contender] = {BASELINE: made.contender(BASELINE)}
    wanted = made.outputs(contenders[BASELINE].launch)
    made.require_product(wanted)
    for word in pair.plans:
        try:
            contenders[word] = _checked(made, word, wanted)
        except WavesimError as error:
            missing[word] = str(error)
    times = dict(zip(contenders, interleaved_ns(list(contenders.values()), ROUNDS), strict=True))
    for word, contender in contenders.items():
        try:
            made.require_same(made.outputs(contender.launch), wanted, word)
        except WavesimError as error:
            missing[word] = f"after its rounds: {error}"
            times.pop(word)
    recorder = Made(pair, is_recording=True)
    traces = {w: _recorded(recorder, w, contenders[w], times[w]) for w in TRACED if w in times}
    return ComparedPair(times, missing, traces)


def _checked(made: Made, word: str, wanted: tuple[Any, Any]) -> Contender:
    contender = made.contender(word)
    made.require_same(made.outputs(contender.launch), wanted, word)
    return contender
