"""CUTLASS's GEMM with the row semaphores' adaptors compiles, and waits and posts in the right places.

Skipped without nvcc or CUTLASS's headers: pip's nvidia-cutlass, or the folder that CUTLASS_INCLUDE names.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of the example all but the functions that launch it; then the one kernel that both waits and posts.
KERNEL = """
const void* second() {
    return reinterpret_cast<const void*>(&cutlass::device_kernel<typename Second::GemmKernel>);
}
"""


def cutlass_include():
    """CUTLASS's include folder, or a skip that says why."""
    named = os.environ.get("CUTLASS_INCLUDE")
    if named:
        return Path(named)
    found = importlib.util.find_spec("cutlass_library")
    if found is None or not found.submodule_search_locations:
        pytest.skip("CUTLASS's headers are not installed: pip install nvidia-cutlass, or set CUTLASS_INCLUDE")
    return Path(next(iter(found.submodule_search_locations))) / "source" / "include"


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """The kernel of the second GEMM in PTX."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    folder = tmp_path_factory.mktemp("cutlass")
    text = (ROOT / "gpu" / "examples" / "cutlass_pair.cu").read_text()
    kernels, _, _ = text.partition("// c (m, n) = a (m, k) b (k, n).")
    source = folder / "second.cu"
    source.write_text(f"{kernels}}}  // namespace\n{KERNEL}")
    includes = [word for path in (cutlass_include(), ROOT, ROOT / "gpu") for word in ("-I", str(path))]
    flags = ["-std=c++17", "-arch=sm_90a", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-ptx"]
    done = subprocess.run(
        ["nvcc", *flags, *includes, str(source), "-o", str(folder / "second.ptx")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return (folder / "second.ptx").read_text()


def test_loads_of_a_tile_come_after_the_acquire_and_the_proxy_fence(ptx):
    loads = [found.start() for found in re.finditer(r"cp\.async\.bulk\.tensor\S*\.global", ptx)]
    acquire, fence = ptx.index("fence.acq_rel.gpu"), ptx.index("fence.proxy.async.global")
    assert acquire < fence < min(loads)


def test_a_post_comes_after_the_stores_are_made_and_not_only_read(ptx):
    post = ptx.index("red.release.gpu.global.add")
    stores = [found.start() for found in re.finditer(r"cp\.async\.bulk\.tensor\S*\.global\.shared", ptx)]
    made = ptx.index("cp.async.bulk.wait_group 0")
    assert max(stores) < made < post


def test_the_second_kernel_may_start_early_and_never_waits_for_the_whole_first(ptx):
    assert "griddepcontrol.launch_dependents" in ptx
    assert "griddepcontrol.wait" not in ptx
