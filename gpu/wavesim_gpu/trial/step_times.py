"""Steps of PyTorch programs, captured in CUDA graphs and timed in turns in one process.

Example: the model as it is and the model with its MLPs swapped, each a graph, 20 rounds of both in an order
drawn anew each round: both meet the same clocks and the same power, so that the ratio of a round means
something where the times themselves drift. On a CPU the same code times calls by the host's clock.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim.safe_io.escaping import one_line

WARM_UPS = 3  # what torch asks for before a capture
WARM_UP_S = 0.15  # of sustained load: the clock needs tens of milliseconds to settle
SHORTEST_NS = 2_000_000  # a round is as many runs as this takes: events and a graph's start are microseconds
MOST_REPEATS = 50
HEAD_START_CYCLES = 2_000_000  # the GPU is held for a millisecond while the host queues the first round


@dataclass(frozen=True)
class TimedStep:
    """One program's step. `run` starts it on torch's current stream; `prepare` comes before, untimed."""

    label: str
    run: Callable[[], Any]
    prepare: Callable[[], Any] | None = None


@dataclass(frozen=True)
class StepTimes:
    """A step's rounds: nanoseconds of one run in each, the mean over `repeats` runs in a row."""

    label: str
    times_ns: tuple[int, ...]
    repeats: int

    @property
    def median_ns(self) -> float:
        """The median round."""
        return float(np.median(self.times_ns))

    def speed_over(self, other: "StepTimes") -> tuple[float, float, float]:
        """How many times as fast as another this is, per round: median, lower and upper quartile."""
        ratios = np.array(other.times_ns, float) / np.array(self.times_ns, float)
        low, middle, high = np.percentile(ratios, [25, 50, 75])
        return float(middle), float(low), float(high)


class CapturedStep:
    """A step in a CUDA graph; `outputs` are the captured run's, written again by every replay.

    Raises `DeviceError` where the step cannot be captured; the process goes on as before.
    """

    def __init__(self, run: Callable[[], Any]) -> None:
        import torch  # noqa: PLC0415  # optional

        before = torch.cuda.current_stream()
        side = torch.cuda.Stream()
        side.wait_stream(before)
        try:
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    run()
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=side):
                self.outputs = run()
        except Exception as error:
            _leave_capture(before)
            raise DeviceError(
                f"not captured in a CUDA graph: {one_line(str(error) or repr(error))}"
            ) from error
        before.wait_stream(side)
        torch.cuda.synchronize()

    def __call__(self) -> Any:
        """Replays the graph on the current stream. Returns the outputs, which the replay fills."""
        self._graph.replay()
        return self.outputs


def _leave_capture(stream: Any) -> None:
    """After a capture that failed: its stream is still current, and the generator counts as capturing."""
    import torch  # noqa: PLC0415  # optional

    torch.cuda.set_stream(stream)
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())


def interleaved_steps(
    steps: Sequence[TimedStep], rounds: int, *, on_gpu: bool, after_round: Callable[[int], object] = int
) -> list[StepTimes]:
    """Times of the steps, run in turns for `rounds` rounds; `after_round` is told how many are done."""
    clock: _HostClock | _GpuClock = _GpuClock() if on_gpu else _HostClock()
    repeats = [_repeats(clock, step) for step in steps]
    clock.start(steps)
    marks: list[list[Any]] = [[] for _ in steps]
    order = Random(0)  # noqa: S311  # an order, no secret
    for done in range(1, rounds + 1):
        for index in order.sample(range(len(steps)), len(steps)):
            step = steps[index]
            if step.prepare is not None:
                step.prepare()
            marks[index].append(clock.time(step, repeats[index]))
        after_round(done)
    result = clock.read(marks)
    return [
        StepTimes(step.label, tuple(round(ns / count) for ns in times), count)
        for step, times, count in zip(steps, result, repeats, strict=True)
    ]


def _repeats(clock: Any, step: TimedStep) -> int:
    if step.prepare is not None:
        step.prepare()
    step.run()
    (once,) = clock.read([[clock.time(step, 1)]])
    return min(MOST_REPEATS, max(1, math.ceil(SHORTEST_NS / max(once[0], 1.0))))


class _HostClock:
    """Calls that have ended when they return."""

    def start(self, steps: Sequence[TimedStep]) -> None:
        """Nothing settles here."""

    def time(self, step: TimedStep, repeats: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(repeats):
            step.run()
        return float(time.perf_counter_ns() - began)

    def read(self, marks: list[list[Any]]) -> list[list[float]]:
        return marks


class _GpuClock:
    """Events on torch's current stream; the host queues ahead and waits once, at the end."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  # optional

        self._cuda = torch.cuda

    def start(self, steps: Sequence[TimedStep]) -> None:
        began = time.monotonic()
        while time.monotonic() - began < WARM_UP_S:
            for step in steps:
                if step.prepare is not None:
                    step.prepare()
                step.run()
            self._cuda.synchronize()
        self._cuda._sleep(HEAD_START_CYCLES)  # noqa: SLF001  # no public way to hold the device

    def time(self, step: TimedStep, repeats: int) -> tuple[Any, Any]:
        start, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            step.run()
        end.record()
        return start, end

    def read(self, marks: list[list[Any]]) -> list[list[float]]:
        self._cuda.synchronize()
        return [[start.elapsed_time(end) * 1e6 for start, end in pairs] for pairs in marks]


LEAVE = "leave it as it is"


@dataclass(frozen=True)
class StepGain:
    """Time saved by the swap, in per cent of the step as it was: median and quartiles of the rounds.

    `noise` is what the step as it was, timed twice, differs from itself.
    """

    median: float
    low: float
    high: float
    noise: float

    @property
    def is_real(self) -> bool:
        """Whether three quarters of the rounds gained, and the median more than the noise."""
        return self.low > 0 and self.median > self.noise

    def __str__(self) -> str:
        return f"{self.median:.1f} % ({self.low:.1f} to {self.high:.1f})"


def gain_of(before: StepTimes, again: StepTimes, after: StepTimes) -> StepGain:
    """The gain over the rounds' pairs."""
    return StepGain(*saved_percent(before, after), noise=abs(saved_percent(before, again)[0]))


def verdict_of(gain: StepGain) -> str:
    """The last line of a trial that was timed."""
    if gain.is_real:
        return f"gains {gain}"
    if gain.high < 0:
        longer = f"{-gain.median:.1f} % longer ({-gain.high:.1f} to {-gain.low:.1f})"
        return f"{LEAVE}: swapped, the step takes {longer}"
    said = f"the gain of {gain} is no more than the noise ({gain.noise:.1f} %) or not in most rounds"
    return f"{LEAVE}: {said}"


def saved_percent(before: StepTimes, after: StepTimes) -> tuple[float, float, float]:
    """Per cent of the time before that is saved: median, lower and upper quartile of the rounds' pairs."""
    saved = 100 * (1 - np.array(after.times_ns, float) / np.array(before.times_ns, float))
    low, median, high = np.percentile(saved, [25, 50, 75])
    return float(median), float(low), float(high)
