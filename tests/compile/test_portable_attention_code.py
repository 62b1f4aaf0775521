"""The portable attention kernels compile from sm_80 on, as consumers and producers, and spill nothing."""

import re
import subprocess

import pytest

from wavesim.codegen.cuda import stage_header
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.attention.attention_sm80 import PortableAttention
from wavesim_gpu.kernels.attention.decode import PortableDecode

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")


def code_of(backend, work, arch, path, nvdisasm):
    """The kernel's instructions as a consumer of the QKV product and a producer of another, one a line."""
    width = (work.heads + 2 * work.kv_heads) * work.head_dim
    qkv = Stage("qkv", Gemm("qkv", work.m, width, 512, 64, work.head_dim))
    own = Stage("attention", work)
    out = Stage("out", Gemm("out", work.m, 512, work.columns, 64, 128))
    row = y if isinstance(work, Attention) else 0  # of the product, which has all decoded tokens in one
    links = [Dependency(own[x, y], [qkv[:, row]]), Dependency(out[x, y], [own[:, y]])]
    plan = parse_plan("streams+tile", "row")
    launch = backend.launch(work, plan, load("h200"))
    header = stage_header(Pipeline("layer", [qkv, own, out], links), plan, "attention").text
    cubin = compile_cubin(backend.source, [launch.expression], arch, Build(), {GENERATED: header})
    path.write_bytes(cubin.data)
    listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]


CASES = [
    (PortableAttention(), Attention("attention", 1, 512, 2, 2, 128, tile_m=64), "sm_80"),
    (PortableAttention(), Attention("attention", 1, 512, 4, 2, 64, tile_m=64, dropout=0.1), "sm_90a"),
    (PortableDecode(), AttentionDecode("attention", 64, 1000, 32, 8, 128, splits=2, dtype="bf16"), "sm_80"),
    (PortableDecode(), AttentionDecode("attention", 64, 1000, 32, 2, 64, appends=True), "sm_90a"),
]


@pytest.mark.parametrize(("backend", "work", "arch"), CASES)
def test_keys_are_copied_past_the_registers_and_nothing_is_spilled(backend, work, arch, tmp_path, nvdisasm):
    code = code_of(backend, work, arch, tmp_path / "attention.cubin", nvdisasm)
    assert any("HMMA.16816.F32" in line for line in code)
    assert any("LDGSTS" in line for line in code)
    assert not [line for line in code if "STL" in line or "LDL" in line]
