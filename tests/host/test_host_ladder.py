"""The ladders' kernels under ThreadSanitizer, a thread of the host per lane: right, without a race, and every
barrier is needed."""

import shutil
import subprocess

import pytest
from host_sources import FLAGS, GPU, HOST

from wavesim_gpu.kernels.ladder.steps import CONVOLUTION, MATMUL, REDUCTION

MOST_ERROR = 1e-6
FAMILIES = {"reduce": REDUCTION, "convolve": CONVOLUTION, "multiply": MATMUL}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++ with libtsan")
    built = tmp_path_factory.mktemp("ladder") / "ladder"
    folders = [f"-I{HOST}", f"-I{GPU / 'kernels' / 'ladder'}"]
    subprocess.run(["g++", *FLAGS, *folders, HOST / "ladder.cpp", "-o", built], check=True, timeout=120)
    return built


def run(program, *words):
    """Relative errors by kernel, and what ThreadSanitizer reports."""
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: float(error) for name, _, error in lines}, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_step_is_right_and_has_no_race(program, family):
    errors, reported = run(program, "nothing", family)
    assert set(errors) == {step.kernel for step in FAMILIES[family]}
    assert max(errors.values()) < MOST_ERROR
    assert "ThreadSanitizer" not in reported


@pytest.mark.slow
@pytest.mark.parametrize(("dropped", "family"), [("syncwarp", "reduce"), ("syncthreads", "convolve")])
def test_a_barrier_that_is_dropped_is_a_race(program, dropped, family):
    _, reported = run(program, dropped, family)
    assert "ThreadSanitizer: data race" in reported
