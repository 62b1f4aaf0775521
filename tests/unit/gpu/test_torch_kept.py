"""What `optimize` does not swap, or no longer computes itself: whatever is in doubt, with the reason."""

import pytest

from wavesim.errors import DescriptionError

torch = pytest.importorskip("torch", reason="pip install torch")

from torch import nn  # noqa: E402
from torch_mlps import N1, GatedMlp, K, Model, PlainMlp, QuickGelu, x_of  # noqa: E402

from wavesim_gpu.torch import optimize  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    "block",
    [
        GatedMlp(QuickGelu),
        GatedMlp(nn.ReLU),
        GatedMlp(first=lambda a, b: a + b),
        nn.Sequential(nn.Linear(K, N1), nn.ReLU6(), nn.Linear(N1, K)),
        nn.Sequential(nn.Linear(K, N1), nn.Hardtanh(-10, 10), nn.Linear(N1, K)),
        nn.Sequential(nn.Linear(K, N1), nn.LeakyReLU(1e-3), nn.Linear(N1, K)),
        nn.Sequential(nn.Linear(K, K), nn.SiLU(), nn.Linear(K, K), nn.SiLU()),
    ],
    ids=["quick gelu", "reglu", "sum", "relu6", "clipped", "leaky", "last activation"],
)
def test_what_computes_something_else_is_kept(block):
    model = Model(block)
    report = optimize(model)
    assert (report.swapped, model.blocks[0]) == ((), block)
    assert "none of those that are known" in report.kept[0].reason


def test_two_linear_layers_alone_are_no_mlp_unless_they_compute_one():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(K, 3 * K), nn.Linear(K, K)

        def forward(self, x):
            return self.out(self.qkv(x).chunk(3, dim=-1)[0].softmax(-1))

    report = optimize(Model(Attention()))
    assert (report.swapped, report.kept) == ((), ())


class Adapter(nn.Module):
    """As PEFT wraps a linear layer."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base

    @property
    def weight(self):
        return self.base_layer.weight

    def forward(self, x):
        return self.base_layer(x) + 1


class LoraLinear(Adapter):
    pass


class QuantLinear(nn.Linear):
    pass


def with_adapter(block):
    block.one = LoraLinear(block.one)


def with_other_class(block):
    block.one.__class__ = QuantLinear


class Linear(nn.Linear):
    pass


def with_a_class_of_the_same_name(block):
    block.one.__class__ = Linear


def with_integers(block):
    block.one.weight = nn.Parameter(torch.ones((N1, K), dtype=torch.int8), requires_grad=False)


class OtherTensor(torch.Tensor):
    """As torchao's and DTensor are."""


def with_tensor_subclass(block):
    block.one.weight = nn.Parameter(block.one.weight.detach().as_subclass(OtherTensor))


def with_hook(block):
    block.two.register_forward_hook(lambda module, arguments, out: out + 1)


def with_backward_hook(block):
    block.two.register_full_backward_hook(lambda module, grads, outer: None)


def with_hook_on_its_activation(block):
    block.act.register_forward_hook(lambda module, arguments, out: out + 1)


def with_another_activation(block):
    block.act = nn.ReLU()


def with_offload(block):
    own = block.two.forward
    block.two.forward = lambda x: own(x) + 1


def with_parametrization(block):
    nn.utils.parametrize.register_parametrization(block.two, "weight", nn.Tanh())


CHANGES = {
    with_adapter: "one is a LoraLinear",
    with_other_class: "one is a QuantLinear",
    with_a_class_of_the_same_name: f"one is a {Linear.__module__}.Linear",
    with_integers: "one is of int8, not of float16 or bfloat16",
    with_tensor_subclass: "one is of a OtherTensor as its weight",
    with_hook: "two is with hooks",
    with_backward_hook: "two is with hooks",
    with_hook_on_its_activation: "act is with hooks",
    with_another_activation: "its forward pass is none of those that are known",
    with_offload: "two is with hooks",
    with_parametrization: "two is a ParametrizedLinear",
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_linear_layers_that_do_more_than_their_weight_says_are_kept(change, reason):
    model = Model(GatedMlp())
    change(model.blocks[0])
    report = optimize(model)
    assert report.swapped == ()
    assert report.kept[0].reason.startswith(reason)


@pytest.mark.parametrize("change", [c for c in CHANGES if c is not with_integers], ids=lambda c: c.__name__)
def test_a_change_after_the_swap_is_heeded(change):
    model, other = Model(GatedMlp()), Model(GatedMlp())
    optimize(model)
    for one in (model, other):
        change(one.blocks[0])
    with torch.no_grad():
        assert torch.equal(model(x_of())[0], other(x_of())[0])


def whole_changes():
    def float32(model):
        model.float()

    def meta(model):
        model.to("meta")

    def two_types(model):
        model.blocks[0].one.half()

    def replaced(model):
        model.blocks[0].forward = lambda x: x

    def tensor_parallel(model):
        model.blocks[0].config = type("Config", (), {"pretraining_tp": 2})()

    def compiled(model):
        model.blocks[0].compile()

    return {
        float32: "of float32, not of float16 or bfloat16",
        meta: "on no device",
        two_types: "different types",
        replaced: "its forward pass was replaced",
        tensor_parallel: "pretraining_tp 2",
        compiled: "compiled by itself",
    }


@pytest.mark.parametrize(
    ("change", "reason"), whole_changes().items(), ids=lambda one: getattr(one, "__name__", "")
)
def test_a_model_in_doubt_is_kept_and_told_why(change, reason):
    model = Model(GatedMlp())
    change(model)
    report = optimize(model)
    assert report.swapped == ()
    assert reason in report.kept[0].reason


def test_dropout_counts_in_training_only():
    block = PlainMlp(dropout=0.5)
    model = Model(block).train()
    assert "drops 0.5 of its values in training; call model.eval() before" in optimize(model).kept[0].reason
    model.eval()
    assert [one.shape.activation for one in optimize(model).swapped] == ["relu"]
    with torch.no_grad():
        model.train()
        assert float((model(x_of())[0] == 0).float().mean()) > 0.3
        model.eval()
        assert torch.equal(model(x_of())[0], block.eval()(x_of()))


def test_a_backward_hook_sees_its_layer():
    model, seen = Model(GatedMlp()), []
    optimize(model)
    model.blocks[0].two.register_full_backward_hook(lambda module, grads, outer: seen.append(module))
    model(x_of().requires_grad_())[0].sum().backward()
    assert seen == [model.blocks[0].two]


def test_a_dropout_that_is_switched_on_alone_drops():
    model = Model(PlainMlp(dropout=0.5))
    assert optimize(model).swapped
    model.blocks[0].drop.train()
    with torch.no_grad():
        assert float((model(x_of())[0] == 0).float().mean()) > 0.3


class DropsByItself(PlainMlp):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


def test_what_stores_its_input_is_kept():
    class Watched(GatedMlp):
        def forward(self, x):
            self.seen = x
            return super().forward(x)

    model = Model(Watched())
    (kept,) = optimize(model).kept
    assert kept.reason.endswith("it stores seen in itself, which somebody may read")
    assert not hasattr(model.blocks[0], "seen")


def test_a_dropout_that_is_no_module_counts_in_training_only():
    """Without gradients too: a checkpoint's first forward pass is such."""
    model = Model(DropsByItself())
    before = torch.get_rng_state()
    assert optimize(model).swapped
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        model.train()
        assert float((model(x_of())[0] == 0).float().mean()) > 0.3
        model.eval()
        assert torch.equal(model(x_of())[0], model(x_of())[0])


def test_what_has_no_parent_is_kept():
    report = optimize(GatedMlp().bfloat16())
    assert [one.reason[:22] for one in report.kept] == ["it is the whole model;"]


def test_torchs_own_errors_stay():
    model = Model(GatedMlp())
    optimize(model)
    with torch.no_grad(), pytest.raises(RuntimeError, match="dtype"):
        model(x_of(dtype=torch.float32))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert model(x_of(dtype=torch.float32))[0].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("tokens", "match"),
    [
        ((1, 0), "tokens is 0; it must be an integer from 1 to"),
        ((), "tokens lists 0 numbers"),
        ((1.5,), "tokens is 1.5; it must be an integer"),
    ],
)
def test_numbers_of_tokens_are_checked(tokens, match):
    with pytest.raises(DescriptionError, match=match):
        optimize(Model(GatedMlp()), tokens)


def test_what_is_no_model_and_tuning_without_a_gpu_are_refused():
    with pytest.raises(DescriptionError, match="model is a str"):
        optimize("model")
    model = Model(GatedMlp())
    with pytest.raises(DescriptionError, match="the model is on a CPU"):
        optimize(model, tune=True)
    assert type(model.blocks[0]) is GatedMlp
