"""The ladders' host side on NumPy: what is right passes, what is wrong by a little is not timed."""

from types import SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import WavesimError
from wavesim_gpu.bench.labs import ladder
from wavesim_gpu.run.timing import Contender

SIZES = {"reduction": 5000, "convolution": 700, "matmul": 70}


def add(data, out, size):
    out[:] = [part.sum(dtype=np.float32) for part in np.array_split(data, len(out))]


def convolve(data, out, size, weights):
    taps = weights if isinstance(weights, np.ndarray) else np.frombuffer(weights.tobytes(), np.float32)
    out[:] = np.convolve(data, taps[::-1], "same")


def multiply(a, b, out, rows):
    out[:] = a @ b


KERNELS = {"reduce": add, "convolution": convolve, "matmul": multiply}


class HostLauncher(ladder.Launcher):
    """Runs NumPy in place of the kernels; `wrong` is added to the first element of the named one."""

    def __init__(self, wrong="", by=0.0):
        names = ("random", "empty", "empty_like", "float32", "pad", "linalg")
        self.cupy = SimpleNamespace(asnumpy=np.asarray, **{name: getattr(np, name) for name in names})
        self.sms, self.wrong, self.by = 2, wrong, by
        self.launched = []

    def contender(self, step, size, arguments):
        def launch():
            self.launched.append(step.kernel)
            KERNELS[step.family](*arguments)
            if step.kernel == self.wrong:
                arguments[2 if step.family == "matmul" else 1].flat[0] += self.by

        return Contender(launch, None)

    def result(self, contender, out):
        out.fill(np.nan)
        contender.launch()
        return out.astype(np.float64)


@pytest.mark.parametrize("family", SIZES)
def test_every_step_is_compared_with_double_precision(family):
    launcher = HostLauncher()
    errors = [one.error() for one in ladder.FAMILIES[family](launcher, SIZES[family])]
    assert max(errors) < ladder.TOLERANCE
    assert len(launcher.launched) == len(errors) >= 3


@pytest.mark.parametrize(
    ("family", "kernel", "by"),
    [
        ("reduction", "reduce_v3", 0.5),
        ("convolution", "convolve_tiled", 0.1),
        ("matmul", "matmul_register", 1.0),
        ("reduction", "reduce_v0", float("nan")),
    ],
)
def test_one_that_is_wrong_is_named_and_nothing_is_timed(family, kernel, by, monkeypatch):
    monkeypatch.setattr(ladder, "interleaved_ns", lambda *words: pytest.fail("timed"))
    prepared = list(ladder.FAMILIES[family](HostLauncher(kernel, by), SIZES[family]))
    with pytest.raises(WavesimError, match=f"{kernel}: relative error .*; not timed"):
        ladder.measure(prepared)


def test_work_is_bytes_read_and_written_or_flops():
    works = {
        name: next(iter(prepare(HostLauncher(), SIZES[name]))).work
        for name, prepare in ladder.FAMILIES.items()
    }
    assert works == {"reduction": 20_000, "convolution": 5_600, "matmul": 2 * 70**3}
