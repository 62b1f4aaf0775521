"""`try-pair` on a GPU: the examples in CUDA C++ and Triton, a wrong result, and a kernel that never ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "gpu" / "examples"
HANGS = """
import cupy
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage

first, second = (Stage(name, Kernel(name, Grid(4, 4), Block(128))) for name in ("first", "second"))
description = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[x, y]])])
spin = cupy.RawKernel('extern "C" __global__ void spin(volatile int* flag) { while (!*flag) {} }', "spin")
flag = cupy.zeros(1, cupy.int32)
def producer(): spin((1,), (1,), (flag,))
def consumer(): pass
plans = {"pdl+row": producer}
def check(): return True
"""


def tried(*words):
    command = [sys.executable, "-m", "wavesim_gpu", "try-pair", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT)


@pytest.mark.parametrize(
    ("name", "plan"), [("try_cuda_pair", "row"), ("try_triton_pair", "pdl+row grouped:4")]
)
def test_the_examples_are_timed_predicted_run_and_checked(name, plan, tmp_path):
    if "triton" in name:
        pytest.importorskip("triton")
    out = tmp_path / "pair.json"
    done = tried(EXAMPLES / f"{name}.py", "--json", out)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    stream, row = found["plans"]
    assert (stream["name"], row["name"]) == ("stream", plan)
    assert all(plan["measured_us"] > 10 for plan in found["plans"])
    alone = sum(found["kernel_us"].values())
    assert 0.7 * alone < stream["measured_us"] < 1.2 * alone


def test_a_wrong_result_is_not_timed(tmp_path):
    text = (EXAMPLES / "try_cuda_pair.py").read_text().replace("return bool(", "return not bool(")
    for path in EXAMPLES.glob("*pair*"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "wrong.py").write_text(text)
    done = tried(tmp_path / "wrong.py", "--rounds", 2)
    assert done.returncode == 2
    assert "the result of stream is wrong" in done.stderr


def test_a_kernel_that_never_ends_is_given_up_and_said(tmp_path):
    path = tmp_path / "hangs.py"
    path.write_text(HANGS)
    done = tried(path, "--limit-s", 2)
    assert done.returncode == 2
    assert "stream has not ended in 2 s" in done.stderr
