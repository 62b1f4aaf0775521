"""The device's integers for convolutions, compiled for the host, are those of the Python that is tested."""

import shutil
import subprocess

import pytest
from conv_cases import CASES, PACKED
from host_sources import GPU, HOST

from wavesim_gpu.kernels.convolution.im2col import im2col_record, pixel_of, tap_of


def test_every_pixel_and_tap_is_where_python_says(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    built = tmp_path / "im2col"
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Werror", f"-I{GPU}", HOST / "im2col.cpp", "-o", built],
        check=True,
        timeout=60,
    )
    asked, expected = [], []
    for work in (*CASES.values(), *PACKED.values()):
        record = im2col_record(work)
        sizes = *record.tolist(), work.pixels, work.k_block_count
        asked.append(" ".join(map(str, sizes)))
        expected += [pixel_of(record, output) for output in range(work.pixels)]
        expected += [tap_of(record, k_block) for k_block in range(work.k_block_count)]
    done = subprocess.run([built], input="\n".join(asked), capture_output=True, text=True, check=True)
    assert [tuple(map(int, line.split())) for line in done.stdout.splitlines()] == expected
