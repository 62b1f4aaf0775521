"""A decoder's layers over two GPUs: `parallelize`, PyTorch's `parallelize_module` and NCCL by hand.

Example: the case m = 2048, n = 4 of llama-3-8b is a forward pass of 2,048 tokens through four of its layers,
random weights, bf16; with k = 512 it is a step of m sequences that have 512 keys each in a static cache.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from wavesim.safe_io.documents import read_toml
from wavesim_gpu.torch.parallel import tune_parallel_linear
from wavesim_gpu.torch.tensor_parallel import LAYERS, RowPart, parallelize

Call = Callable[[], Tensor]


class _SummedByHand(RowPart):
    """What a user writes without us."""

    def forward(self, x: Tensor) -> Tensor:
        """The library's product and NCCL's all-reduce."""
        out = nn.functional.linear(x, self.weight)
        dist.all_reduce(out, group=self.group)
        return out


def model_ways(name: str, size: tuple[int, int, int], group: Any) -> Mapping[str, Call]:
    """By its way a call of a model; all have the same weights."""
    tokens, keys, layers = size
    models = {way: made_model(name, layers) for way in ("parallelize", "dtensor", "by hand")}
    parallelize(models["parallelize"], group)
    _tune(models["parallelize"], tokens, group)
    parallelize(models["by hand"], group)
    for module in models["by hand"].modules():
        if isinstance(module, RowPart):
            module.__class__ = _SummedByHand
    _share_by_dtensor(models["dtensor"], group)
    return {way: _call(model, tokens, keys) for way, model in models.items()}


def made_model(name: str, layers: int) -> Any:
    """The decoder without its output layer, random weights, on the current GPU, or on the CPU without one."""
    import transformers  # noqa: PLC0415  # only this part of the measuring needs it

    fields = dict(_shapes()[name])
    config = getattr(transformers, f"{fields.pop('kind')}Config")(
        **fields, num_hidden_layers=layers, attn_implementation="sdpa"
    )
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = transformers.AutoModel.from_config(config, dtype=torch.bfloat16)
    return model.eval()


def _call(model: Any, tokens: int, keys: int) -> Call:
    device, width = model.device, model.config.vocab_size
    if not keys:
        ids = torch.arange(tokens, device=device)[None] % width
        return partial(_forward, model, ids)
    ids = torch.arange(tokens, device=device)[:, None] % width
    return partial(_forward, model, ids, past_key_values=_filled(model, tokens, keys))


@torch.no_grad()
def _forward(model: Any, ids: Tensor, **others: Any) -> Tensor:
    if (past := others.get("past_key_values")) is not None:
        past.begin()
        others["position_ids"] = past.position
    return model(ids, use_cache=bool(others), **others).last_hidden_state


def _filled(model: Any, rows: int, keys: int) -> Any:
    """A cache of so many keys, which each step reads whole and whose last place it writes anew."""
    from transformers.cache_utils import DynamicCache  # noqa: PLC0415  # as above

    class Filled(DynamicCache):
        """Steps from the same state: what a step appends is dropped before the next."""

        def begin(self) -> None:
            for layer, (k, v) in zip(self.layers, self.kept, strict=True):
                layer.keys, layer.values = k, v

    past = Filled(config=model.config)
    prompt = torch.arange(keys, device=model.device)[None].expand(rows, -1) % model.config.vocab_size
    with torch.no_grad():
        model(prompt, use_cache=True, past_key_values=past)
    past.kept = [(layer.keys, layer.values) for layer in past.layers]
    past.position = torch.full((rows, 1), keys, device=model.device)
    return past


def _tune(model: nn.Module, tokens: int, group: Any) -> None:
    """Each shape of its sums once, as a user would before serving."""
    seen = set()
    for module in model.modules():
        if isinstance(module, RowPart) and module.weight.shape not in seen and module.weight.is_cuda:
            seen.add(module.weight.shape)
            x = module.weight.new_zeros(tokens, module.in_features).normal_()
            tune_parallel_linear(x, module.weight, group)


def _share_by_dtensor(model: nn.Module, group: Any) -> None:
    from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415  # only for this way
    from torch.distributed.tensor.parallel import (  # noqa: PLC0415  # as above
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = DeviceMesh.from_group(group, "cuda" if torch.cuda.is_available() else "cpu")
    styles = {
        f"{part}.{word}": (RowwiseParallel() if word == words[-1] else ColwiseParallel())
        for part, words in zip(("self_attn", "mlp"), LAYERS, strict=True)
        for word in words
    }
    for layer in model.layers:  # type: ignore[union-attr]  # a decoder's
        parallelize_module(layer, mesh, styles)


@cache
def _shapes() -> dict[str, Any]:
    return dict(read_toml(Path(__file__).with_suffix(".toml")))
