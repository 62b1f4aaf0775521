"""A decode step compiles with no GPU, and its code is what makes it fast."""

import re
import subprocess

import pytest

from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.kernels.decode.decode_launch import SOURCE
from wavesim_gpu.kernels.decode.shape import DecodeShape

pytestmark = pytest.mark.usefixtures("nvrtc")
LLAMA = DecodeShape(2048, 8192, 32, 8, 64).tuned()


def compiled(shape, **build):
    return compile_cubin(SOURCE, (), "sm_90a", Build(**build), {"generated.cuh": shape.header()})


@pytest.mark.parametrize(
    "shape",
    [
        DecodeShape(896, 4864, 14, 2, 64, batch=8, has_bias=True, splits=2, groups=4).tuned(),
        DecodeShape(1024, 3072, 16, 8, 128, has_head_norm=True, out_rows=8).tuned(),
    ],
)
def test_it_compiles_for_biases_head_norms_and_batches(shape):
    assert compiled(shape, is_recording=True).data


def test_copies_of_a_slot_follow_each_other_without_a_loop_over_lanes(nvdisasm, tmp_path):
    """A loop elects a lane, moves four words to uniform registers, copies one row: 70 cycles, not a few."""
    path = tmp_path / "decode.cubin"
    path.write_bytes(compiled(LLAMA).data)
    text = subprocess.run([nvdisasm, str(path)], capture_output=True, text=True, check=True).stdout
    copies = [line for line in text.splitlines() if "UBLKCP" in line]
    assert len(copies) >= 16 * 5
    assert not re.findall(r"@!?UP\d UBLKCP", text)
