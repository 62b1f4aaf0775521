"""The code of the products of attention by five kernels: fences are there, given up waits leave NaN."""

import pytest

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.workloads.attention_chain import paper_attention
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.attention.head_product import HeadProducts

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")


def code_of(product, arch, build):
    """PTX of a product that waits for tiles and posts its own."""
    pipeline, plan, backend = paper_attention(256), parse_plan("streams+tile", "row"), HeadProducts()
    launch = backend.launch(pipeline.stage(product).work, plan, load("h200"))
    headers = {GENERATED: stage_header(pipeline, plan, product).text}
    return compile_cubin(backend.source, [launch.expression], arch, build, headers).ptx


@pytest.mark.parametrize(("product", "arch"), [("scores", "sm_80"), ("context", "sm_90a")])
def test_a_dropped_fence_shows_in_the_code(product, arch):
    """Too rare to catch in a run, so the instruction itself is looked for."""
    right, broken = code_of(product, arch, Build()), code_of(product, arch, Build(mutant="no_fence"))
    releases = ("red.release.gpu.global", "st.release.gpu.global")
    assert any(release in right for release in releases)
    assert not any(release in broken for release in releases)
    assert "fence.acq_rel.gpu" in right
    assert "0f7FFFFFFF" in right or "0x7fffffff" in right
    assert ("griddepcontrol.launch_dependents" in right) == (arch == "sm_90a")
