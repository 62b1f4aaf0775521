"""What the GPU tests share: a runner, and a clean skip where there is no GPU."""

import pytest

from wavesim.errors import DeviceError


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
