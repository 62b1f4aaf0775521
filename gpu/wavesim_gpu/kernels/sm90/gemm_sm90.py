"""The Hopper GEMM: which tile shapes exist, and how they are launched.

Example: under `Plan(Persistent())` the launch of a GEMM is 132 blocks, one per SM and in clusters of two
where that pays, that compute tile after tile; under `StreamSync()` it is a block per tile.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.backend import (
    SEMAPHORES,
    SPACES,
    Addresses,
    AddressField,
    Backend,
    Combination,
    KernelLaunch,
    Operand,
)
from wavesim_gpu.kernels.sm90.fused_stages import two_alike
from wavesim_gpu.kernels.sm90.tensor_map import (
    ELEMENT_BYTES,
    PANEL,
    encode,
    encode_panels,
    encode_tiles,
    tiles_in_panels,
)
from wavesim_gpu.kernels.sm90.tile_config import TILE_CONFIGS, TILE_K, WgmmaTile, config_of

ALIGNMENT = 16  # bytes: addresses and rows of what TMA moves
ROW_UNIT = 8  # rows that shared memory's swizzle repeats after
HOPPER_CAPABILITY = (9, 0)
MOST_SMS = 132  # of a Hopper GPU
# Parts of the tiles that Stream-K splits: at most 393 on 132 SMs, whatever the number of tiles.
STREAM_K_SUMS = 4 * MOST_SMS
TICKET_BYTES = 4096

# sm90/tile_config.cuh, GemmSm90Params.
PARAMS = np.dtype(
    {
        "names": [
            *("a", "b", "c", "b_tiles", "c_tiles", "partials", "tickets"),
            *("k", "load_bytes", "is_persistent", "whole_tiles", "is_dependent"),
        ],
        "formats": ["V128"] * 5 + ["<u8"] * 2 + ["<i4"] * 5,
        "offsets": [0, 128, 256, 384, 512, 640, 648, 656, 660, 664, 668, 672],
        "itemsize": 704,
    }
)


class Hopper(Backend):
    """TMA, wgmma, warps with roles; a block per tile, persistent, two stages in one kernel, Stream-K."""

    name = "hopper"
    source = Path(__file__).with_name("gemm_sm90.cu")
    tiles = tuple((m, n, TILE_K) for m, n in TILE_CONFIGS)
    activations = (None, "gelu", "swiglu")
    runs = (
        Combination(("tile", "persistent", "stream-k"), ("one-stream", "graph", "pdl"), ("boundary",)),
        Combination(("tile", "persistent"), ("streams", "streams:no-wait-kernel", "pdl"), (SEMAPHORES,)),
        Combination(("fused",), ("one-stream", "graph"), (SEMAPHORES,)),
    )
    reasons: ClassVar = {
        "stream-k": "its kernel splits the last wave, or two where the last is filled to less than a quarter",
        "stream-k-in-order": "its kernel begins with the part that starts a tile",
        "host": "the runner queues launches ahead of the GPU; simulate() takes this one",
    }

    def multiples(self, gemm: Gemm) -> Mapping[str, int]:
        return {"n": 16 if gemm.activation == "swiglu" else 8, "k": TILE_K}

    def check(self, gemm: Gemm, plan: Plan | None = None) -> None:
        """Raises also for split K under Stream-K."""
        super().check(gemm, plan)
        if plan is not None and _is_stream_k(plan) and gemm.split_k > 1:
            raise DescriptionError(
                f"Gemm {gemm.name}: split_k is {gemm.split_k}; Stream-K splits K by itself. Use split_k=1"
            )

    def launch(self, gemm: Gemm, plan: Plan, device: Device) -> KernelLaunch:
        """Raises also `DeviceError` for a GPU that is not a Hopper."""
        _require_hopper(device)
        self.check(gemm, plan)
        config = _config(gemm, plan)
        return KernelLaunch(
            f"gemm_sm90<{config.name}, {_is_bf16(gemm)}, {_activation(gemm)}, generated::stage>",
            config.threads,
            config.dynamic_shared_bytes,
            _blocks(_work_items(gemm, config, plan), config, plan, device),
            config.cluster,
        )

    def fused_launch(self, pipeline: Pipeline, plan: Plan, device: Device) -> KernelLaunch:
        """The kernel `fused_gemm_sm90`: two stages, one tile shape, one element type."""
        _require_hopper(device)
        gemms = two_alike(pipeline)
        config = _config(gemms[0], plan)
        items = sum(_work_items(gemm, config, plan) for gemm in gemms)
        stages = ", ".join(
            f"{_activation(gemm)}, {space}::generated::stage"
            for gemm, space in zip(gemms, SPACES, strict=True)
        )
        return KernelLaunch(
            f"fused_gemm_sm90<{config.name}, {_is_bf16(gemms[0])}, {stages}>",
            config.threads,
            config.dynamic_shared_bytes,
            _blocks(items, config, plan, device),
            config.cluster,
        )

    def arguments(self, gemm: Gemm, plan: Plan, addresses: Addresses) -> tuple[Any, ...]:
        """`GemmSm90Params`. Raises `DescriptionError` for misaligned addresses."""
        config = _config(gemm, plan)
        record = np.zeros(1, PARAMS)[0]
        # Rows outside of A cost TMA as much as others: with 16 tokens a tenth of the time.
        rows_of_a = min(config.tile_m, -(-gemm.m // ROW_UNIT) * ROW_UNIT)
        record["load_bytes"] = (rows_of_a + config.loaded_columns) * ELEMENT_BYTES * TILE_K
        b, c = (gemm.k, gemm.n), (gemm.m, gemm.columns)
        maps = (
            ("a", addresses.a, (gemm.m, gemm.k), (rows_of_a // config.cluster, TILE_K)),
            ("b", addresses.b, b, (TILE_K // config.cluster, PANEL)),
            ("c", addresses.c, c, (PANEL, PANEL)),
        )
        for name, address, size, box in maps:
            if address % ALIGNMENT:
                raise DescriptionError(
                    f"Gemm {gemm.name}: {name} is at address {address:#x}; TMA needs a multiple of "
                    f"{ALIGNMENT} bytes. Use cupy.ascontiguousarray"
                )
            record[name] = encode(address, size, box, gemm.dtype)
        record["b_tiles"] = encode_panels(addresses.b, b, config.tile_n, TILE_K, gemm.dtype)
        record["whole_tiles"] = tiles_in_panels(gemm.n, config.tile_n)
        columns = gemm.columns * config.tile_n // gemm.n  # of a tile's outputs
        record["c_tiles"] = encode_tiles(addresses.c, c, columns, PANEL, gemm.dtype)
        record["partials"], record["tickets"] = addresses.partials, addresses.tickets
        if config.is_stream_k:  # the kernel puts its tickets back to zero itself
            record["partials"], record["tickets"] = addresses.partials + TICKET_BYTES, addresses.partials
        record["k"] = gemm.k
        record["is_persistent"] = plan.schedule.after != "end"
        record["is_dependent"] = plan.launch.follows == "start"
        return (record,)

    def address_fields(self, gemm: Gemm, plan: Plan) -> list[AddressField]:
        config = _config(gemm, plan)
        fields = [_map_field("a", "a"), _map_field("b", "b"), _map_field("c", "c")]
        if tiles_in_panels(gemm.n, config.tile_n):
            fields.append(_map_field("b_tiles", "b"))
        if gemm.n >= config.tile_n:
            fields.append(_map_field("c_tiles", "c"))
        tickets: Operand
        tickets, shift = ("partials", TICKET_BYTES) if config.is_stream_k else ("tickets", 0)
        return [
            *fields,
            AddressField(_offset("partials"), "pointer", "partials", shift),
            AddressField(_offset("tickets"), "pointer", tickets),
        ]

    def partial_bytes(self, gemm: Gemm, plan: Plan) -> int:
        """Bytes of fp32 partial sums that split K or Stream-K needs, zeroed once; else 0."""
        if _is_stream_k(plan):
            return TICKET_BYTES + STREAM_K_SUMS * 4 * gemm.tile_m * gemm.tile_n
        return super().partial_bytes(gemm, plan)


def _offset(name: str) -> int:
    """Where a field of `PARAMS` begins."""
    assert PARAMS.fields is not None
    return PARAMS.fields[name][1]


def _map_field(name: str, operand: Operand) -> AddressField:
    return AddressField(_offset(name), "map", operand)


def _config(gemm: Gemm, plan: Plan) -> WgmmaTile:
    """Under Stream-K without clusters: their blocks would have to split alike."""
    config = config_of(gemm)
    return replace(config, cluster=1, is_stream_k=True) if _is_stream_k(plan) else config


def _is_stream_k(plan: Plan) -> bool:
    """Whether blocks have lists of parts of tiles; the only such schedule that it runs is Stream-K."""
    return plan.schedule.after == "following"


def _work_items(gemm: Gemm, config: WgmmaTile, plan: Plan) -> int:
    """What blocks share out: tiles and splits in whole clusters; under Stream-K k-blocks."""
    tiles = -(-gemm.grid.tiles // config.cluster) * config.cluster * gemm.split_k
    return tiles * (gemm.k // TILE_K) if _is_stream_k(plan) else tiles


def _blocks(items: int, config: WgmmaTile, plan: Plan, device: Device) -> int:
    """One block per SM holds nearly all of its shared memory."""
    return plan.schedule.block_count(items, device.sm_count // config.cluster * config.cluster)


def _is_bf16(gemm: Gemm) -> str:
    return str(gemm.dtype == "bf16").lower()


def _activation(gemm: Gemm) -> str:
    return f"Activation::{gemm.activation or 'none'}"


def _require_hopper(device: Device) -> None:
    if device.compute_capability != HOPPER_CAPABILITY:
        major, minor = device.compute_capability
        raise DeviceError(
            f"{device.name} has compute capability {major}.{minor}; backend {Hopper.name!r} needs 9.0 "
            "(wgmma, TMA). Use backend='portable'"
        )
