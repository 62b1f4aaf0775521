"""The machine code of the Hopper attention: nothing spilled or serialised, softmax while products run.

The order of instructions is the compiler's: it had moved the wait for P x V ahead of the exponentials, which
then no longer overlapped the product. A branch in `mma.cuh` keeps them apart; this test looks at the result.
"""

import re

import pytest
import stage_code
from attention_layers import attention, layer
from cubin_facts import registers_at_launch

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")


def compiled(work):
    """The kernel as a consumer of the QKV product and a producer of another."""
    return stage_code.compiled(layer(work), "attention", "persistent+streams+tile", "hopper")


@pytest.mark.parametrize(("head_dim", "is_causal"), [(128, True), (64, False)])
def test_the_exponentials_come_while_a_product_runs_and_nothing_is_spilled(
    head_dim, is_causal, tmp_path, nvdisasm
):
    work = attention(head_dim=head_dim, is_causal=is_causal, dtype="bf16")
    code = stage_code.instructions(compiled(work), nvdisasm, tmp_path)
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
