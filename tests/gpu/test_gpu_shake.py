"""`shake` on a GPU: twenty programs that lack a fence, wait or barrier each, and twins that lack none."""

import json
import subprocess
import sys

import pytest
import shake_programs
from shake_programs import FOLDER, NAMES, program

from wavesim_gpu.shake.shaking import shake

pytestmark = pytest.mark.gpu
PAIR = """
import cupy
from pathlib import Path

code = Path({folder!r}, "tile_no_barrier_after_wait.cu").read_text()
module = cupy.RawModule(code=code, options=("-std=c++17", "-I{folder}", *{flags!r}))
first, second = module.get_function("first"), module.get_function("second")
given = cupy.arange(4096, dtype=cupy.float32)
data, out = cupy.zeros(4096, cupy.float32), cupy.zeros(4096, cupy.float32)
flags = cupy.zeros(4096, cupy.uint32)
arguments = given, data, out, flags, cupy.int32(4096)
streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
outputs = [out]


def run():
    current = cupy.cuda.get_current_stream()
    begun = current.record()
    for stream, kernel in zip(streams, (first, second)):
        stream.wait_event(begun)
        kernel((16,), (256,), arguments, stream=stream)
    for stream in streams:
        current.wait_event(stream.record())


def reference():
    first((16,), (256,), arguments)
    second((16,), (256,), arguments)


def clear():
    data.fill(0)
    flags.fill(0)
    out.fill(cupy.nan)
"""


@pytest.fixture(autouse=True)
def _needs_a_gpu(cupy):
    assert shake_programs.FOLDER.is_dir()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in shake_programs.NOT_FOUND])
def test_a_missing_fence_wait_or_barrier_is_found(name):
    assert shake(program(name, True), 20.0).fault is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_right_program_stays_right(name):
    shaken = shake(program(name, False), 0.5)
    assert shaken.fault is None
    assert shaken.seeds > 5


@pytest.mark.parametrize("flags", [(), ("-DFAULT",)], ids=["right", "fault"])
def test_the_command_changes_what_a_file_loads_through_cupy(flags, tmp_path):
    path = tmp_path / "pair.py"
    path.write_text(PAIR.format(folder=str(FOLDER), flags=flags))
    words = [sys.executable, "-m", "wavesim_gpu", "shake", str(path), "--seconds", "3", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == bool(flags), done.stderr
    assert (json.loads(done.stdout)["fault"] is not None) == bool(flags)
