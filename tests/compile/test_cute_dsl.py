"""Row semaphores in CuTe DSL compile for Hopper, without a GPU, with the acquire, the release and the fence.

Skipped without pip's nvidia-cutlass-dsl.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
# In a process of its own: the package reads its settings when it is imported.
PROGRAM = """
from cutlass import Float32, Int32, cute
from cutlass.cute.runtime import make_fake_compact_tensor as fake
import cute_dsl_pair
matrices = [fake(Float32, (64, 1024), stride_order=(1, 0)) for _ in range(3)]
cute.compile(cute_dsl_pair.run, *matrices, fake(Int32, (64,)), Int32(1000))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """{"first": PTX, "second": PTX}."""
    if importlib.util.find_spec("nvidia_cutlass_dsl") is None:
        pytest.skip("CuTe DSL is not installed: pip install nvidia-cutlass-dsl")
    folder = tmp_path_factory.mktemp("ptx")
    settings = {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **settings, "CUTE_DSL_NO_CACHE": "1", "PYTHONPATH": str(EXAMPLES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = folder.glob("*.ptx")
    entries = re.split(r"\.visible \.entry ", file.read_text())[1:]
    return {next(name for name in ("first", "second") if f"_{name}_" in one[:200]): one for one in entries}


def test_the_post_comes_after_the_stores_the_barrier_and_bulk_stores_that_are_made(kernels):
    words = ["st.global", "bar.sync", "cp.async.bulk.wait_group \t0", "red.release.gpu"]
    places = [kernels["first"].index(word) for word in words]
    assert places == sorted(places)
    assert "griddepcontrol.launch_dependents" in kernels["first"]


def test_the_wait_acquires_at_every_look_and_fences_tmas_proxy_before_the_loads(kernels):
    text = kernels["second"]
    looks = [found.start() for found in re.finditer(r"ld\.acquire\.gpu", text)]
    assert len(looks) == 2
    assert max(looks) < text.index("fence.proxy.async.global") < text.index("ld.global.b32")
    assert "griddepcontrol.wait" not in text
