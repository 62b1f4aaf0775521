"""Runs a target on many inputs in a process of its own, with limits, and judges what becomes of each.

Example: the target "sqlite" is `wavesim advise FILE`. Seed 17 makes a database with a view that counts for
ever; a worker imports it under 1.5 GB of address space and 20 s of CPU time. A refusal in one line is right,
and so is a report whose numbers have sense. A traceback, a killed worker or a control character is wrong: the
input is saved, made smaller if it can be, and printed with the command that repeats it.

Only the standard library is needed here. Inputs depend on nothing but the target's name and the seed.
"""

import contextlib
import importlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wavesim.errors import WavesimError

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MAX_BYTES = 1_500 << 20
MAX_CPU_SECONDS = 20
MAX_WALL_SECONDS = 180  # of one input; a target that blocks uses no CPU time
LONGEST_MESSAGE = 1_000
TARGETS = (
    "profiles",
    "sqlite",
    "toml",
    "devices",
    "results",
    "traces",
    "commands",
    "names",
    "widgets",
    "lint",
    "hang",
    "archives",
    "sources",
    "dask",
)
QUICK_SECONDS = 1  # an input that goes wrong this fast is made smaller
GOOD = ("accepted", "refused")
WORK = "import harness, sys; harness.start(sys.argv[1:])"
AGAIN = "python tests/fuzz/run.py"


@dataclass(frozen=True)
class Target:
    """What is fuzzed. `made` turns a source of chance and an input of the corpus into another input.

    `call` takes the path of one and returns whether it was accepted, or raises `WavesimError`. It raises
    `NonsenseError` where what was said has no sense.
    """

    made: Callable[[random.Random, bytes], bytes]
    call: Callable[[Path], bool]
    needs: Sequence[str] = ()  # modules beside numpy, ijson and simpy

    @property
    def missing(self) -> list[str]:
        """Needed modules that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


class NonsenseError(Exception):
    """What a target said or did that it must not."""


@dataclass
class Tally:
    """What became of a target's inputs."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    most_mb: int = 0
    most_seconds: float = 0.0

    @property
    def inputs(self) -> int:
        """How many there were."""
        return self.counts.total()


def target_of(name: str) -> Target:
    """The target of that name, from the file `fuzz_NAME.py`."""
    target: Target = importlib.import_module(f"fuzz_{name}").TARGET
    return target


def corpus_of(name: str) -> list[Path]:
    """The committed inputs of a target: those that it reads, then in `refused` those that it does not."""
    folder = CORPUS / name
    return [path for place in (folder, folder / "refused") for path in sorted(place.glob("*.*"))]


def input_of(name: str, seed: int) -> bytes:
    """The input that a seed makes; the first seeds are the corpus as it is."""
    corpus = corpus_of(name)
    if seed < len(corpus):
        return corpus[seed].read_bytes()
    chance = random.Random(f"{name} {seed}")
    read = [path for path in corpus if path.parent.name == name]
    return target_of(name).made(
        chance, chance.choice(read if read and chance.random() < 0.9 else corpus).read_bytes()
    )


def outcome(target: Target, path: Path) -> str:
    """ "accepted", "refused", or what went wrong."""
    try:
        is_accepted = target.call(path)
    except WavesimError as error:
        message = str(error)
        is_line = message.isprintable() and 0 < len(message) <= LONGEST_MESSAGE
        return "refused" if is_line else f"not one clear line: {message[:300]!r}"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        places = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        return f"{type(error).__name__}: {str(error)[:300]!r} at {places}"
    return "accepted" if is_accepted else "refused"


def work(name: str, folder: Path) -> None:
    """A worker: reads a seed a line, or "input" for what is in its folder, and answers in a line of JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    said, sys.stdout = sys.stdout, sys.stderr
    target, path = target_of(name), folder / "input"
    for word in sys.stdin:
        if word.strip() != "input":
            path.write_bytes(input_of(name, int(word)))
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts from here
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)  # ends the process, wherever it is
        result = outcome(target, path)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - start
        said.write(json.dumps({"result": result, "seconds": seconds, "mb": _peak_mb()}) + "\n")
        said.flush()


def _peak_mb() -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


class Worker:
    """A worker process, started again where an input ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self.input = Path(self._folder.name) / "input"
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        # The worker's folder is another: a relative place in PYTHONPATH would lead nowhere.
        own = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        paths = [str(HERE), *(str(Path(place).resolve()) for place in own), str(HERE.parents[1])]
        alone = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        return subprocess.Popen(
            [sys.executable, "-c", WORK, self.name, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **alone, "PYTHONPATH": os.pathsep.join(paths)},
            cwd=self._folder.name,
        )

    def judged(self, what: int | bytes) -> tuple[str, float, int]:
        """What became of a seed's input or of these bytes, seconds of CPU time, peak memory in MB."""
        if isinstance(what, bytes):
            self.input.write_bytes(what)
        line = self._answer(f"{'input' if isinstance(what, bytes) else what}\n".encode())
        if line:
            report = json.loads(line)
            return report["result"], report["seconds"], report["mb"]
        status = self._end()
        self._process = self._started()
        slow = f"over {MAX_CPU_SECONDS} s of CPU time"
        why = {-signal.SIGPROF: slow, -signal.SIGKILL: f"killed, or blocked for {MAX_WALL_SECONDS} s"}
        return why.get(status, f"the process ended with {status}"), 0.0, 0

    def _answer(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(MAX_WALL_SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            timer.cancel()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._end()
        self._folder.cleanup()

    def _end(self) -> int:
        """Waits for the process and closes its pipes. Returns its status."""
        with contextlib.suppress(BrokenPipeError), self._process:
            pass
        return self._process.returncode


def fuzz(name: str, seconds: float, out: Path, first: int = 0, step: int = 1) -> Tally:
    """Every `step`th seed for so long, or once all of the corpus where that takes longer.

    What the corpus holds is wrong as well where its folder says otherwise.
    """
    tally, worker, seed, corpus = Tally(), Worker(name), first, corpus_of(name)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline or seed < len(corpus):
            result, used, peak = worker.judged(seed)
            tally.counts[result if result in GOOD else "wrong"] += 1
            tally.most_mb, tally.most_seconds = max(tally.most_mb, peak), max(tally.most_seconds, used)
            if result in GOOD and seed < len(corpus):
                expected = "refused" if corpus[seed].parent.name == "refused" else "accepted"
                if result != expected:
                    tally.wrong.append(f"{name}, {corpus[seed].name}: {result}, and not {expected}")
            if result not in GOOD:
                saved = out / f"{name}-{seed}"
                if not worker.input.exists():
                    raise SystemExit(f"{name}: the worker does not start ({result}); try `import wavesim`")
                data = worker.input.read_bytes()
                saved.write_bytes(smaller(worker, data, result) if 0 < used < QUICK_SECONDS else data)
                tally.wrong.append(f"{name}, seed {seed}: {result}\n  again: {AGAIN} {name} --file {saved}")
            seed += step
    finally:
        worker.close()
    return tally


def smaller(worker: Worker, data: bytes, result: str, tries: int = 60) -> bytes:
    """A shorter input that goes wrong in the same way, found by leaving out ever shorter pieces."""
    kind = result.split(":", maxsplit=1)[0]
    piece = len(data) // 2
    while piece and tries:
        place = 0
        while place < len(data) and tries:
            tries -= 1
            shorter = data[:place] + data[place + piece :]
            if worker.judged(shorter)[0].startswith(kind):
                data = shorter
            else:
                place += piece
        piece //= 2
    return data


def start(words: Sequence[str]) -> None:
    """The worker's command: target and folder."""
    work(words[0], Path(words[1]))
