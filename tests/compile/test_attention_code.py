"""The machine code of the Hopper attention: nothing spilled or serialised, softmax while products run.

The order of instructions is the compiler's: it had moved the wait for P x V ahead of the exponentials, which
then no longer overlapped the product. A branch in `mma.cuh` keeps them apart; this test looks at the result.
"""

import re
import subprocess

import pytest
from attention_layers import attention, layer
from cubin_facts import registers_at_launch

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.attention.attention_sm90 import HopperAttention

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

PLAIN = Build()


def compiled(work, build=PLAIN):
    """The kernel as a consumer of the QKV product and a producer of another."""
    plan, backend = parse_plan("persistent+streams+tile", "row"), HopperAttention()
    launch = backend.launch(work, plan, load("h200"))
    header = stage_header(layer(work), plan, "attention").text
    return compile_cubin(backend.source, [launch.expression], "sm_90a", build, {GENERATED: header})


def code_of(cubin, path, nvdisasm):
    """Its instructions, one a line."""
    path.write_bytes(cubin.data)
    listing = subprocess.run([nvdisasm, path], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if re.match(r"\s*/\*[0-9a-f]{4,}\*/", line)]


@pytest.mark.parametrize(("head_dim", "is_causal"), [(128, True), (64, False)])
def test_the_exponentials_come_while_a_product_runs_and_nothing_is_spilled(
    head_dim, is_causal, tmp_path, nvdisasm
):
    work = attention(head_dim=head_dim, is_causal=is_causal, dtype="bf16")
    code = code_of(compiled(work), tmp_path / "attention.cubin", nvdisasm)
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


def test_the_registers_that_warpgroups_ask_for_are_those_the_block_was_given():
    """Asking for more is a wait without end: setmaxnreg.inc waits until somebody gives registers away."""
    cubin = compiled(attention(dtype="bf16"))
    (given,) = {int(n) for n in re.findall(r"setmaxnreg\.dec\S* \t?(\d+)", cubin.ptx)}
    (taken,) = {int(n) for n in re.findall(r"setmaxnreg\.inc\S* \t?(\d+)", cubin.ptx)}
    assert given + 2 * taken <= 3 * registers_at_launch(cubin.data)


def test_a_dropped_fence_shows_in_the_code():
    """Too rare to catch in a run, so the instruction itself is looked for."""
    right, broken = (
        compiled(attention(dtype="bf16"), build).ptx for build in (PLAIN, Build(mutant="no_fence"))
    )
    assert "st.release.gpu.global" in right
    assert "fence.proxy.async.global" in right
    assert "st.release.gpu.global" not in broken
