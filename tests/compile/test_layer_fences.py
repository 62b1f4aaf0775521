"""A layer's kernels release what they post and acquire what they wait for, in their code."""

import pytest
from attention_layers import attention, decode, decode_layer, layer
from row_chains import norm_chain

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_of

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")

STAGES = {
    "norm": (norm_chain(8), "hopper", "persistent+streams+tile"),
    "up": (norm_chain(8), "hopper", "persistent+pdl+row"),
    "attention": (layer(attention()), "portable", "streams+row"),
    "decode": (decode_layer(decode()), "portable", "streams+tile"),
}


@pytest.mark.parametrize("name", STAGES)
def test_a_dropped_fence_shows_in_the_code_of_a_layer_s_kernel(name):
    """Too rare to catch in a run, so the instruction itself is looked for."""
    pipeline, default, words = STAGES[name]
    stage, plan = pipeline.stage(name), parse_plan(words)
    backend = backend_of(stage, default)
    expression = backend.launch(stage.work, plan, load("h200")).expression
    headers = {GENERATED: stage_header(pipeline, plan, name).text}
    right, broken = (
        compile_cubin(backend.source, [expression], "sm_90a", build, headers).ptx
        for build in (Build(), Build(mutant="no_fence"))
    )
    posts = [
        code.count("red.release.gpu.global") + code.count("st.release.gpu.global") for code in (right, broken)
    ]
    assert posts[0] > posts[1]
    assert "fence.acq_rel.gpu" in right
