"""A trial leaves the model as it was whatever happens; what is wrong, slower or noise is not advised."""

import itertools
import sys
from dataclasses import replace

import pytest
from pretended_swap import pretended_swap

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim_gpu.layers.choose import Choice
from wavesim_gpu.trial import mlps, step_times
from wavesim_gpu.trial import model_trial as trying
from wavesim_gpu.trial.model_trial import TrialOptions, try_model
from wavesim_gpu.trial.trial_page import trial_html
from wavesim_gpu.trial.trial_text import json_object, report_text
from wavesim_gpu.trial.user_model import UserModel, call_model

torch = pytest.importorskip("torch")
OPTIONS = TrialOptions(rounds=4, limit_s=100)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = torch.nn.Linear(8, 16), torch.nn.Linear(8, 16)
        self.down_proj = torch.nn.Linear(16, 8)

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Stack(torch.nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = torch.nn.ModuleList(Mlp() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return {"logits": x}


def user(step=call_model, model=None):
    torch.manual_seed(1)
    return UserModel("model.py", model or Stack(), (torch.randn(3, 8),), step)


def state(model):
    """The modules by name, and their weights: what a trial must leave alone."""
    return dict(model.named_modules()), {name: value.clone() for name, value in model.state_dict().items()}


def is_same(before, model):
    modules, weights = state(model)
    same = (
        all(modules[name] is module for name, module in before[0].items())
        and modules.keys() == before[0].keys()
    )
    return same and all(torch.equal(weights[name], value) for name, value in before[1].items())


@pytest.fixture
def pretended(monkeypatch):
    """A GPU that is the CPU: a graph is the call itself, and the clock ticks as `times` says."""

    def start(scale=1.0, kept=(), times=None, capture=None, swap=None):
        monkeypatch.setitem(sys.modules, "wavesim_gpu.torch", swap or pretended_swap(scale, kept))
        monkeypatch.setattr(trying, "query", lambda: load("h200"))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(trying._Trial, "_require_on_gpu", lambda self: None)
        monkeypatch.setattr(trying, "profiled_advice", no_profile)
        for module in (trying, mlps):
            monkeypatch.setattr(module, "CapturedStep", capture or (lambda run: run))
            monkeypatch.setattr(module, "interleaved_steps", timed(times or {}))
        monkeypatch.setattr(
            mlps, "choose", lambda shape, device: Choice("pdl+row", 900.0, 1000.0, "estimated")
        )

    return start


def no_profile(_user):
    raise DeviceError("no profiler here")


def timed(times):
    def interleaved(steps, rounds, *, on_gpu):
        found = []
        for step in steps:
            if step.prepare is not None:
                step.prepare()
            step.run()
            ticks = itertools.cycle(times.get(step.label, (1000,)))
            found.append(step_times.StepTimes(step.label, tuple(itertools.islice(ticks, rounds)), 1))
        return found

    return interleaved


def test_a_gain_is_told_with_its_interval_and_the_model_is_as_it_was(pretended):
    pretended(times={"MLPs swapped": (900, 910, 920, 930), "after": (800,)})
    tried = user()
    before = state(tried.model)
    result = try_model(tried, OPTIONS)
    assert result.verdict == "gains 8.5 % (7.7 to 9.2)"
    assert is_same(before, tried.model)
    (group,) = result.groups
    assert group.names == ("layers.0", "layers.1")
    assert group.shape.m == 3
    assert result.predicted_saving_ns == 200
    assert group.after.times_ns == (800,) * 4
    assert "no profiler here" in result.notes[0]
    text = report_text(result)
    assert text.splitlines()[-1].startswith(
        "Verdict: gains 8.5 % (7.7 to 9.2). To have it: import wavesim_gpu.torch"
    )
    assert "2 x layers.0" in text
    assert "the MLPs save 0.2 us of a step over cuBLASLt. Measured: the step takes 0.1 us less" in text
    assert json_object(result)["programs"][2]["times_ns"] == (900, 910, 920, 930)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (
            {"MLPs swapped": (1010, 1020, 1030, 1040)},
            "leave it as it is: swapped, the step takes 2.5 % longer",
        ),
        ({"MLPs swapped": (900, 1100, 1200, 950)}, "leave it as it is: the gain of"),
        ({"MLPs swapped": (990,), "as it is, again": (980,)}, "no more than the noise (2.0 %)"),
    ],
)
def test_slower_or_within_noise_is_left_as_it_is(pretended, times, said):
    pretended(times=times)
    tried = user()
    before = state(tried.model)
    result = try_model(tried, OPTIONS)
    assert said in result.verdict
    assert is_same(before, tried.model)
    assert "To have it" not in report_text(result)


def test_wrong_numbers_are_never_timed(pretended):
    pretended(scale=1.5)
    tried = user()
    before = state(tried.model)
    result = try_model(tried, OPTIONS)
    assert result.verdict.startswith(
        "leave it as it is: numbers differ too much, not swapped: relative error"
    )
    assert result.programs == ()
    assert is_same(before, tried.model)


def test_numbers_that_are_wrong_in_the_graph_alone_are_never_timed(pretended):
    taken = itertools.count()

    def capture(run):
        is_third = next(taken) == 2
        return lambda: {"logits": run()["logits"] * (3 if is_third else 1)}

    pretended(capture=capture)
    result = try_model(user(), OPTIONS)
    assert "numbers differ too much" in result.verdict
    assert result.programs == ()


def test_a_step_that_fails_with_the_mlps_swapped_alone_is_left_as_it_is(pretended):
    pretended()

    def step(model, inputs):
        if type(model.layers[0]) is not Mlp:
            raise RuntimeError("the wait was given up")
        return model(*inputs)

    tried = user(step)
    before = state(tried.model)
    result = try_model(tried, OPTIONS)
    assert result.verdict.startswith("leave it as it is: swapped, a step fails: ")
    assert result.verdict.endswith("RuntimeError: the wait was given up")
    assert is_same(before, tried.model)


def test_what_cannot_be_captured_is_timed_from_python(pretended):
    def capture(run):
        raise DeviceError("not captured in a CUDA graph: a copy to the host")

    pretended(capture=capture, times={"MLPs swapped": (900,)})
    result = try_model(user(), OPTIONS)
    assert result.how == "calls from Python"
    assert result.verdict == "gains 10.0 % (10.0 to 10.0)"
    assert any("a copy to the host" in note for note in result.notes)
    assert "a copy to the host" in result.groups[0].note


def test_without_an_mlp_there_is_nothing_to_swap_and_the_reasons_are_told(pretended):
    pretended(kept=[("head.mlp", "quantised weights")])
    tried = user(model=torch.nn.Linear(8, 8))
    result = try_model(tried, OPTIONS)
    assert result.verdict == "leave it as it is: there is no MLP that can be swapped"
    assert "head.mlp (Mlp): quantised weights" in report_text(result)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_whatever_ends_a_trial_leaves_the_model_as_it_was(pretended, monkeypatch, stop):
    pretended()

    def fail(*_, **__):
        raise stop

    monkeypatch.setattr(trying, "interleaved_steps", fail)
    tried = user()
    before = state(tried.model)
    with pytest.raises(stop):
        try_model(tried, OPTIONS)
    assert is_same(before, tried.model)


def test_a_step_that_changes_weights_is_refused(pretended):
    pretended()

    def step(model, inputs):
        with torch.no_grad():
            model.layers[0].down_proj.weight.add_(1)
        return model(*inputs)

    with pytest.raises(DescriptionError, match=r"changes the weights \(layers.0.down_proj.weight\)"):
        try_model(user(step), OPTIONS)


def test_a_step_whose_outputs_vary_or_are_none_is_refused(pretended):
    pretended()
    counter = itertools.count(1)
    with pytest.raises(DescriptionError, match="two steps as they are differ"):
        try_model(user(lambda model, inputs: model(*inputs)["logits"] * next(counter)), OPTIONS)
    with pytest.raises(DescriptionError, match="no floating tensors"):
        try_model(user(lambda model, inputs: None), OPTIONS)


def test_dropout_is_the_same_in_each_step_as_the_seed_is(pretended):
    pretended()
    stack = Stack()

    def step(model, inputs):
        return torch.nn.functional.dropout(model(*inputs)["logits"], 0.5)

    assert try_model(user(step, stack), OPTIONS).difference.is_small


def test_a_model_on_the_cpu_beside_a_gpu_is_told_to_move(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(DescriptionError, match=r"model.py: the model is on cpu; .*to\('cuda'\)"):
        try_model(user(), OPTIONS)


def test_without_a_gpu_everything_is_said_to_be_simulated(monkeypatch):
    monkeypatch.setitem(sys.modules, "wavesim_gpu.torch", pretended_swap())
    monkeypatch.setattr(mlps, "choose", lambda shape, device: Choice("pdl+row", 900.0, 1000.0, "estimated"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    tried = user()
    before = state(tried.model)
    result = try_model(tried, OPTIONS)
    assert is_same(before, tried.model)
    assert not result.is_measured
    assert result.verdict == (
        "not measured, there is no GPU here; simulated for h200: the MLPs save 0.2 us of a step over cuBLASLt"
    )
    assert "no GPU here; simulated for" in report_text(result)


def test_the_verdict_says_what_the_swap_does_under_torch_compile(pretended, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model, dynamic: model)
    monkeypatch.setattr(torch.compiler, "reset", lambda: None)
    pretended(
        times={"MLPs swapped": (900,), "torch.compile": (800,), "torch.compile, MLPs swapped": (820,)},
    )
    result = try_model(user(), replace(OPTIONS, with_compile=True))
    assert result.verdict == (
        "gains 10.0 % (10.0 to 10.0); under torch.compile: leave it as it is: swapped, the step takes "
        "2.5 % longer (2.5 to 2.5)"
    )


def test_a_gpu_that_nothing_is_known_of_is_said_to_be_cublaslts(monkeypatch):
    monkeypatch.setitem(sys.modules, "wavesim_gpu.torch", pretended_swap())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = try_model(user(), replace(OPTIONS, device="a100-80gb", tune=True))
    assert result.verdict.endswith(
        "cuBLASLt computes the MLPs: no products were timed on the a100-80gb, so nothing can be predicted"
    )
    assert "nothing was tuned or compiled" in report_text(result)


def test_tuned_mlps_take_the_way_that_was_found_at_their_own_rows(pretended):
    pretended(times={"MLPs swapped": (900,)})
    result = try_model(user(), TrialOptions(rounds=2, tune=True))
    assert result.groups[0].way == "tuned at 3"
    assert result.groups[0].choice.label == "pdl+row"


def test_a_module_in_two_places_is_swapped_and_put_back_in_both(pretended):
    pretended(times={"MLPs swapped": (900,)})
    stack = Stack()
    stack.layers[1] = stack.layers[0]
    tried = user(model=stack)
    assert try_model(tried, OPTIONS).verdict.startswith("gains")
    assert stack.layers[0] is stack.layers[1]
    assert type(stack.layers[1]) is Mlp


def test_a_model_that_is_swapped_already_is_refused_and_stays_swapped(pretended):
    pretended()
    tried = user()
    sys.modules["wavesim_gpu.torch"].optimize(tried.model)
    before = state(tried.model)
    with pytest.raises(DescriptionError, match="swapped already"):
        try_model(tried, OPTIONS)
    assert is_same(before, tried.model)


def test_a_page_escapes_what_comes_from_the_users_file(pretended):
    pretended(times={"MLPs swapped": (900,)}, kept=[("<script>alert(1)</script>", "&amp; quantised")])
    result = try_model(user(), OPTIONS)
    page = trial_html(result)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; (Mlp): &amp;amp; quantised" in page
    assert "model.py: gains 10.0 % (10.0 to 10.0)</h1>" in page
    assert page.count("<svg") == 2


def test_a_swapped_program_that_is_slower_is_not_drawn_as_a_gain(pretended):
    pretended(times={"MLPs swapped": (1100,), "after": (900,)})
    page = trial_html(try_model(user(), OPTIONS))
    assert (page.count('class="slower"'), page.count('class="after"')) == (1, 1)


@pytest.mark.filterwarnings("ignore")  # what transformers warns of is its own
def test_the_real_swap_of_a_hugging_face_model_is_tried_and_undone(pretended):
    transformers = pytest.importorskip("transformers")
    real = pytest.importorskip("wavesim_gpu.torch")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=3, vocab_size=64, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    pretended(swap=real, times={"MLPs swapped": (900,), "after": (800,)})
    before = state(model)
    tried = UserModel("model.py", model, {"input_ids": torch.arange(12).reshape(2, 6)}, call_model)
    result = try_model(tried, OPTIONS)
    assert result.verdict.startswith("gains 10.0 %")
    assert result.difference.is_small
    (group,) = result.groups
    assert group.names == tuple(f"model.layers.{layer}.mlp" for layer in range(3))
    assert (group.shape.m, group.shape.k, group.shape.n1, group.shape.gate) == (12, 64, 128, "separate")
    assert group.after is not None
    assert is_same(before, model)


def test_the_limit_ends_what_is_left(pretended):
    pretended(times={"MLPs swapped": (900,)})
    result = try_model(user(), TrialOptions(rounds=2, limit_s=0.0))
    assert result.verdict.startswith("gains")
    assert result.groups[0].before is None
    assert "Not done within 0 s: the rest of the MLPs alone." in result.notes


def test_gradients_and_running_means_are_what_they_were_after_a_step_with_a_backward_pass():
    class Normed(Stack):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(8)

        def forward(self, x):
            return {"logits": self.norm(super().forward(x)["logits"])}

    def step(model, inputs):
        found = model(*inputs)["logits"]
        found.square().sum().backward()
        return found

    tried = user(step, Normed())
    mine = torch.ones_like(tried.model.norm.weight)
    tried.model.norm.weight.grad = mine
    before = state(tried.model)
    if torch.cuda.is_available():
        pytest.skip("the simulated path; a GPU has its own test")
    try_model(tried, OPTIONS)
    assert is_same(before, tried.model)
    assert tried.model.norm.weight.grad is mine
    assert torch.equal(mine, torch.ones(8))
    assert all(one.grad is None for name, one in tried.model.named_parameters() if name != "norm.weight")
