"""The Hopper GEMM: which tile shapes exist, and how they are launched.

Example: under `Plan(Persistent())` the launch of a GEMM is 132 blocks, one per SM and in clusters of two
where that pays, that compute tile after tile; under `StreamSync()` it is a block per tile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.work.gemm import ACTIVATIONS, Gemm
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.gemm.gemm_backend import SPACES, Addresses, AddressField, GemmBackend, TileShape
from wavesim_gpu.kernels.gemm.sm90.fused_stages import two_alike
from wavesim_gpu.kernels.gemm.sm90.parameters import (
    TICKET_BYTES,
    address_fields_of,
    is_layer_form,
    layer_record_of,
    record_of,
)
from wavesim_gpu.kernels.gemm.sm90.tensor_map import PANEL
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS, TILE_K, WgmmaTile, config_of
from wavesim_gpu.kernels.stage_backend import SEMAPHORES, Combination

HOPPER_CAPABILITY = (9, 0)
MOST_SMS = 132  # of a Hopper GPU
# Parts of the tiles that Stream-K splits: at most 393 on 132 SMs, whatever the number of tiles.
STREAM_K_SUMS = 4 * MOST_SMS


class Hopper(GemmBackend):
    """TMA, wgmma, warps with roles; a block per tile, persistent, two stages in one kernel, Stream-K."""

    name = family = "hopper"
    begins_calls = True
    source = Path(__file__).with_name("gemm_sm90.cu")
    tiles = tuple((m, n, TILE_K) for m, n in TILE_CONFIGS)
    activations = (None, *ACTIVATIONS)
    b_orders = ("row", "column")
    gates = ("interleaved", "halves")
    biases = (False, True)
    has_layer_forms = True
    runs: ClassVar[tuple[Combination, ...]] = (
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
        return {"n": 16 if gemm.is_gated else 8, "k": 8}

    def check(self, gemm: Gemm, plan: Plan | None = None) -> None:
        """Raises also for split K under Stream-K, for halves that a row-major B has no panels for, and for
        tiles that cut through heads.
        """
        super().check(gemm, plan)
        _require_whole_heads(gemm, self.tiles)
        _require_whole_panels(gemm)
        if gemm.has_halves and gemm.b_order == "row" and gemm.tile_n % (2 * PANEL):
            fitting = ", ".join(f"{m}x{n}x{k}" for m, n, k in self.tiles if n % (2 * PANEL) == 0)
            raise DescriptionError(
                f"Gemm {gemm.name}: the tile is {gemm.tile_m}x{gemm.tile_n}x{gemm.tile_k}; with gates in "
                f"halves and B row-major a half must have a multiple of {PANEL} columns. Use {fitting}, or a "
                "column-major B"
            )
        if plan is not None and _is_stream_k(plan) and gemm.split_k > 1:
            raise DescriptionError(
                f"Gemm {gemm.name}: split_k is {gemm.split_k}; Stream-K splits K by itself. Use split_k=1"
            )

    def launch(self, gemm: Gemm, plan: Plan, device: Device) -> KernelLaunch:
        """Raises also `DeviceError` for a GPU that is not a Hopper."""
        require_hopper(self.name, device)
        self.check(gemm, plan)
        config = _config(gemm, plan)
        items = _work_items(gemm, config, plan)
        return one_stage_launch(self.name, config, gemm.dtype, _form(gemm), items, plan, device)

    def fused_launch(self, pipeline: Pipeline, plan: Plan, device: Device) -> KernelLaunch:
        """The kernel `fused_gemm_sm90`: two stages, one tile shape, one element type."""
        require_hopper(self.name, device)
        gemms = two_alike(pipeline)
        config = _config(gemms[0], plan)
        items = sum(_work_items(gemm, config, plan) for gemm in gemms)
        stages = ", ".join(
            f"{_form(gemm)}, {space}::generated::stage" for gemm, space in zip(gemms, SPACES, strict=True)
        )
        return KernelLaunch(
            f"fused_gemm_sm90<{config.name}, {_is_bf16(gemms[0].dtype)}, {stages}>",
            config.threads,
            config.dynamic_shared_bytes,
            _blocks(items, config, plan, device),
            config.cluster,
        )

    def arguments(self, gemm: Gemm, plan: Plan, addresses: Addresses) -> tuple[Any, ...]:
        """`GemmSm90Params`. Raises `DescriptionError` for misaligned addresses and strides."""
        record = record_of(gemm, _config(gemm, plan), addresses)
        record["is_persistent"] = plan.schedule.is_persistent
        record["is_dependent"] = plan.launch.is_dependent
        return (layer_record_of(gemm, record, addresses) if is_layer_form(gemm) else record,)

    def address_fields(self, gemm: Gemm, plan: Plan) -> list[AddressField]:
        return address_fields_of(gemm, _config(gemm, plan))

    def partial_bytes(self, gemm: Gemm, plan: Plan) -> int:
        """Bytes of fp32 partial sums that split K or Stream-K needs, zeroed once; else 0."""
        if _is_stream_k(plan):
            return TICKET_BYTES + STREAM_K_SUMS * 4 * gemm.tile_m * gemm.tile_n
        return super().partial_bytes(gemm, plan)


class ChainedHopper(Hopper):
    """The same for chains by dependent launch: blocks do not stay until the kernel before has ended."""

    name = "hopper-chained"
    source = Path(__file__).parent / "chained_gemm_sm90.cu"
    runs = tuple(run for run in Hopper.runs if run.schedules != ("fused",))


def one_stage_launch(
    backend: str, config: WgmmaTile, dtype: str, form: str, items: int, plan: Plan, device: Device
) -> KernelLaunch:
    """The kernel `gemm_sm90` of a C++ form, for so many tiles, splits or k-blocks to share out.

    Raises `DeviceError` for a GPU that is not a Hopper.
    """
    require_hopper(backend, device)
    return KernelLaunch(
        f"gemm_sm90<{config.name}, {_is_bf16(dtype)}, {form}, generated::stage>",
        config.threads,
        config.dynamic_shared_bytes,
        _blocks(items, config, plan, device),
        config.cluster,
    )


def _config(gemm: Gemm, plan: Plan) -> WgmmaTile:
    """Under Stream-K without clusters: their blocks would have to split alike."""
    config = config_of(gemm)
    return replace(config, cluster=1, is_stream_k=True) if _is_stream_k(plan) else config


def _is_stream_k(plan: Plan) -> bool:
    """Whether blocks have lists of parts of tiles; the only such schedule that it runs is Stream-K."""
    return plan.schedule.is_split_persistent


def _work_items(gemm: Gemm, config: WgmmaTile, plan: Plan) -> int:
    """What blocks share out: tiles and splits in whole clusters; under Stream-K k-blocks."""
    tiles = -(-gemm.grid.tiles // config.cluster) * config.cluster * gemm.split_k
    return tiles * -(-gemm.k // TILE_K) if _is_stream_k(plan) else tiles


def _blocks(items: int, config: WgmmaTile, plan: Plan, device: Device) -> int:
    """One block per SM holds nearly all of its shared memory."""
    return plan.schedule.block_count(items, device.sm_count // config.cluster * config.cluster)


def _is_bf16(dtype: str) -> str:
    return str(dtype == "bf16").lower()


def _form(gemm: Gemm) -> str:
    """The C++ type, sm90/tile_config.cuh; without what is the usual."""
    activation = (gemm.activation or "none").replace("-", "_")
    rope_dim = gemm.rope.head_dim if gemm.rope else 0
    flags = (gemm.has_bias, gemm.has_halves, gemm.has_residual, rope_dim, gemm.cache is not None)
    words = [f"Activation::{activation}", f"Order::{gemm.b_order}", *(str(flag).lower() for flag in flags)]
    while words[-1] in ("false", "0", "Order::row"):
        words.pop()
    return f"Form<{', '.join(words)}>"


def _require_whole_heads(gemm: Gemm, tiles: Iterable[TileShape]) -> None:
    """Raises `DescriptionError` unless a tile holds whole heads, and whole panels of K and of V."""
    unit = gemm.rope.head_dim if gemm.rope else PANEL if gemm.cache else 1
    if gemm.tile_n % unit:
        fitting = ", ".join(f"{m}x{n}x{k}" for m, n, k in tiles if n % unit == 0)
        raise DescriptionError(
            f"Gemm {gemm.name}: tile_n is {gemm.tile_n}; with {gemm.rope or gemm.cache} it must be a "
            f"multiple of {unit}. Use {fitting}"
        )


def _require_whole_panels(gemm: Gemm) -> None:
    """Raises `DescriptionError` where rows that are stored at once would be of two sequences."""
    cache = gemm.cache
    if cache is not None and gemm.m > cache.rows > 1 and cache.rows % PANEL:
        raise DescriptionError(
            f"Gemm {gemm.name}: the cache takes {cache.rows} rows of each of {gemm.m // cache.rows} "
            f"sequences; of several sequences it must be 1 or a multiple of {PANEL}. Pad the sequences"
        )


def require_hopper(backend: str, device: Device) -> None:
    """Raises `DeviceError` for a GPU that is not a Hopper."""
    if device.compute_capability != HOPPER_CAPABILITY:
        major, minor = device.compute_capability
        raise DeviceError(
            f"{device.name} has compute capability {major}.{minor}; backend {backend!r} needs 9.0 "
            "(wgmma, TMA). Use backend='portable'"
        )
