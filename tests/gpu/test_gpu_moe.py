"""A MoE layer computes what its formula says, however tokens are routed, and gives up instead of hanging."""

from dataclasses import replace

import pytest

from wavesim.errors import DeadlockError, DescriptionError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
SIZES = [  # tokens, experts, top k, hidden, inner
    (1, 8, 2, 128, 64),
    (1, 1, 1, 64, 64),
    (7, 8, 2, 256, 192),
    (33, 16, 4, 576, 320),
    (130, 5, 2, 512, 704),
    (700, 6, 3, 1024, 448),
    (300, 128, 8, 256, 128),
    (3000, 40, 3, 192, 64),
]
ERROR = 8e-3


@pytest.fixture(scope="module", autouse=True)
def gpu(runner):
    """Skips where there is none, and where its instructions are missing."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("a MoE layer needs compute capability 9.0")


def operands(tokens, experts, top_k, hidden, inner):
    torch.manual_seed(tokens)
    w1 = (torch.randn(experts, 2 * inner, hidden, device="cuda") * hidden**-0.5).bfloat16()
    w2 = (torch.randn(experts, hidden, inner, device="cuda") * inner**-0.5).bfloat16()
    x = torch.randn(tokens, hidden, device="cuda").bfloat16()
    return x, w1, w2, torch.rand(tokens, top_k, device="cuda")


def routed(kind, tokens, experts, top_k):
    if kind == "one expert":
        return torch.full((tokens, top_k), experts - 1, device="cuda")
    if kind == "two experts":
        return (
            torch.arange(tokens * top_k, device="cuda", dtype=torch.int32).view(tokens, top_k)
            % 2
            * (experts // 2)
        )
    chances = torch.arange(1, experts + 1).double() ** -(kind == "skewed")
    return torch.multinomial(chances.expand(tokens, -1), top_k).cuda()


def launched(plan, tile, x, w1, w2, ids, weights, report, **build):
    """The result over poisoned memory."""
    from wavesim_gpu.driver.compiler import Build
    from wavesim_gpu.driver.tensors import stream_at
    from wavesim_gpu.kernels.moe.moe_launch import MoeLaunch
    from wavesim_gpu.kernels.moe.parameters import MoeAddresses
    from wavesim_gpu.torch.expert_layers import shape_of

    shape = replace(shape_of(x, w1, w2, ids, weights), tile=tile)
    scratch = torch.full((shape.places["bytes"],), 255, dtype=torch.uint8, device="cuda")
    out = torch.full_like(x, float("nan"))
    places = [tensor.data_ptr() for tensor in (x, w1, w2, ids, weights, out, scratch)]
    kinds = ids.dtype == torch.int64, weights.dtype == torch.bfloat16
    addresses = MoeAddresses(*places, report.address, *kinds)
    launch = MoeLaunch(shape, addresses, plan, build=Build(**build), limit_ns=20_000_000)
    launch.enqueue(stream_at(int(torch.cuda.current_stream().cuda_stream)))
    torch.cuda.synchronize()
    return out


def error_of(out, expected):
    return float((out.float() - expected).norm() / expected.norm())


@pytest.mark.parametrize("kind", ["even", "skewed", "one expert", "two experts"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_plan_and_tile_is_right_for_any_routing(sizes, kind):
    from wavesim_gpu.kernels.moe.moe_launch import PLANS, MoeReport
    from wavesim_gpu.kernels.moe.shape import TILES
    from wavesim_gpu.torch.expert_layers import reference_moe

    x, w1, w2, weights = operands(*sizes)
    ids = routed(kind, *sizes[:3])
    if kind == "two experts":
        weights = weights.bfloat16()
    expected, report = reference_moe(x, w1, w2, ids, weights), MoeReport()
    for tile in TILES:
        for plan in PLANS:
            out = launched(plan, tile, x, w1, w2, ids, weights, report)
            assert error_of(out, expected) < ERROR, (tile, plan.name)
    report.check()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's compiler meets its own
def test_the_operator_gives_the_same_bits_in_calls_and_graphs_and_under_compile():
    import wavesim_gpu
    from wavesim_gpu.torch.expert_layers import check_moe, reference_moe

    x, w1, w2, weights = operands(20, 8, 2, 256, 128)
    ids = routed("even", 20, 8, 2)
    first = wavesim_gpu.moe(x, w1, w2, ids, weights)
    assert torch.equal(first, wavesim_gpu.moe(x, w1, w2, ids, weights))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = wavesim_gpu.moe(x, w1, w2, ids, weights)
    for kind in ("skewed", "one expert"):
        ids.copy_(routed(kind, 20, 8, 2))
        graph.replay()
        assert torch.equal(out, wavesim_gpu.moe(x, w1, w2, ids, weights))
        assert error_of(out, reference_moe(x, w1, w2, ids, weights)) < ERROR
    doubled = torch.compile(lambda *args: wavesim_gpu.moe(*args) * 2, fullgraph=True)
    assert torch.equal(doubled(x, w1, w2, ids, weights), out * 2)
    assert wavesim_gpu.moe(x[:0], w1, w2, ids[:0], weights[:0]).shape == (0, 256)
    check_moe()


@pytest.mark.parametrize("tokens", [20, 1500])
def test_an_id_out_of_range_makes_its_token_nan_and_is_named(tokens):
    from wavesim_gpu.torch.expert_layers import check_moe, moe

    x, w1, w2, weights = operands(tokens, 8, 2, 256, 128)
    ids = routed("even", tokens, 8, 2)
    ids[3, 1], ids[5, 0] = 8, -4
    out = moe(x, w1, w2, ids, weights)
    assert out.isnan().all(1).nonzero().flatten().tolist() == [3, 5]
    assert not out[6:].isnan().any()
    with pytest.raises(
        DescriptionError, match=r"topk_ids: element (7.* is 8|10.* is -4); the layer has experts 0"
    ):
        check_moe()
    check_moe()


@pytest.mark.parametrize("mutant", ["no_wait", "early_post", "no_post"])
def test_broken_kernels_give_wrong_numbers_or_give_up(mutant):
    from wavesim_gpu.kernels.moe.moe_launch import PLANS, MoeReport
    from wavesim_gpu.torch.expert_layers import reference_moe

    x, w1, w2, weights = operands(7, 8, 2, 256, 192)
    ids = routed("even", 7, 8, 2)
    expected, report = reference_moe(x, w1, w2, ids, weights), MoeReport()
    for plan in PLANS[2:]:
        out = launched(plan, (64, 128), x, w1, w2, ids, weights, report, mutant=mutant, delay_ns=50_000)
        if mutant == "no_post":
            assert out.isnan().all()
            with pytest.raises(DeadlockError, match="waited too long for the gate-up tiles of its rows"):
                report.check()
        else:
            assert not error_of(out, expected) < ERROR
        assert error_of(launched(plan, (64, 128), x, w1, w2, ids, weights, report), expected) < ERROR


def test_arguments_that_do_not_go_together_are_named():
    from wavesim_gpu.torch.expert_layers import moe

    x, w1, w2, weights = operands(4, 8, 2, 256, 128)
    ids = routed("even", 4, 8, 2)
    with pytest.raises(DescriptionError, match="w1 has shape"):
        moe(x, w1[:, :64], w2, ids, weights)
    with pytest.raises(DescriptionError, match=r"topk_ids is of torch\.float32"):
        moe(x, w1, w2, ids.float(), weights)
    with pytest.raises(DescriptionError, match="x has strides"):
        moe(torch.cat([x, x], 1)[:, ::2], w1, w2, ids, weights)
    with pytest.raises(DescriptionError, match="plan is 'stream'; a MoE layer runs under persistent-stream"):
        moe(x, w1, w2, ids, weights, plan="stream")


def test_a_swapped_model_gives_its_own_logits():
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from wavesim_gpu.torch import optimize
    from wavesim_gpu.torch.expert_layers import check_moe

    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        hidden_size=256, intermediate_size=512, moe_intermediate_size=128, num_hidden_layers=2, head_dim=64,
        num_attention_heads=4, num_key_value_heads=2, num_experts=16, num_experts_per_tok=4, vocab_size=512,
    )  # fmt: skip
    model = transformers.Qwen3MoeForCausalLM(config).to("cuda", torch.bfloat16).eval()
    tokens = torch.randint(512, (3, 40), device="cuda")
    with torch.no_grad():
        expected = model.float()(tokens).logits
        assert len(optimize(model.bfloat16()).experts) == 2
        assert error_of(model(tokens).logits, expected) < 5e-2
    check_moe()
