"""What the GPU tests share: a runner, and a clean skip where there is no GPU or no compiler."""

import pytest

from wavesim.errors import CompileError, DeviceError


@pytest.fixture(scope="session")
def runner():
    from wavesim_gpu.runner import CupyRunner

    try:
        return CupyRunner(limit_s=5.0, commit="test")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cupy(runner):
    import cupy

    return cupy


@pytest.fixture
def nvrtc():
    """Skips where CUDA's compiler is not installed; it needs no GPU."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    from wavesim_gpu.runtime import compiler

    try:
        compiler._nvrtc()
    except CompileError as error:
        pytest.skip(str(error))
