"""Calls of `mlp` whose results are judged on the device and held against what was reported of them.

Example: a `Judge` prepares small MLPs under plans that wait; `judge.call(i)` calls one of them and has a
kernel compare the result, bit by bit, with what the same plan gave on an idle GPU. No call waits for the GPU.
At the end `judge.counts()` says how many results were right, and how many wrong or NaN, reported or silent.
"""

import threading
from typing import Any

import numpy as np

from faults.cotenant import SOURCE
from wavesim.errors import DescriptionError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.element_types import TOLERANCE
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.layers import prepared
from wavesim_gpu.layers.calls import FailedCallsError, check, process_log
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.description import MlpShape
from wavesim_gpu.layers.mlp import mlp, way_of

# k, n1, n2: the first product takes longer than a launch, so that the second waits.
SIZES = (8192, 512, 256)
# By rows of x: plans that share a stream's state, one after the other.
CANDIDATES = {
    512: "hopper pdl+row row 64x128 64x128",
    448: "hopper persistent:row row 64x128 64x128",
    384: "hopper persistent+pdl+tile grouped:2 64x128 64x128",
    320: "hopper pdl+row row 64x128 64x128/2",
}
INPUTS = 8  # in turns, two of each plan: a result left in memory by the call before is a wrong one
IS_WRONG, HAS_NAN, IS_JUDGED = 1, 2, 4  # faults.cu
JUDGE = KernelLaunch("judge", threads=256, dynamic_shared_bytes=0, blocks=16)


class Judge:
    """Room for the verdicts of `count` results; inputs, weights and wanted results. Threads may share it."""

    def __init__(self, count: int, seed: int = 0) -> None:
        cupy = require_cupy()
        generator = cupy.random.RandomState(seed)
        k, n1, n2 = SIZES
        rows = [m for _ in range(INPUTS // len(CANDIDATES)) for m in CANDIDATES]
        shapes = [*(((m, k), 1.0) for m in rows), ((k, n1), k**-0.5), ((n1, n2), n1**-0.5)]
        made = [(generator.standard_normal(s, dtype="float32") * f).astype("float16") for s, f in shapes]
        self.inputs, self.w1, self.w2 = made[:INPUTS], made[-2], made[-1]
        self._function = load_function(SOURCE, "judge", Build())
        for x in self.inputs:
            force(x, self.w1, self.w2)
        self.wanted = [mlp(x, self.w1, self.w2) for x in self.inputs]
        check()
        for x, wanted in zip(self.inputs, self.wanted, strict=True):
            _require_close(cupy, x, self.w1, self.w2, wanted)
        self._verdicts = cupy.zeros(count, np.uint32)
        self.numbers = np.zeros(count, np.int64)  # of the calls that gave the results
        self.reported: dict[int, int] = {}  # failures by the call's number
        self._lock = threading.Lock()
        cupy.cuda.Device().synchronize()

    def call(self, index: int, **options: Any) -> None:
        """Makes the call again where it was told of earlier failures instead; judges the result."""
        x = self.inputs[index % INPUTS]
        while True:
            try:
                result = mlp(x, self.w1, self.w2, **options)
                break
            except FailedCallsError as error:
                self.note(error)
        self.numbers[index] = process_log().latest
        self.judge(index, result, index % INPUTS)

    def judge(self, index: int, result: Any, which: int) -> None:
        """Compares a result with what input `which` gives, on the current stream."""
        address = self._verdicts.data.ptr + 4 * index
        values = (result.data.ptr, self.wanted[which].data.ptr, result.size, address)
        arguments = tuple(np.uint64(value) for value in values)
        stream = require_cupy().cuda.get_current_stream()
        DeviceLaunch(self._function, JUDGE, arguments, 0).enqueue([stream])

    def note(self, error: FailedCallsError) -> None:
        """Keeps what was reported."""
        with self._lock:
            for failure in error.failures:
                number = failure.call.number
                self.reported[number] = self.reported.get(number, 0) + failure.replays

    def verdicts(self) -> Any:
        """All verdicts, after all calls; what is reported by now is noted."""
        try:
            check()
        except FailedCallsError as error:
            self.note(error)
        return self._verdicts.get()

    def counts(self) -> dict[str, int]:
        """How many results there are of each kind; those that are to be 0 are named in `FAULTS`."""
        verdicts = self.verdicts()
        was_reported = np.isin(self.numbers, list(self.reported))
        is_wrong, has_nan = (verdicts & IS_WRONG) > 0, (verdicts & HAS_NAN) > 0
        kinds = {
            "right": ~is_wrong & ~has_nan & ~was_reported & (verdicts > 0),
            "nan_reported": has_nan & ~is_wrong & was_reported,
            "nan_silent": has_nan & ~was_reported,
            "wrong_silent": is_wrong & ~was_reported,
            "wrong_reported": is_wrong & was_reported,
            "right_reported": ~is_wrong & ~has_nan & was_reported,
            "not_judged": verdicts == 0,
        }
        outcome = {kind: int(which.sum()) for kind, which in kinds.items()}
        own = set(self.numbers.tolist())
        outcome["reported_twice"] = sum(count > 1 for count in self.reported.values())
        outcome["reported_of_no_call"] = len(set(self.reported) - own)
        return outcome


FAULTS = (
    "nan_silent",
    "wrong_silent",
    "wrong_reported",
    "right_reported",
    "not_judged",
    "reported_twice",
    "reported_of_no_call",
)


def force(x: Any, w1: Any, w2: Any) -> None:
    """Has `mlp` run the plan for that many rows, whatever it would choose. Raises `DescriptionError`."""
    m, _ = x.shape
    candidate = MlpCandidate.read(CANDIDATES[m])
    prepared.force(MlpShape(m, *SIZES, "fp16"), candidate)
    outcome = way_of(x, w1, w2)
    if outcome.candidate != candidate:
        raise DescriptionError(
            f"mlp takes {outcome.label} for {m} rows and not {candidate}: {outcome.reason}"
        )


def _require_close(cupy: Any, x: Any, w1: Any, w2: Any, result: Any) -> None:
    middle = cupy.matmul(x.astype("float32"), w1.astype("float32")).astype("float16")
    wanted = cupy.matmul(middle.astype("float32"), w2.astype("float32"))
    error = float(cupy.linalg.norm(result.astype("float32") - wanted) / cupy.linalg.norm(wanted))
    if not error <= TOLERANCE["fp16"]:
        raise ArithmeticError(
            f"the wanted result is {error:g} off a float32 reference; at most {TOLERANCE['fp16']:g}"
        )
