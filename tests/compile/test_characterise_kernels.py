"""The microbenchmarks compile for every target with no GPU, and each kernel that Python launches is there."""

import re

import pytest

from wavesim_gpu.characterise.bench import FOLDER
from wavesim_gpu.driver.compiler import Build, compile_cubin

SOURCES = sorted(FOLDER.glob("*.cu"))
KERNEL = re.compile(r'extern "C" __global__ void (\w+)')

pytestmark = pytest.mark.usefixtures("nvrtc")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_file_of_microbenchmarks_compiles_for(source, arch):
    cubin = compile_cubin(source, (), arch, Build())
    for name in KERNEL.findall(source.read_text()):
        assert name.encode() in cubin.data


def test_every_kernel_is_launched_by_name_from_python():
    texts = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    kernels = [name for path in SOURCES for name in KERNEL.findall(path.read_text())]
    assert [name for name in kernels if f'"{name}"' not in texts] == []
