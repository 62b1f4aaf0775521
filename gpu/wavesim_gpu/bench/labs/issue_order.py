"""What safe verdicts take for granted of a device: no younger launch passes an older one without room.

Example: blocks of 140 KB hold every SM of an H200 and an older launch needs 140 KB more; a younger one of
1 KB, which begins at once where the older one is not there, begins only after it. The same for want of
threads, of a carve-out and of a pair of SMs for a cluster; with a stream of higher priority; and, where the
machine has MPS, from another process.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import WavesimError
from wavesim_gpu.bench.measuring_process import MeasuringProcess
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended

SOURCE = Path(__file__).with_name("issue_order.cu")
LIMIT_NS = 3_000_000_000  # after which a block that holds an SM leaves, and the trial is void
LARGE, HALF, LITTLE = 140 << 10, 100 << 10, 1 << 10  # bytes; an SM has 227 KB: one, two and many of them
SETTLE_S, LOOK_S, TRIALS = 0.002, 0.02, 20
MPS = "nvidia-cuda-mps-control"
ANSWER_S = 60.0


@dataclass(frozen=True)
class Contest:
    """Who holds the SMs, which SMs are let go (None: of all), and the two launches that come then."""

    hold: KernelLaunch
    older: KernelLaunch
    younger: KernelLaunch
    free: tuple[int, ...] = ()
    has_priority: bool = False


@dataclass(frozen=True)
class Outcome:
    """Whether all blocks of the older and of the younger launch began while the SMs were held."""

    older: bool
    younger: bool


def _begin(threads: int, shared: int, blocks: int = 1, cluster: int = 1) -> KernelLaunch:
    return KernelLaunch("begin", threads, shared, blocks, cluster=cluster)


def contests(sms: int) -> dict[str, Contest]:
    """What an older launch can lack, by name."""
    full = KernelLaunch("hold", 128, LARGE, sms)
    halves = KernelLaunch("hold", 640, HALF, 2 * sms)  # two to an SM, 768 threads left
    thirds = KernelLaunch("hold", 512, 64 << 10, 3 * sms)  # three to an SM, 512 threads left
    small = KernelLaunch("hold_default", 1024, 24 << 10, sms)
    large, little, many = _begin(128, LARGE), _begin(128, LITTLE), _begin(1024, LITTLE)
    pair, four, eight = (_begin(128, LARGE, count, count) for count in (2, 4, 8))
    grid = replace(little, blocks=sms)
    return {
        "shared memory": Contest(full, large, little),
        "shared memory, a grid of them": Contest(full, replace(large, blocks=sms), grid),
        "shared memory, beside two": Contest(halves, _begin(128, HALF), little),
        "threads": Contest(halves, many, little),
        "threads, a grid of them": Contest(halves, replace(many, blocks=sms), grid),
        "threads, beside three": Contest(thirds, _begin(640, LITTLE), little),
        "carve-out": Contest(small, large, little),
        "a cluster's second SM": Contest(full, pair, little, (0,)),
        "a cluster's second SM, and the first is wanted": Contest(full, pair, large, (0,)),
        "a cluster's fourth SM": Contest(full, four, little, (0, 1)),
        "a cluster's eighth SM": Contest(full, eight, little, (0, 1, 2, 3)),
        "a cluster's eighth SM, and the first is wanted": Contest(full, eight, large, (0, 1, 2, 3)),
        "all of a cluster's eight SMs": Contest(full, eight, little),
        "shared memory, before a cluster": Contest(full, large, _begin(128, LITTLE, 2, 2)),
        "shared memory, before a higher priority": Contest(full, large, little, has_priority=True),
    }


class Scene:
    """One contest at a time on the current GPU."""

    def __init__(self) -> None:
        cupy = require_cupy()
        self._words = cupy.zeros(1024, dtype=np.uint32)
        names = ("begun", "gave_up", "older", "younger")
        self._counts = {name: self._words[960 + i : 961 + i] for i, name in enumerate(names)}
        self._copy, *self._streams = (cupy.cuda.Stream(non_blocking=True) for _ in range(4))
        self._urgent = cupy.cuda.Stream(non_blocking=True, priority=-1)
        self._functions: dict[str, Function] = {
            name: load_function(SOURCE, name, Build(), LARGE) for name in ("hold", "hold_default", "begin")
        }
        driver = cupy.cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        driver.funcSetAttribute(self._functions["hold_default"].function.ptr, attribute, -1)

    def hold(self, contest: Contest) -> None:
        """Fills the SMs, then lets those go that are to be free."""
        self._words.fill(0)
        require_cupy().cuda.Device().synchronize()
        gates, limit = np.uint64(self._words.data.ptr), np.uint64(LIMIT_NS)
        counts = [np.uint64(self._counts[name].data.ptr) for name in ("begun", "gave_up")]
        self._launch(contest.hold, (gates, *counts, limit), self._streams[0])
        if not self._wait_for("begun", contest.hold.blocks, LIMIT_NS / 2e9):
            self.release()
            raise TimeoutError("not all blocks that are to hold the SMs begin")
        for sm in contest.free:
            self._set(sm, sm + 1)
        time.sleep(SETTLE_S)

    def begin(self, who: str, launch: KernelLaunch, *, has_priority: bool = False) -> None:
        """Queues the older or the younger launch on a stream of its own."""
        stream = self._urgent if has_priority else self._streams[1 if who == "older" else 2]
        self._launch(launch, (np.uint64(self._counts[who].data.ptr),), stream)

    def has_begun(self, who: str, blocks: int) -> bool:
        """Whether all of its blocks begin within the time that is looked."""
        return self._wait_for(who, blocks, LOOK_S)

    def release(self) -> int:
        """Lets all SMs go and waits for the end; how many blocks had given up, which voids the trial."""
        self._set(0, 960)
        require_cupy().cuda.Device().synchronize()
        return int(self._counts["gave_up"][0])

    def play(self, contest: Contest, *, has_older: bool = True) -> Outcome:
        """One trial; `has_older`: without it the younger launch must begin, or the trial shows nothing."""
        self.hold(contest)
        if has_older:
            self.begin("older", contest.older)
            time.sleep(SETTLE_S)
        self.begin("younger", contest.younger, has_priority=contest.has_priority)
        younger = self.has_begun("younger", contest.younger.blocks)
        older = has_older and self.has_begun("older", contest.older.blocks)
        if self.release():
            raise TimeoutError("blocks that hold the SMs waited for more than 3 s")
        return Outcome(older, younger)

    def pair_takes_cluster(self, sms: tuple[int, int], count: int) -> bool:
        """Whether a cluster of two begins where these two SMs alone are free."""
        contest = Contest(
            KernelLaunch("hold", 128, LARGE, count), _begin(128, LARGE, 2, 2), _begin(1, 1), sms
        )
        self.hold(contest)
        self.begin("older", contest.older)
        has_begun = self.has_begun("older", 2)
        self.release()
        return has_begun

    def _launch(self, shape: KernelLaunch, arguments: tuple[Any, ...], stream: Any) -> None:
        launch_extended(self._functions[shape.expression].function, shape, arguments, stream)

    def _set(self, first: int, end: int) -> None:
        self._words[first:end].set(np.ones(end - first, dtype=np.uint32), stream=self._copy)

    def _wait_for(self, name: str, count: int, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while (reached := int(self._counts[name].get(stream=self._copy)[0])) < count:
            if time.monotonic() > end:
                return False
        return reached == count

    def outcomes(self, trials: int = TRIALS) -> dict[str, dict[str, Any]]:
        """Per contest: of so many trials, in how many each launch began while the SMs were held."""
        result: dict[str, dict[str, Any]] = {}
        for name, contest in contests(query().sm_count).items():
            try:
                played = [self.play(contest) for _ in range(trials)]
                alone = [self.play(contest, has_older=False) for _ in range(trials)]
            except TimeoutError as error:
                result[name] = {"why_not": str(error)}
                continue
            result[name] = {
                "trials": trials,
                "younger_alone": sum(each.younger for each in alone),
                "younger_passed": sum(each.younger for each in played),
                "older_began": sum(each.older for each in played),
            }
        return result


def shut_out(scene: Scene, *, is_default: bool) -> bool:
    """Whether blocks of 24 KB, one on every SM, shut those of 140 KB out by the carve-out."""
    sms = query().sm_count
    hold = KernelLaunch("hold_default" if is_default else "hold", 1024, 24 << 10, sms)
    large = _begin(128, LARGE, sms)
    scene.hold(Contest(hold, large, large))
    scene.begin("older", large)
    is_out = not scene.has_begun("older", sms)
    scene.release()
    return is_out


def pairs_that_take_clusters(scene: Scene) -> dict[str, Any]:
    """The rule: two free SMs take a cluster of two where they are neighbours. Others that do."""
    sms = query().sm_count
    neighbours = {sm: scene.pair_takes_cluster((sm, sm + 1), sms) for sm in range(0, sms - 1, 2)}
    strangers = {sm: scene.pair_takes_cluster((0, sm), sms) for sm in range(2, sms)}
    return {
        "neighbours": len(neighbours),
        "neighbours_refused": [sm for sm, is_taken in neighbours.items() if not is_taken],
        "strangers_of_sm_0": len(strangers),
        "strangers_taken": [sm for sm, is_taken in strangers.items() if is_taken],
    }


def document(rounds: int) -> dict[str, Any]:
    """All contests in one process, the carve-outs, the pairs, and what MPS changes."""
    scene, trials = Scene(), rounds or TRIALS
    return {
        "one_process": scene.outcomes(trials),
        "shut_out": {
            "trials": trials,
            "default": sum(shut_out(scene, is_default=True) for _ in range(trials)),
            "largest": sum(shut_out(scene, is_default=False) for _ in range(trials)),
        },
        "clusters_of_two": pairs_that_take_clusters(scene),
        "time_sliced": _two_processes(trials),
        "mps": _beside_mps(trials),
    }


def _beside_mps(trials: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, _mps(folder) as problem:
        if problem:
            return {"is_available": False, "why": problem}
        two, alone = _two_processes(trials), _apart(max(1, trials // 4))
        servers = len(_control("get_server_list").split())
        return {"is_available": True, "servers": servers, "two_processes": two, "one_process": alone}


def _control(words: str) -> str:
    """What the control daemon answers."""
    return subprocess.run(  # noqa: S603  # NVIDIA's own program, no shell
        [MPS], check=False, input=f"{words}\n", capture_output=True, text=True, timeout=30
    ).stdout


@contextmanager
def _mps(folder: str) -> Iterator[str]:
    """A control daemon for processes that start meanwhile; yields why there is none, or ""."""
    if shutil.which(MPS) is None:
        yield f"{MPS} is not installed"
        return
    kept = dict(os.environ)
    os.environ.update(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
    try:
        with tempfile.TemporaryFile() as out:  # no pipe, which the daemon would keep open
            daemon = subprocess.run([MPS, "-d"], check=False, stdout=out, stderr=out, timeout=30)  # noqa: S603
            out.seek(0)
            said = out.read().decode(errors="replace")
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the daemon numbers its own devices from 0 on
        yield f"{MPS} -d ends with status {daemon.returncode}: {said}" if daemon.returncode else ""
    finally:
        _control("quit -t 5")
        os.environ.clear()
        os.environ.update(kept)


def _two_processes(trials: int) -> dict[str, Any]:
    """The older launch and who holds the SMs in one process, the younger one in another."""
    first, second = MeasuringProcess(Scene), MeasuringProcess(Scene)
    contest = contests(query().sm_count)["shared memory"]
    counts = dict.fromkeys(("younger_alone", "younger_passed"), 0)
    try:
        second.ask(ANSWER_S, "has_begun", "younger", 0)  # makes its scene before anything is held
        for number in range(2 * trials):
            first.ask(ANSWER_S, "hold", contest)
            if number % 2:
                first.ask(ANSWER_S, "begin", "older", contest.older)
            second.ask(ANSWER_S, "begin", "younger", contest.younger)
            has_begun = second.ask(ANSWER_S, "has_begun", "younger", number + 1)
            first.ask(ANSWER_S, "release")
            second.ask(ANSWER_S, "has_begun", "younger", number + 1)  # so that its count is whole
            counts["younger_passed" if number % 2 else "younger_alone"] += has_begun
    except WavesimError as error:
        return {"trials": trials, "why_not": str(error)}
    finally:
        first.close()
        second.close()
    return {"trials": trials, **counts}


def _apart(trials: int) -> dict[str, Any]:
    """The contests of one process, as a client of MPS."""
    client = MeasuringProcess(Scene)
    try:
        answer: dict[str, Any] = client.ask(ANSWER_S, "outcomes", trials)
    except WavesimError as error:
        return {"why_not": str(error)}
    finally:
        client.close()
    return answer
