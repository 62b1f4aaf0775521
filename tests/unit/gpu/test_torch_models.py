"""Hugging Face's Llama, Qwen2, GPT-2 and ViT, small and random: swapped, trained, compiled, restored."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="pip install torch")
pytest.importorskip("transformers", reason="pip install transformers")

from torch_models import KINDS, input_of, model_of  # noqa: E402

from wavesim_gpu.torch import optimize, restore  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
TOLERANCE = 0.02  # of the logits, relative: two layers in bfloat16


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def logits(model, inputs):
    with torch.no_grad():
        return model(inputs)[0]


def relative_error(got, want) -> float:
    return float((got.double() - want.double()).norm() / want.double().norm())


def test_all_mlps_are_swapped_and_nothing_else(kind):
    model, (_, _, _, mlp_class, activation) = model_of(kind), KINDS[kind]
    report = optimize(model)
    assert [(one.kind, one.shape.activation) for one in report.swapped] == [(mlp_class, activation)] * 2
    assert report.kept == ()
    orders = {(one.shape.w1_order, one.shape.w2_order) for one in report.swapped}
    assert orders == {("row", "row") if kind == "gpt2" else ("column", "column")}


def test_logits_stay_and_are_exactly_as_before_when_restored(kind):
    model, inputs = model_of(kind), input_of(kind)
    own = {name: type(module) for name, module in model.named_modules()}
    names, want = list(model.state_dict()), logits(model, inputs)
    optimize(model)
    assert list(model.state_dict()) == names
    assert relative_error(logits(model, inputs), want) < TOLERANCE
    assert restore(model) == 2
    assert torch.equal(logits(model, inputs), want)
    assert {name: type(module) for name, module in model.named_modules()} == own


def test_training_is_what_it_was_to_the_last_bit(kind):
    """With dropout, where the model has it: the random numbers are drawn as before."""

    def run(is_swapped):
        model = model_of(kind)
        if is_swapped:
            assert optimize(model).swapped
        model.train()
        torch.manual_seed(1)
        inputs = input_of(kind)
        labels = torch.tensor([0, 1]) if kind == "vit" else inputs
        loss = model(inputs, labels=labels).loss
        loss.backward()
        return loss, [parameter.grad for parameter in model.parameters()]

    (loss, gradients), (swapped_loss, swapped_gradients) = run(False), run(True)
    assert torch.equal(loss, swapped_loss)
    for one, other in zip(gradients, swapped_gradients, strict=True):
        assert one is other is None or torch.equal(one, other)


def test_it_compiles_whole(kind):
    model, inputs, graphs = model_of(kind), input_of(kind), []
    want = logits(model, inputs)
    optimize(model)

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    assert relative_error(logits(compiled, inputs), want) < TOLERANCE
    assert graphs[0].code.count("wavesim.mlp") == 2


def test_copies_and_state_dicts_go_both_ways(kind):
    model, inputs = model_of(kind), input_of(kind)
    want = logits(model, inputs)
    optimize(model)
    other = copy.deepcopy(model)
    assert relative_error(logits(other, inputs), want) < TOLERANCE
    restore(other)
    assert torch.equal(logits(other, inputs), want)
    plain = model_of(kind)
    for parameter in plain.parameters():
        torch.nn.init.zeros_(parameter)
    plain.load_state_dict(model.state_dict())
    plain.eval()
    assert torch.equal(logits(plain, inputs), want)


def test_saved_by_transformers_and_loaded_it_is_the_plain_model(kind, tmp_path):
    model = model_of(kind)
    optimize(model)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    plain, own = loaded.state_dict(), model.state_dict()
    assert plain.keys() == own.keys()
    assert all(torch.equal(value, own[name]) for name, value in plain.items())
    assert restore(loaded) == 0


def test_tied_embeddings_stay_tied():
    model = model_of("qwen2")
    optimize(model)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_text_is_generated_token_by_token():
    model, inputs = model_of("llama", torch.bfloat16), input_of("llama")
    optimize(model)
    found = model.generate(inputs, max_new_tokens=4, do_sample=False)
    assert found.shape[0] == 2
    assert inputs.shape[1] < found.shape[1] <= inputs.shape[1] + 4


def test_gpt2_in_training_is_kept_for_its_dropout_and_an_unknown_activation_is_said():
    assert "drops 0.1 of its values in training" in optimize(model_of("gpt2").train()).kept[0].reason
    report = optimize(model_of("llama", hidden_act="quick_gelu"))
    assert report.swapped == ()
    assert "none of those that are known (with QuickGELUActivation)" in report.kept[0].reason


def test_float32_is_kept_and_told_so(kind):
    report = optimize(model_of(kind, torch.float32))
    assert report.swapped == ()
    assert all("of float32, not of float16 or bfloat16" in one.reason for one in report.kept)
    assert len(report.kept) >= 2
