"""A program run again and again under other delays, its outputs compared with those of the plain order.

Example: `shake(load_program("pair.py"), seconds=60)` runs some thousand seeds of a pair of small kernels; a
`Fault` names the first seed with a wrong result, the first wrong element, and the few sites that show it.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.shake.delayed_modules import Delays, Disturbance
from wavesim_gpu.shake.ptx_delays import Site
from wavesim_gpu.trial.user_model import module_of, told

POLL_S = 0.0002
REPLAYS, TRIES = 5, 3
LONGEST_NS = (1_000, 10_000, 50_000, 200_000)
CHANCES = (1, 2, 4, 16)
MOST_DELAYS = 16  # of a thread
SPOILT = 0xFF  # every byte; NaN in floating point
SMALLEST_S = 15.0  # at most, to make a failing seed's sites fewer
ADVICE = (
    "it defines `run()`, or `plans` (name: function), or both of a try-pair file's `producer()` and "
    "`consumer()`; and `outputs`, a list of arrays, or `check()`, or both"
)
Enqueue = Callable[[], Any]
Item = TypeVar("Item")


@dataclass(frozen=True)
class ShakenProgram:
    """What is shaken: `runs` by name, each enqueues all on the current stream.

    `reference()` does the same in the plain order. `outputs` are compared with what that leaves, within
    `tolerance` of the largest value; `check()` is False or raises where they are wrong, `clear()` spoils
    them.
    """

    place: str
    runs: Mapping[str, Enqueue]
    reference: Enqueue
    outputs: tuple[Any, ...]
    check: Enqueue
    clear: Enqueue
    delays: Delays
    tolerance: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A wrong result: of which run, under what, where first, and how often again."""

    run: str
    disturbance: Disturbance
    wrong: str
    sites: tuple[Site, ...]
    failed: int
    replays: int

    @property
    def is_delayed(self) -> bool:
        """Whether a delay was needed."""
        return bool(self.disturbance.sites)


@dataclass(frozen=True)
class Shaken:
    """What came out: a fault or none, of how many seeds in how many seconds."""

    place: str
    fault: Fault | None
    seeds: int
    seconds: float
    site_count: int
    notes: tuple[str, ...] = ()


class UnendedError(DescriptionError):
    """A run that did not end in its time; only the end of the process ends it."""


def load_program(place: str) -> ShakenProgram:
    """Runs the user's file with all that it loads rewritten. Raises `DescriptionError`, `DeviceError`."""
    delays = Delays(require_cupy())
    with delays.watching():
        module = told(place, lambda: module_of(place))
    names = vars(module)
    pair = [names[name] for name in ("producer", "consumer") if callable(names.get(name))]
    runs = dict(names.get("plans") or {}) or {
        name: names[name] for name in ("run",) if callable(names.get(name))
    }
    in_order = names.get("reference") or (lambda: [enqueue() for enqueue in pair])
    outputs, check = tuple(names.get("outputs", ())), names.get("check")
    if not (runs or len(pair) == 2) or not (outputs or callable(check)):
        raise DescriptionError(f"{place}: nothing to shake; a file is right when {ADVICE}")
    if not delays.modules:
        raise DescriptionError(
            f"{place} loads no CUDA C++ that shake can change: by cupy.RawModule or RawKernel, or wavesim's "
            "load_function, while it is imported"
        )
    delays.note([*outputs, *names.get("arrays", ())])
    reference = in_order if len(pair) == 2 or names.get("reference") else next(iter(runs.values()))
    return ShakenProgram(
        place,
        runs or {"stream": in_order},
        reference,
        outputs,
        check or (lambda: True),
        names.get("clear") or (lambda: _spoil(outputs)),
        delays,
        float(names.get("tolerance", 0.0)),
    )


def _spoil(outputs: Iterable[Any]) -> None:
    for output in outputs:
        output.view("u1").fill(SPOILT)


def disturbances(program: ShakenProgram, first: int) -> Iterator[Disturbance]:
    """Those of seed `first` and the seeds after it; a seed alone says which."""
    sites = frozenset(program.delays.sites)
    seed = first
    while True:
        dice = random.Random(seed)  # noqa: S311  # no secret
        yield Disturbance(seed, sites, dice.choice(LONGEST_NS), dice.choice(CHANCES), MOST_DELAYS)
        seed += 1


def shake(
    program: ShakenProgram, seconds: float, *, limit_s: float = 10.0, first_seed: int = 1, only: bool = False
) -> Shaken:
    """Runs seeds until a result is wrong or the time is over; with `only` the first alone, `REPLAYS` times.

    Raises `UnendedError`, after which nothing may touch the device, and `DescriptionError` where the plain
    order itself is wrong.
    """
    begin = time.monotonic()
    with _own_stream(program) as stream:
        runs = _Runs(program, stream, limit_s)
        seeds = 0
        for name in program.runs:  # as it is
            if wrong := runs.wrong(name, Disturbance()):
                fault = Fault(name, Disturbance(), wrong, (), *runs.again(name, Disturbance(), REPLAYS))
                return _result(program, fault, seeds, begin)
        for disturbance in disturbances(program, first_seed):
            if time.monotonic() - begin > seconds or (only and seeds):
                break
            seeds += 1
            for name in program.runs:
                for _ in range(REPLAYS if only else 1):
                    if wrong := runs.wrong(name, disturbance):
                        return _result(program, runs.explained(name, disturbance, wrong), seeds, begin)
    return _result(program, None, seeds, begin)


def _result(program: ShakenProgram, fault: Fault | None, seeds: int, begin: float) -> Shaken:
    delays = program.delays
    took = time.monotonic() - begin
    return Shaken(program.place, fault, seeds, took, len(delays.sites), tuple(delays.notes))


@contextmanager
def _own_stream(program: ShakenProgram) -> Iterator[Any]:
    stream = program.delays.cupy.cuda.Stream(non_blocking=True)
    with stream:
        yield stream


class _Runs:
    """Runs of a program and what is wrong with their results."""

    def __init__(self, program: ShakenProgram, stream: Any, limit_s: float) -> None:
        self.program, self.stream, self.limit_s = program, stream, limit_s
        self.cupy = program.delays.cupy
        self._run("the plain order", program.reference, Disturbance())
        self.expected = [self.cupy.asnumpy(output) for output in program.outputs]
        if said := self._checked():
            raise DescriptionError(f"{program.place}: {said} in the plain order, without a delay")
        program.delays.set(Disturbance())

    def wrong(self, name: str, disturbance: Disturbance) -> str:
        """What is wrong after a run, "" where nothing is."""
        self._run(name, self.program.runs[name], disturbance)
        for place, (output, expected) in enumerate(zip(self.program.outputs, self.expected, strict=True)):
            if said := difference(self.cupy.asnumpy(output), expected, self.program.tolerance):
                return f"outputs[{place}]{said}"
        return self._checked()

    def again(self, name: str, disturbance: Disturbance, count: int) -> tuple[int, int]:
        """How many of so many runs are wrong."""
        return sum(bool(self.wrong(name, disturbance)) for _ in range(count)), count

    def explained(self, name: str, disturbance: Disturbance, wrong: str) -> Fault:
        """The fault with as few sites as still show it, tried for `SMALLEST_S`."""
        until = time.monotonic() + SMALLEST_S
        all_sites = self.program.delays.sites

        def fails(sites: Iterable[tuple[int, int]]) -> bool:
            tried = replace(disturbance, sites=frozenset(sites))
            return time.monotonic() < until and any(self.wrong(name, tried) for _ in range(TRIES))

        kept = fewest(sorted(disturbance.sites), fails)
        smaller = replace(disturbance, sites=frozenset(kept))
        failed, count = self.again(name, smaller, REPLAYS)
        return Fault(name, smaller, wrong, tuple(all_sites[site] for site in kept), failed, count)

    def _run(self, name: str, run: Enqueue, disturbance: Disturbance) -> None:
        place = self.program.place
        self.program.delays.set(disturbance)
        self.program.delays.spoil_shared_memory(self.stream)
        told(place, self.program.clear)
        self.stream.synchronize()
        told(place, run)
        until = time.monotonic() + self.limit_s
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        while not event.done:
            if time.monotonic() > until:
                raise UnendedError(
                    f"{place}: {name} has not ended in {self.limit_s:g} s under seed {disturbance.seed}: a "
                    "wait that nothing ends, or --limit-s is too short; this process ends now, and what it "
                    "runs with it"
                )
            time.sleep(POLL_S)
        self.cupy.cuda.Device().synchronize()

    def _checked(self) -> str:
        said = told(self.program.place, self.program.check)
        return "check() says that the result is wrong" if said is False else ""


def fewest(items: list[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """The items without those that are not needed to fail: halves, quarters, ... are left out by turns."""
    size = max(1, len(items) // 2)
    while True:
        begin = 0
        while begin < len(items):
            rest = items[:begin] + items[begin + size :]
            if rest and fails(rest):
                items = rest
            else:
                begin += size
        if size == 1:
            return items
        size = max(1, min(size, len(items)) // 2)


def difference(output: Any, expected: Any, tolerance: float) -> str:
    """The first element that differs, and how many do; "" where all agree, NaN with NaN."""
    if output.dtype.kind in "fc":
        largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        is_same = np.isclose(output, expected, rtol=0, atol=tolerance * largest, equal_nan=True)
    else:
        is_same = output == expected
    if is_same.all():
        return ""
    first = tuple(int(index) for index in np.argwhere(~is_same)[0])
    where = ", ".join(map(str, first))
    count = int((~is_same).sum())
    is_now, was = shown(output[first].item()), shown(expected[first].item())
    return f"[{where}] is {is_now}, not {was}; {count:,} of {output.size:,} differ"
