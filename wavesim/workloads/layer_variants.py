"""Layers with more of what a model does: RoPE, a KV cache that the QKV product fills, splits for a device.

Example: `with_cache(with_rope(transformer_layer("llama-3-8b", 512)), cached=1024)` goes on with a prompt of
which 1,024 keys are cached. Its QKV product rotates Q and K at positions 1,024 to 1,535 and stores K and V as
these rows of the cache; attention reads the cache. Rows that were cached before need no wait.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import whole
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm.epilogue import CacheStore, Rope

AnyAttention = Attention | AttentionDecode
ROW_UNIT = 64  # the Hopper kernels store so many rows at once, which must be of one sequence


def with_rope(layers: Pipeline) -> Pipeline:
    """The same layers, whose QKV products rotate Q and K; one table of angles, "rope", for all layers.

    Positions go on after the keys that are cached. Raises `DescriptionError` for tiles that cut a head.
    """
    found: dict[str, Stage] = {}
    for qkv, attention in _pairs(layers):
        work, gemm = cast("AnyAttention", attention.work), qkv.gemm
        if gemm.tile_n % work.head_dim:
            raise DescriptionError(
                f"stage {qkv.name}: tile_n is {gemm.tile_n}; RoPE rotates whole heads of {work.head_dim} "
                f"columns. Use tiles={{'qkv': ({gemm.tile_m}, {work.head_dim})}}, or a multiple"
            )
        rope = Rope(work.heads + work.kv_heads, work.head_dim, work.new_rows, work.cached)
        found[qkv.name] = replace(
            qkv, work=replace(gemm, rope=rope), buffers={**qkv.buffers, "rope": View("rope")}
        )
    return _with_stages(layers, found, "rope")


def with_cache(layers: Pipeline, cached: int = 0, capacity: int = 0) -> Pipeline:
    """The same layers, whose QKV products store K and V into a KV cache per layer, which attention reads.

    A cache has `capacity` rows for a sequence, by default as many as there are keys. `cached` are a prompt's
    earlier keys, there before the run; in decode the layers say it. Raises `DescriptionError` for a cache too
    short, and for rows of several sequences that no kernel stores at once.
    """
    whole("cached", cached)
    whole("capacity", capacity)
    found: dict[str, Stage] = {}
    for number, (qkv, attention) in enumerate(_pairs(layers)):
        work = cast("AnyAttention", attention.work).reading_cache(cached, capacity)
        _require_whole_rows(qkv, work)
        gemm, keys, values = qkv.gemm, View(f"keys_{number}"), View(f"values_{number}")
        store = CacheStore(work.kv_heads * work.head_dim, work.new_rows, work.kv_rows, work.cached)
        rope = replace(gemm.rope, first=work.cached) if gemm.rope else None
        found[qkv.name] = replace(
            qkv,
            work=replace(gemm, cache=store, rope=rope),
            buffers={**qkv.buffers, "k_cache": keys, "v_cache": values},
        )
        kept = {name: view for name, view in attention.buffers.items() if name not in ("k_new", "v_new")}
        found[attention.name] = replace(attention, work=work, buffers={**kept, "k": keys, "v": values})
    parameters = {"cached": work.cached, "capacity": work.kv_rows}
    return _with_stages(layers, found, "cache", parameters)


def with_splits_for(layers: Pipeline, device: Device) -> Pipeline:
    """The same layers of decode, with as many splits as a device needs to be busy.

    Attention by the bytes that its blocks read (`best_splits`), products until there is a block per SM.
    Raises `DescriptionError` for a prompt's layers.
    """
    if layers.parameters.get("phase") != "decode":
        raise DescriptionError(
            f"pipeline {layers.name}: no stage is decode attention, whose splits follow a device. Use "
            "phase='decode', or tiles={'out': (rows, columns, splits)}"
        )
    return _with_stages(
        layers,
        {stage.name: replace(stage, work=stage.work.with_splits_for(device)) for stage in layers.stages},
    )


def _pairs(layers: Pipeline) -> list[tuple[Stage, Stage]]:
    """Each layer's QKV product and its attention. Raises `DescriptionError` where there are none."""
    found = []
    for stage in layers.stages:
        dependency = layers.dependency_of(stage.name)
        if stage.work.attends and dependency is not None:
            found.append((dependency.needs[0].stage, stage))
    if not found:
        raise DescriptionError(
            f"pipeline {layers.name}: no stage is attention after a QKV product. Use transformer_layer"
        )
    return found


def _require_whole_rows(qkv: Stage, work: AnyAttention) -> None:
    rows = work.new_rows
    if work.sequences > 1 < rows and rows % ROW_UNIT:
        padded = -(-rows // ROW_UNIT) * ROW_UNIT
        raise DescriptionError(
            f"stage {qkv.name}: {work.sequences} sequences have {rows} rows each; of several, a cache takes "
            f"1 or a multiple of {ROW_UNIT}. Pad them to {padded}: tokens={work.sequences * padded}"
        )


def _with_stages(
    layers: Pipeline,
    changed: Mapping[str, Stage],
    word: str = "",
    parameters: Mapping[str, int | str] | None = None,
) -> Pipeline:
    """Some stages in another form, with the same tiles, and therefore the same needs."""
    return replace(
        layers.with_stages({stage.name: changed.get(stage.name, stage) for stage in layers.stages}),
        name=f"{layers.name}-{word}" if word else layers.name,
        parameters={**layers.parameters, **(parameters or {})},
    )
