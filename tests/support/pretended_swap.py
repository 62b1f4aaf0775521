"""A stand-in for `wavesim_gpu.torch`: swaps gated MLPs for modules that compute the same with torch.

Example: `monkeypatch.setitem(sys.modules, "wavesim_gpu.torch", pretended_swap(scale=1.5))` gives swapped
MLPs whose outputs are wrong by half.
"""

from dataclasses import dataclass, field
from types import ModuleType

from wavesim_gpu.layers.choose import Choice
from wavesim_gpu.layers.description import MlpShape


@dataclass
class Found:
    name: str
    shape: MlpShape | None = None
    reason: str = ""
    kind: str = "Mlp"
    choices: tuple = ()


@dataclass
class Report:
    swapped: list[Found] = field(default_factory=list)
    kept: list[Found] = field(default_factory=list)


def pretended_swap(scale=1.0, kept=()):
    """The module; `kept` are names with reasons of modules that are not swapped."""
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self, original):
            super().__init__()
            self.gate_proj, self.up_proj, self.down_proj = (
                original.gate_proj,
                original.up_proj,
                original.down_proj,
            )
            self.original = (original,)

        def forward(self, x):
            inner = torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x)
            return self.down_proj(inner) * scale

    def optimize(model, tokens=(1,), *, tune=False, device=None):
        report = Report(kept=[Found(name, reason=reason) for name, reason in kept])
        for name, module in list(model.named_modules()):
            if hasattr(module, "down_proj"):
                n, k = module.gate_proj.weight.shape
                orders = {"w1_order": "column", "w2_order": "column"}
                shape = MlpShape(tokens[0], k, n, k, "bf16", "swiglu", gate="separate", **orders)
                if not isinstance(module, Scaled):
                    put(model, name, Scaled(module))
                ways = (Choice(f"tuned at {tokens[0]}" if tune else "pretended"),)
                report.swapped.append(Found(name, shape, choices=ways))
        return report

    def restore(model):
        for name, module in list(model.named_modules()):
            if isinstance(module, Scaled):
                put(model, name, module.original[0])

    found = ModuleType("wavesim_gpu.torch")
    found.optimize, found.restore = optimize, restore
    return found


def put(model, name, module):
    """In every place that the module of this name has."""
    before = model.get_submodule(name)
    for parent in list(model.modules()):
        for child, found in parent._modules.items():
            if found is before:
                parent._modules[child] = module
