"""The machine code of the Hopper attention: nothing spilled or serialised, softmax while products run.

The order of instructions is the compiler's: it had moved the wait for P x V ahead of the exponentials, which
then no longer overlapped the product. A branch in `mma.cuh` keeps them apart; this test looks at the result.
"""

import re
import subprocess

import pytest
from attention_layers import attention, layer

from wavesim.codegen.single_stage import stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.kernels.attention.attention_sm90 import HopperAttention
from wavesim_gpu.runtime.compiler import Build, compile_cubin
from wavesim_gpu.runtime.functions import GENERATED

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")


def code_of(work, path, nvdisasm):
    """The kernel's instructions as a consumer of the QKV product and a producer of another, one a line."""
    pipeline = layer(work)
    plan = parse_plan("persistent+streams+tile", "row")
    backend = HopperAttention()
    launch = backend.launch(work, plan, load("h200"))
    header = stage_header(pipeline, plan, "attention").text
    cubin = compile_cubin(backend.source, [launch.expression], "sm_90a", Build(), {GENERATED: header})
    path.write_bytes(cubin.data)
    listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]


@pytest.mark.parametrize(("head_dim", "is_causal"), [(128, True), (64, False)])
def test_the_exponentials_come_while_a_product_runs_and_nothing_is_spilled(
    head_dim, is_causal, tmp_path, nvdisasm
):
    work = attention(head_dim=head_dim, is_causal=is_causal, dtype="bf16")
    code = code_of(work, tmp_path / "attention.cubin", nvdisasm)
    scores, outputs = head_dim // 16, work.tile_n // 16
    # The first block's scores, a loop without mask and one with it, the last block's outputs.
    assert sum("HGMMA" in line for line in code) == 3 * (scores + outputs)
    assert not [line for line in code if "STL" in line or "LDL" in line]
    waits = [place for place, line in enumerate(code) if "DEPBAR.LE gsb0" in line]
    steps = [place for place in waits if "gsb0, 0x1" in code[place]]
    assert len(steps) == 2
    for begin in steps:
        end = next(place for place in waits if place > begin)
        exponentials = sum("MUFU.EX2" in line for line in code[begin:end])
        assert exponentials >= work.tile_n // 2, "the softmax waits for the product that it should run under"


def test_a_dropped_fence_shows_in_the_code():
    """Too rare to catch in a run, so the instruction itself is looked for."""
    pipeline, plan = layer(attention()), parse_plan("streams+tile", "row")
    headers = {GENERATED: stage_header(pipeline, plan, "attention").text}
    backend = HopperAttention()
    names = [backend.launch(attention(), plan, load("h200")).expression]
    right = compile_cubin(backend.source, names, "sm_90a", headers=headers).ptx
    broken = compile_cubin(backend.source, names, "sm_90a", Build(mutant="no_fence"), headers).ptx
    assert "red.release.gpu.global" in right or "st.release.gpu.global" in right
    assert "fence.proxy.async.global" in right
    assert "red.release.gpu.global" not in broken
    assert "st.release.gpu.global" not in broken
