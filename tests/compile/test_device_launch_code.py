"""Kernels that launch kernels compile with no GPU; where there is nvcc, they link with the device runtime."""

import pytest

from wavesim.errors import CompileError
from wavesim_gpu.bench.labs.device_launch import SOURCE
from wavesim_gpu.driver.compiler import compile_text
from wavesim_gpu.driver.user_sources import find_nvcc, linked_cubin

KERNELS = ("launch_calls", "launch_from_many", "fill_pool", "nest", "uneven_parent")


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120"])
def test_they_launch_by_the_second_device_runtime(arch, nvrtc):
    options = (f"--gpu-architecture={arch}", "--std=c++17", "-rdc=true")
    ptx = compile_text(SOURCE, SOURCE.read_text(), (), options).ptx
    assert all(f".entry {name}(" in ptx for name in KERNELS)
    assert "__cudaCDP2LaunchDeviceV2" in ptx
    assert "cudaDeviceSynchronize" not in ptx


def test_they_link_with_the_device_runtime():
    try:
        find_nvcc()
    except CompileError as missing:
        pytest.skip(str(missing))
    cubin = linked_cubin(SOURCE, "sm_90a")
    assert cubin.startswith(b"\x7fELF")
    assert all(name.encode() in cubin for name in KERNELS)
