"""A decode step computes what its model computes, in whatever order, and gives up instead of hanging."""

import pytest
from decode_mutants import MUTANTS, mutated

from wavesim.errors import DeadlockError, DescriptionError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SIZES = {
    "llama-128": {"hidden": 4096, "inner": 14336, "heads": 32, "kv_heads": 8, "head_size": 128},
    "llama-64": {"hidden": 2048, "inner": 8192, "heads": 32, "kv_heads": 8, "head_size": 64},
    "qwen2": {"hidden": 896, "inner": 4864, "heads": 14, "kv_heads": 2, "head_size": 64, "has_bias": True},
    "small": {"hidden": 256, "inner": 512, "heads": 4, "kv_heads": 2, "head_size": 64},
    "qwen3": {
        "hidden": 1024,
        "inner": 3072,
        "heads": 16,
        "kv_heads": 8,
        "head_size": 128,
        "has_head_norm": True,
    },
}
KEYS, LAYERS, ERROR = 520, 3, 1.2e-2


@pytest.fixture(scope="module", autouse=True)
def gpu(runner):
    """Skips where there is none, and where its bulk copies are missing."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("a decode step needs compute capability 9.0")


def layers_of(name, batch=1, layers=LAYERS):
    from wavesim_gpu.bench.labs.decode_layers import DecodeLayers, LayerSizes

    return DecodeLayers(LayerSizes(**SIZES[name], layers=layers), batch, KEYS)


def stepped(layers, launch, at):
    """The output for tokens at a position, after poison."""
    from wavesim_gpu.bench.labs.decode_steps import _stream

    layers.positions.fill_(at)
    layers.out.fill_(float("nan"))
    launch.enqueue(_stream())
    torch.cuda.synchronize()
    return layers.out.clone()


@pytest.mark.parametrize(
    ("name", "batch", "options"),
    [
        *((name, 1, {}) for name in SIZES),
        ("llama-64", 1, {"qkv_rows": 8, "out_rows": 8, "down_rows": 8, "splits": 8, "slot_columns": 480}),
        ("qwen2", 1, {"splits": 1, "replicas": 1, "groups": 12, "in_flight": 3, "polls_all": True}),
        ("qwen2", 2, {"splits": 2}),
        ("qwen3", 4, {"splits": 2}),
        ("qwen2", 8, {"splits": 2, "groups": 4}),
        ("llama-64", 8, {}),
        ("llama-128", 8, {}),
        ("llama-128", 4, {"down_rows": 8}),
    ],
)
def test_layers_are_right_at_every_edge_of_splits_and_slots(name, batch, options):
    layers = layers_of(name, batch)
    launch = layers.launch(**options)
    for at in (0, 1, 15, 16, 17, 47, 48, 64, 300, KEYS - 1):
        layers.x = layers.x.copy_(layers.normal(*layers.x.shape))
        expected = layers.reference(at)
        got = stepped(layers, launch, at)
        launch.check()
        assert float((got.float() - expected).norm() / expected.norm()) < ERROR, at


def test_the_new_key_and_value_are_in_the_cache():
    layers = layers_of("llama-64")
    first = layers.layers[0]
    before = first["keys"].clone()
    stepped(layers, layers.launch(), 200)
    is_new = (first["keys"] != before).any(-1).any(0).any(0)
    assert is_new.nonzero().flatten().tolist() == [200]


def test_a_hundred_thousand_steps_that_come_late_by_chance_have_the_bits_of_one_that_does_not():
    """Every wait of every warp of the second build is late by up to 2 us now and then."""
    from wavesim_gpu.bench.labs.decode_steps import _stream, graph_of
    from wavesim_gpu.driver.compiler import Build

    layers = layers_of("small", batch=2, layers=2)
    expected = stepped(layers, layers.launch(), KEYS - 1)
    late = layers.launch(Build(delay_ns=300))
    differences = torch.zeros((), dtype=torch.int64, device="cuda")

    def step():
        layers.out.fill_(float("nan"))
        late.enqueue(_stream())
        differences.add_((layers.out != expected).sum())

    graph = graph_of(step)
    for _ in range(100_000):
        graph.replay()
    assert int(differences) == 0
    late.check()


def test_a_small_step_is_right_with_time_enough_for_a_sanitizer():
    layers = layers_of("small", batch=2, layers=1)
    launch = layers.launch(limit_ns=300_000_000_000)
    expected = layers.reference(100)
    got = stepped(layers, launch, 100)
    launch.check()
    assert float((got.float() - expected).norm() / expected.norm()) < ERROR


def test_words_that_nobody_stores_are_reported_with_their_block_and_the_next_launch_is_right():
    from wavesim_gpu.driver.compiler import Build

    layers = layers_of("llama-64", layers=1)
    broken = layers.launch(Build(mutant="no_post"), limit_ns=20_000_000)
    assert stepped(layers, broken, 100).isnan().all()
    with pytest.raises(
        DeadlockError, match=r"down, waited longer than 0.02 s for tile .* of gate_up, which block 1 "
    ):
        broken.check()
    expected = layers.reference(100)
    got = stepped(layers, layers.launch(), 100)
    assert float((got.float() - expected).norm() / expected.norm()) < ERROR


@pytest.mark.parametrize("name", MUTANTS)
def test_a_step_with_a_mutant_has_other_bits_or_gives_up_and_the_next_is_right(name, monkeypatch, tmp_path):
    from wavesim_gpu.driver.compiler import Build
    from wavesim_gpu.kernels.decode import decode_launch

    # A ring is gone round in large layers only; tags of the step before are there again in a single one.
    layers = layers_of("llama-64", layers=1 if "tags" in name else 8)
    right = layers.launch()
    path = tmp_path / "mutant.cu"
    path.write_text(mutated(name))
    monkeypatch.setattr(decode_launch, "SOURCE", path)
    broken = layers.launch(Build(delay_ns=300), limit_ns=20_000_000)

    def differs():
        layers.x.copy_(layers.normal(*layers.x.shape))
        expected = stepped(layers, right, 300)
        return not torch.equal(stepped(layers, broken, 300), expected)

    assert any(differs() for _ in range(20))
    expected = layers.reference(300)
    got = stepped(layers, right, 300)
    assert float((got.float() - expected).norm() / expected.norm()) < ERROR


def test_a_full_cache_is_refused_with_the_sequence_and_its_position():
    layers = layers_of("qwen2", layers=1)
    launch = layers.launch()
    assert stepped(layers, launch, KEYS).isnan().all()
    with pytest.raises(DescriptionError, match="sequence 0 is at position 520; its cache holds 520"):
        launch.check()
    assert not stepped(layers, launch, KEYS - 1).isnan().any()


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_the_operator_gives_the_logits_of_the_model_token_after_token(kind):
    from small_decoders import small_decoder

    from wavesim_gpu.torch import decode

    model = small_decoder(kind).cuda().bfloat16()
    tokens = torch.randint(model.config.vocab_size, (1, 12), device="cuda")
    step = decode(model, max_length=64)
    with torch.no_grad():
        expected = model.float()(tokens)[0]
    model.bfloat16()
    graph = torch.cuda.CUDAGraph()
    for number in range(12):
        if number == 5:  # from here on the launch is replayed
            with torch.cuda.graph(graph):
                step.launch()
        if number < 5:
            logits = step(tokens[:, number])
        else:
            step.tokens.copy_(tokens[:, number])
            graph.replay()
            step.positions.add_(1)
            logits = step.logits
        step.check()
        error = (logits[0].float() - expected[number]).norm() / expected[number].norm()
        assert float(error) < 2e-2, number


def test_a_prefill_of_hugging_faces_model_goes_on_with_the_same_logits():
    transformers = pytest.importorskip("transformers")
    from wavesim_gpu.torch import decode

    config = transformers.LlamaConfig(
        hidden_size=1024, intermediate_size=2048, num_attention_heads=16, num_key_value_heads=4, head_dim=64,
        num_hidden_layers=3, vocab_size=4096,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).cuda().bfloat16().eval()
    tokens = torch.randint(4096, (1, 100), device="cuda")
    with torch.no_grad():
        prefill = model(tokens[:, :99], use_cache=True)
        step = decode(model, max_length=128)
        step.fill(prefill.past_key_values)
        expected = model(tokens).logits[0, 99].float()
    got = step(tokens[:, 99])[0].float()
    step.check()
    assert float((got - expected).norm() / expected.norm()) < 3e-2
