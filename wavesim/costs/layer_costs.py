"""Costs of GEMMs, attention, decode and row kernels that nobody timed, from a device's constants.

Example: on an H200 a layer's QKV tiles take what `[products]` says, attention's what `[attention]` says of
the blocks of keys that each walks through, and its norms what their bytes take.
"""

from typing import Any

from wavesim.costs.attention_costs import attention_costs_of
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.costs.product_costs import ProductTile, bent, product_costs_of
from wavesim.costs.streaming_costs import streaming_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.attention import Attention, AttentionDecode
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.rows import Copy, Norm, Softmax
from wavesim.model.stage import Stage

FEW_ROWS = 64  # of a product that is bound by reading its weights


def costs_of_stages(pipeline: Pipeline, device: Device) -> CostModel:
    """Each stage's tile times by what it computes, its own overheads, and the device's for all else.

    Raises `DescriptionError` for work, or a device, of which no constants are known.
    """
    tile_ns = {stage.name: _tile_ns(stage, device) for stage in pipeline.stages}
    return CostModel(tile_ns, **overheads_of_stages(pipeline, device))


def overheads_of_stages(pipeline: Pipeline, device: Device) -> dict[str, Any]:
    """`CostModel`'s overheads: the device's, each stage's backend's, and whose blocks stay to the end."""
    known = costs_of(device.name)
    own = {
        stage.name: costs.overheads
        for stage in pipeline.stages
        if (costs := known.backends.get((stage.backend, "tile"))) is not None
    }
    stays = frozenset(stage.name for stage in pipeline.stages if isinstance(stage.work, Gemm))
    return {**known.overheads, "stage_overheads": own, "stays": stays}


def _tile_ns(stage: Stage, device: Device) -> int | list[int]:
    work, name = stage.work, device.name
    products, attention = product_costs_of(name), attention_costs_of(name)
    if isinstance(work, Gemm) and products is not None:
        tile = ProductTile(work.tile_m, work.tile_n, work.split_k)
        time = products.tile_ns(tile, work.m, work.k) + products.block_ns
        if work.m <= FEW_ROWS:
            waves = -(-work.grid.size // device.sm_count)
            time = bent(time, products.floor_ns(work.m, work.n, work.k) / waves)
        return round(time)
    if isinstance(work, Attention) and attention is not None:
        return attention.tile_ns(work)
    section = "decode" if isinstance(work, AttentionDecode) else "rows"
    streaming = streaming_costs_of(name, section)
    if isinstance(work, AttentionDecode | Norm | Softmax | Copy) and streaming is not None:
        return streaming.tile_ns(stage.kernel, device)
    raise DescriptionError(
        f"stage {stage.name} is a {type(work).__name__}, of which no costs are known on {name}; give its "
        "time (kernel_us), or use a device whose file has them"
    )
