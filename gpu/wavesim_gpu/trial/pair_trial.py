"""A user's two kernels timed alone, predicted, run under each plan and checked: `try-pair FILE.py`.

Example: two Triton kernels are timed; row semaphores by dependent launch are predicted to gain 10.5 %, run
with the right result and gain 10.2 %. One table has both, and the recommendation comes below it.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device, catalogue_name
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.run.timing import Contender, Rounds, interleaved
from wavesim_gpu.trial.user_model import told
from wavesim_gpu.trial.user_pair import STREAM, Enqueue, UserPair

POLL_S = 0.0005
QUARTILES = 4
HEAD_START_NS = 3_000_000  # the host queues a round of launches from Python meanwhile


class UnendedRunError(DeviceError):
    """A run that has not ended in its time: only the end of the process ends it."""


@dataclass(frozen=True)
class TriedPlan:
    """A plan, predicted and measured: times in us, gains over stream sync in percent; None where unknown.

    `low` and `high` are the predicted interval; the quartiles are of the gain over rounds paired in time.
    """

    name: str
    predicted_us: float | None
    predicted_gain: float | None
    low: float | None
    high: float | None
    measured_us: float | None = None
    measured_gain: float | None = None
    quartiles: tuple[float, float] | None = None


@dataclass(frozen=True)
class PairTrial:
    """What came out: each kernel's time alone, stream sync and the plans, and the recommendation as lines.

    `notes` say what was done otherwise than wished; `is_graph` whether runs were replays of CUDA graphs.
    """

    place: str
    device: str
    kernel_us: Mapping[str, float]
    plans: tuple[TriedPlan, ...]
    answer: tuple[str, ...] = ()
    recommended: str | None = None
    notes: tuple[str, ...] = ()
    rounds: int = 0
    is_graph: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether a GPU ran it."""
        return self.rounds > 0


def try_pair(
    pair: UserPair, rounds: int, say: Callable[[str], None], *, use_graph: bool = True, limit_s: float = 60.0
) -> PairTrial:
    """Checks and times everything, interleaved, and predicts from the kernels' own times.

    Without a GPU it predicts from the description's `kernel_us`. A program that has not ended after `limit_s`
    raises `UnendedRunError`: what runs on the device then can only be ended with the process. Raises
    `DescriptionError` for wrong results.
    """
    try:
        cupy, device = require_cupy(), query()
    except DeviceError as error:
        if pair.device is None or not pair.kernel_ns:
            raise
        note = f"not measured: {error}"
        return predicted(pair, pair.device, pair.kernel_ns, notes=(note,))
    stream = cupy.cuda.Stream(non_blocking=True)
    with _current(stream):
        say("checking results")
        for name, run in pair.programs.items():
            _require_right(pair, name, run, stream, limit_s)
        programs = dict(zip(("", " "), pair.kernels, strict=True)) | pair.programs
        launches, notes = _launches(programs, stream, use_graph=use_graph)
        say(f"timing {len(launches)} programs over {rounds} rounds")
        contenders = [Contender(launch, stream) for launch in launches.values()]
        timed = interleaved(contenders, rounds, head_start_ns=HEAD_START_NS)
        for name, run in pair.programs.items():
            _require_right(pair, name, run, stream, limit_s)
    measured = dict(zip(launches, timed, strict=True))
    kernel_ns = {
        stage.name: round(statistics.median(measured[key].times_ns))
        for stage, key in zip(pair.pipeline.stages, ("", " "), strict=True)
    }
    say("predicting")
    return predicted(pair, device, kernel_ns, measured, tuple(notes), is_graph=not notes)


def predicted(
    pair: UserPair,
    device: Device,
    kernel_ns: Mapping[str, int],
    measured: Mapping[str, Rounds] | None = None,
    notes: tuple[str, ...] = (),
    *,
    is_graph: bool = False,
) -> PairTrial:
    """The table of predicted and measured; without simpy what was measured alone, and a note."""
    try:
        from wavesim.predict.recommendation import name_of, verdict_on  # noqa: PLC0415  # needs simpy
        from wavesim.predict.recommendation_text import answer_lines  # noqa: PLC0415  # as above
    except ImportError as error:
        note = f"not predicted: pip install {error.name}, or put its wheel on PYTHONPATH"
        return _table(pair, device, kernel_ns, {}, measured or {}, (*notes, note), is_graph=is_graph)
    known = _known_device(device)
    words = [name.partition(" ")[0] for name in pair.plans]
    advice = verdict_on(pair.pipeline, known, kernel_ns, own=words)
    options = {option.name: option for option in advice.tried}
    forecasts = {
        name: (option.trace.time_ns / 1e3, option.points, option.low, option.high)
        for name, (plan, _) in pair.plans.items()
        if (option := options.get(name_of(plan))) is not None
    }
    forecasts[STREAM] = (advice.tried[0].trace.time_ns / 1e3, 0.0, 0.0, 0.0)
    trial = _table(pair, device, kernel_ns, forecasts, measured or {}, notes, is_graph=is_graph)
    lines = answer_lines(advice, known.name, pair.place)
    return PairTrial(**{**trial.__dict__, "answer": tuple(lines), "recommended": advice.best})


def _known_device(device: Device) -> Device:
    """The GPU under its name in the catalogue, by which costs are kept."""
    from wavesim.model import device as devices  # noqa: PLC0415  # one name for the module and its function

    name = catalogue_name(device.name)
    return devices.load(name) if name in devices.names() else device


def _table(
    pair: UserPair,
    device: Device,
    kernel_ns: Mapping[str, int],
    forecasts: Mapping[str, tuple[float, float, float, float]],
    measured: Mapping[str, Rounds],
    notes: tuple[str, ...],
    *,
    is_graph: bool,
) -> PairTrial:
    stream = measured[STREAM].times_ns if measured else []
    rows = []
    for name in pair.programs:
        time_us, points, low, high = forecasts.get(name, (None, None, None, None))
        measured_us, gain, quartiles = _gain(measured[name].times_ns if measured else [], stream)
        rows.append(TriedPlan(name, time_us, points, low, high, measured_us, gain, quartiles))
    return PairTrial(
        pair.place,
        device.name,
        {name: time_ns / 1e3 for name, time_ns in kernel_ns.items()},
        tuple(rows),
        notes=notes,
        rounds=len(stream),
        is_graph=is_graph,
    )


def _gain(
    rounds: Sequence[int], stream: Sequence[int]
) -> tuple[float | None, float | None, tuple[float, float] | None]:
    """(median in us, gain over stream sync in percent, its quartiles over rounds paired in time)."""
    if not rounds:
        return None, None, None
    ours, theirs = statistics.median(rounds), statistics.median(stream)
    paired = [100 * (1 - first / second) for first, second in zip(rounds, stream, strict=True)]
    low, _, high = statistics.quantiles(paired, n=QUARTILES) if len(paired) > 1 else (paired[0],) * 3
    return ours / 1e3, 100 * (1 - ours / theirs), (low, high)


@contextmanager
def _current(stream: Any) -> Iterator[None]:
    """Makes a stream the current one, for CuPy and, where the pair uses it, for PyTorch."""
    with ExitStack() as stack:
        stack.enter_context(stream)
        torch = sys.modules.get("torch")  # only where the user's file has imported it
        if torch is not None:
            stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)))
        yield


def _require_right(pair: UserPair, name: str, run: Enqueue, stream: Any, limit_s: float) -> None:
    """One run on spoilt outputs, and the user's check. Raises `DescriptionError` or `UnendedRunError`."""
    told(pair.place, pair.clear)
    told(pair.place, run)
    _wait(stream, name, limit_s)
    if told(pair.place, pair.check) is False:
        raise DescriptionError(
            f"{pair.place}: check() says that the result of {name} is wrong; a plan with wrong results is "
            "not timed"
        )


def _wait(stream: Any, name: str, limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while not stream.done:
        if time.monotonic() > until:
            raise UnendedRunError(
                f"{name} has not ended in {limit_s:g} s: it waits for what never comes, or --limit-s is too "
                "short. `wavesim why-hang` explains launches; this process ends now, and what it runs with it"
            )
        time.sleep(POLL_S)


def _launches(
    programs: Mapping[str, Enqueue], stream: Any, *, use_graph: bool
) -> tuple[dict[str, Enqueue], list[str]]:
    """Graph replays of all programs, or all as plain launches where one cannot be captured, with a note."""
    plain = {name: _on(stream, run) for name, run in programs.items()}
    if not use_graph:
        return plain, ["launched from Python, as was asked: short kernels measure the host"]
    try:
        return {name: _captured(stream, run) for name, run in programs.items()}, []
    except Exception as error:  # noqa: BLE001  # whatever the user's launches raise in a capture
        return plain, [
            f"launched from Python: {type(error).__name__} in a graph's capture ({str(error)[:200]})"
        ]


def _on(stream: Any, run: Enqueue) -> Enqueue:
    def launch() -> None:
        with _current(stream):
            run()

    return launch


def _captured(stream: Any, run: Enqueue) -> Enqueue:
    stream.begin_capture()
    try:
        run()
    finally:
        graph = stream.end_capture()

    def launch() -> None:
        graph.launch(stream)

    return launch
