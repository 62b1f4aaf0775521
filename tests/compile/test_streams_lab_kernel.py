"""The streams lab's kernel compiles with no GPU, for old and new targets."""

import pytest

from wavesim_gpu.bench.labs.streams.program_run import SOURCE
from wavesim_gpu.driver.compiler import Build, compile_cubin

pytestmark = pytest.mark.usefixtures("nvrtc")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_the_kernel_that_holds_its_sm_compiles_for(arch):
    assert b"hold" in compile_cubin(SOURCE, (), arch, Build()).data
