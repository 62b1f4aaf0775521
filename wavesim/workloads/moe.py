"""A MoE layer after its router: gate and up, SwiGLU, down, and the weighted sum over a token's experts.

Example: `moe_layer("qwen3-30b-a3b", 256, skew=1.0)` is three stages. A down tile needs the gate-up tiles of
its own block of rows, of one expert; the sum needs whatever its tokens' experts made, so all of them.
"""

from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.work.grouped import Combine, GroupedGemm

FEW_ROWS = 48
# Experts, top k, hidden, inner, of the models' published configurations.
MOE_MODELS: dict[str, tuple[int, int, int, int]] = {
    "qwen3-30b-a3b": (128, 8, 2048, 768),
    "deepseek-v2-lite": (64, 6, 2048, 1408),
    "gpt-oss-20b-like": (32, 4, 2880, 2880),
    "mixtral-8x7b": (8, 2, 4096, 14336),
}


@typed
def moe_layer(
    model: str,
    tokens: int = 256,
    *,
    experts: int | None = None,
    top_k: int | None = None,
    tile: tuple[int, int] | None = None,
    combined: int = 1,
    **routing: Any,
) -> Pipeline:
    """The layer of a model of `MOE_MODELS`, perhaps with other `experts`; `combined` tokens are a tile of
    the sum.

    Without a `tile` the products have that of our kernels: 64 x 128 where experts have up to `FEW_ROWS` rows
    on average, else 128 x 256. `routing`: `skew`, `seed`, `counts` and `expert_order` of `GroupedGemm`.
    Raises `DescriptionError`.
    """
    if model not in MOE_MODELS:
        raise DescriptionError(f"model is {shown(model)}; MoE layers are known of {', '.join(MOE_MODELS)}")
    known_experts, known_k, hidden, inner = MOE_MODELS[model]
    experts, top_k = experts or known_experts, top_k or known_k
    tile_m, tile_n = tile or ((64, 128) if tokens * top_k <= FEW_ROWS * experts else (128, 256))
    sizes = {"tokens": tokens, "experts": experts, "top_k": top_k, "tile_m": tile_m, "tile_n": tile_n}
    both: dict[str, Any] = sizes | routing
    gate_up = Stage("gate_up", GroupedGemm("gate_up", n=2 * inner, k=hidden, activation="swiglu", **both))
    down = Stage("down", GroupedGemm("down", n=hidden, k=inner, **both))
    combine = Stage("combine", Combine("combine", tokens, top_k, hidden, combined))
    needs = [Dependency(down[x, y], [gate_up[:, y]]), Dependency(combine[x, y], [down[:, :]])]
    return Pipeline(f"{model}-moe-layer", [gate_up, down, combine], needs, {"tokens": tokens})
