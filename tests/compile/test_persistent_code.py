"""Kernels that stay compile with no GPU, and keep their weights in registers."""

import re
import subprocess

import pytest

from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.persistent import one_cluster
from wavesim_gpu.persistent.wavernn import SOURCE, TYPES, ways_of

pytestmark = pytest.mark.usefixtures("nvrtc")
NAMES = sorted({way[0].expression(dtype) for dtype in TYPES for way in ways_of(2).values()})


def test_wavernn_compiles_for_the_oldest_target_in_every_way():
    assert len(compile_cubin(SOURCE, NAMES, "sm_80", Build()).lowered) == len(NAMES) == 8


def test_weights_stay_in_registers_from_cycle_to_cycle(nvdisasm, tmp_path):
    """R's 24 products and an output layer's 16 are unrolled, with no spill."""
    name = "wavernn<Fp16, 1, Between::barrier>"
    path = tmp_path / "wavernn.cubin"
    path.write_bytes(compile_cubin(SOURCE, (name,), "sm_90a", Build()).data)
    text = subprocess.run([nvdisasm, str(path)], capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"\bHMMA\.16816\.F32\b", text)) == 24 + 16
    assert not re.findall(r"\b(?:LDL|STL)\b", text)
    assert len(re.findall(r"\bLDG\.E\.128\b", text)) >= 24 + 16


def test_one_cluster_keeps_its_weights_without_a_spill(nvdisasm, tmp_path):
    """28 K steps of R's gates and of its candidates, 14 of an inner layer's tile and of two of the last."""
    path = tmp_path / "one_cluster.cubin"
    path.write_bytes(compile_cubin(one_cluster.SOURCE, (), "sm_90a", Build()).data)
    text = subprocess.run([nvdisasm, str(path)], capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"\bIMMA\.16832\.S8\.S8\b", text)) == 28 + 28 + 14 + 2 * 14
    assert not re.findall(r"\b(?:LDL|STL)\b", text)
