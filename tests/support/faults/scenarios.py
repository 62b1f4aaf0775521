"""What is done to `mlp`: co-tenants, other processes, threads, replays, limits that are too short.

Example: `SCENARIOS["injected"](100_000)` makes so many calls, blocks the GPU at random moments for longer
than the calls' time limit, and returns how many results were of which kind; `faults` among them must be 0.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np

from faults import ENVIRONMENT
from faults.cotenant import Cotenant
from faults.green_context import green_stream
from faults.judged_calls import FAULTS, HAS_NAN, IS_WRONG, Judge
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.layers.calls import process_log
from wavesim_gpu.layers.mlp import mlp

LIMIT_S, HOLD_S = 0.004, 0.012  # a co-tenant that holds SMs for longer than a call may wait
SLICED_S = (3e-4, 1e-3)  # limits below the time for which another process may have the GPU
BURST = 40  # calls queued together, in about the time for which the stream is held back
LONG_S = 3.0  # long for a GPU, and far below the limit by default
SHORT_S = (1e-6, 3e-6, 1e-5, 3e-5)  # limits within the duration of a call
# Shares of the calls that each is done to. On one stream what waits is issued after all blocks of what it
# waits for, so a co-tenant in this process delays calls and makes none fail; limits too short do.
PRODUCERS, EVERYTHING, SHORT = 0.005, 0.001, 0.01


class Injector:
    """Draws what is done to the next call; the same numbers for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random, self._cotenant = Random(seed), Cotenant()  # draws, no secrets
        self.done: Counter[str] = Counter()

    def limit_s(self) -> float:
        """Perhaps blocks the GPU; returns the call's time limit."""
        draw = self._random.random()
        if draw < PRODUCERS:
            self.done["producers blocked"] += 1
            self._cotenant.block_producers(HOLD_S)
        elif draw < PRODUCERS + EVERYTHING:
            self.done["everything blocked"] += 1
            self._cotenant.block_all(HOLD_S)
        elif draw < PRODUCERS + EVERYTHING + SHORT:
            self.done["limit too short"] += 1
            return self._random.choice(SHORT_S)
        return LIMIT_S


def injected(count: int) -> dict[str, Any]:
    """Calls on one stream; some are blocked for longer than they may wait, some may wait for microseconds."""
    judge, injector = Judge(count), Injector(0)
    for index in range(count):
        judge.call(index, limit_s=injector.limit_s())
    return {**_with_failures(judge.counts()), "injected": dict(injector.done)}


def threads(count: int) -> dict[str, Any]:
    """The same from four threads: two on streams of their own, two on one stream."""
    cupy = require_cupy()
    judge, streams = Judge(count), [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    done: Counter[str] = Counter()

    def work(thread: int) -> None:
        injector = Injector(thread)
        with streams[min(thread, 2)]:
            for index in range(thread, count, 4):
                judge.call(index, limit_s=injector.limit_s())
        done.update(injector.done)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    return {**_with_failures(judge.counts()), "injected": dict(done)}


def replays(count: int) -> dict[str, Any]:
    """Graphs captured from `mlp`, replayed at the same time; a replay that fails counts for its graph.

    The third one's limit is too short; it is replayed now and then.
    """
    cupy = require_cupy()
    judge, injector = Judge(count), Injector(0)
    limits = (LIMIT_S, LIMIT_S, SHORT_S[0])
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in limits]
    captured = [_captured(judge, *entry) for entry in zip(streams, range(3), limits, strict=True)]
    replayed = np.zeros(count, int)
    for index in range(count):
        replayed[index] = which = index % 2 if injector.limit_s() == LIMIT_S else 2
        with streams[which]:
            captured[which][0].launch(streams[which])
            judge.judge(index, captured[which][1], which)
    verdicts = judge.verdicts()
    graphs = []
    for which, (_, _, number) in enumerate(captured):
        own = verdicts[replayed == which]
        nan, wrong = (int(((own & bit) > 0).sum()) for bit in (HAS_NAN, IS_WRONG))
        graphs.append(
            {
                "nan": nan,
                "reported": judge.reported.get(number, 0),
                "wrong_silent": wrong,
                "replays": own.size,
            }
        )
    faults = sum(abs(entry["nan"] - entry["reported"]) + entry["wrong_silent"] for entry in graphs)
    faults += int(not judge.reported)  # replays of which none failed show nothing
    faults += int((verdicts == 0).sum()) + len(judge.reported.keys() - {number for *_, number in captured})
    return {"graphs": graphs, "faults": faults, "injected": dict(injector.done)}


def _captured(judge: Judge, stream: Any, which: int, limit_s: float) -> tuple[Any, Any, int]:
    with stream:
        stream.begin_capture()
        result = mlp(judge.inputs[which], judge.w1, judge.w2, limit_s=limit_s)
        return stream.end_capture(), result, process_log().latest


def plain(count: int) -> dict[str, Any]:
    """Calls to which nothing is done, with the default time limit."""
    return _timed(Judge(count), count, lambda: None)


def same_process(count: int) -> dict[str, Any]:
    """A co-tenant in this process holds SMs for seconds; calls with the default time limit are all right."""
    held, sm_count = Cotenant(), query().sm_count
    ways: dict[str, Callable[[], None]] = {
        f"{blocks} of {sm_count} SMs": lambda blocks=blocks: held.block_all(LONG_S, blocks)  # type: ignore[misc]
        for blocks in (sm_count // 4, sm_count - 1, sm_count)
    }
    ways["producers"] = lambda: held.block_producers(LONG_S)
    outcome = {name: _timed(Judge(count), count, hold) for name, hold in ways.items()}
    return {"held": outcome, "faults": sum(entry["faults"] for entry in outcome.values())}


def other_process(count: int) -> dict[str, Any]:
    """A co-tenant in another process holds all SMs, half a second at a time; calls may wait 30 s."""
    judge = Judge(count)
    with _co_tenant_process(0.5) as process:
        outcome = _timed(judge, count, lambda: None)
        return {**outcome, "held_to_the_end": process.poll() is None}


def time_sliced(count: int) -> dict[str, Any]:
    """A co-tenant in another process, and limits below its share of time: calls fail in the middle of a wait.

    The GPU takes one process off its SMs for another, and the clock that waits look at goes on.
    """
    judge, own, draws = Judge(count), Cotenant(), Random(0)  # draws, no secrets
    with _co_tenant_process(0.005) as process:
        for index in range(count):
            if index % BURST == 0:
                own.hold_back(HOLD_S)  # else launching takes longer than what is waited for
            judge.call(index, limit_s=draws.choice(SLICED_S))
        outcome = _with_faults(judge.counts())
        return {**outcome, "held_to_the_end": process.poll() is None}


@contextmanager
def _co_tenant_process(hold_s: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds all SMs, again and again, from the beginning of the block to its end."""
    module = "faults.cotenant"
    command = [sys.executable, "-m", module, "--seconds", "25", "--hold-s", str(hold_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it holds them now
            yield process
        finally:
            process.kill()


def green(count: int) -> dict[str, Any]:
    """Calls on a stream of a green context of few SMs."""
    stream, sm_count = green_stream(16)
    judge = Judge(count)
    with stream:
        return {**_timed(judge, count, lambda: None), "sm_count": sm_count}


def forgotten(_count: int) -> dict[str, Any]:
    """A call that fails, of which nobody asks: the process warns of it when it ends."""
    judge = Judge(1)
    Cotenant().hold_back(HOLD_S)
    judge.call(0, limit_s=SHORT_S[0])
    require_cupy().cuda.Device().synchronize()
    return {"faults": 0}


def _timed(judge: Judge, count: int, before: Callable[[], None]) -> dict[str, Any]:
    began = time.monotonic()
    before()
    for index in range(count):
        judge.call(index)
    queued_s = time.monotonic() - began
    outcome = judge.counts()
    ended_s = time.monotonic() - began
    # With 30 s to wait nothing is to fail: what was reported is a fault here.
    faults = sum(outcome[kind] for kind in FAULTS) + outcome["nan_reported"]
    return {**outcome, "faults": faults, "queued_s": round(queued_s, 3), "ended_s": round(ended_s, 3)}


def _with_failures(outcome: dict[str, int]) -> dict[str, Any]:
    """As below, where a run in which nothing failed would show nothing and is a fault itself."""
    counted = _with_faults(outcome)
    return {**counted, "faults": counted["faults"] + int(outcome["nan_reported"] == 0)}


def _with_faults(outcome: dict[str, int]) -> dict[str, Any]:
    return {**outcome, "faults": sum(outcome[kind] for kind in FAULTS)}


SCENARIOS: dict[str, Callable[[int], dict[str, Any]]] = {
    "injected": injected,
    "threads": threads,
    "replays": replays,
    "plain": plain,
    "same_process": same_process,
    "other_process": other_process,
    "time_sliced": time_sliced,
    "green": green,
    "forgotten": forgotten,
}
