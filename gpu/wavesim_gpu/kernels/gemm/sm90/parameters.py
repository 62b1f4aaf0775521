"""The parameters of the Hopper GEMM: one record per launch, and where in it addresses are.

Example: of a column-major B in tiles of 256 columns the record has one tensor map, in boxes of (256, 64);
with gates in halves it has two, of the gates' and of the values' matrix, in boxes of (128, 64).
"""

from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses, AddressField, Operand
from wavesim_gpu.kernels.gemm.sm90.tensor_map import (
    ELEMENT_BYTES,
    PANEL,
    encode,
    encode_panels,
    encode_sequences,
    encode_tiles,
    tiles_in_panels,
)
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_K, WgmmaTile

ALIGNMENT = 16  # bytes: addresses and rows of what TMA moves
ROW_UNIT = 8  # rows that shared memory's swizzle repeats after
PAIR_BYTES = 4  # a bias is read in pairs of elements
TICKET_BYTES = 4096  # ahead of the partial sums of Stream-K, whose kernel puts its tickets back to zero

# sm90/tile_config.cuh, GemmSm90Params.
PARAMS = np.dtype(
    {
        "names": [
            *("a", "b", "c", "b_tiles", "c_tiles", "partials", "tickets"),
            *("k", "load_bytes", "is_persistent", "whole_tiles", "is_dependent"),
            *("b_values", "bias", "values_bias", "bias_columns"),
        ],
        "formats": [*["V128"] * 5, *["<u8"] * 2, *["<i4"] * 5, "V128", *["<u8"] * 2, "<i4"],
        "offsets": [0, 128, 256, 384, 512, 640, 648, 656, 660, 664, 668, 672, 704, 832, 840, 848],
        "itemsize": 896,
    }
)


# sm90/tile_config.cuh, LayerGemmParams: `PARAMS`, then these.
LAYER_PARAMS = np.dtype(
    {
        "names": [
            *("plain", "residual", "k_cache", "v_cache", "rope", "rope_heads", "first_position", "rope_rows"),
            *("k_column", "v_column", "cache_rows"),
        ],
        "formats": [PARAMS, *["V128"] * 3, "<u8", *["<i4"] * 6],
        "offsets": [0, 896, 1024, 1152, 1280, 1288, 1292, 1296, 1300, 1304, 1308],
        "itemsize": 1344,
    }
)


def record_of(gemm: Gemm, config: WgmmaTile, addresses: Addresses) -> Any:
    """The parameters but for what the plan alone decides. Raises `DescriptionError` for misaligned ones."""
    _require_aligned(gemm, addresses)
    record = np.zeros(1, PARAMS)[0]
    # Rows outside of A cost TMA as much as others: with 16 tokens a tenth of the time.
    rows_of_a = min(config.tile_m, -(-gemm.m // ROW_UNIT) * ROW_UNIT)
    columns_of_b = config.tile_n if gemm.b_order == "column" else config.loaded_columns
    record["load_bytes"] = (rows_of_a + columns_of_b) * ELEMENT_BYTES * TILE_K
    box = (rows_of_a // config.cluster, TILE_K)
    record["a"] = encode(addresses.a, (gemm.m, gemm.k), box, gemm.dtype, addresses.a_stride)
    _write_b(record, gemm, config, addresses)
    _write_c(record, gemm, config, addresses)
    record["partials"], record["tickets"] = addresses.partials, addresses.tickets
    if config.is_stream_k:
        record["partials"], record["tickets"] = addresses.partials + TICKET_BYTES, addresses.partials
    for name in _biases(gemm):
        record[name] = getattr(addresses, name)
    record["bias_columns"] = _columns_of_b(gemm)
    record["k"] = gemm.k
    return record


def is_layer_form(gemm: Gemm) -> bool:
    """Whether its kernel takes `LAYER_PARAMS`."""
    return gemm.has_residual or gemm.rope is not None or gemm.cache is not None


def layer_record_of(gemm: Gemm, plain: Any, addresses: Addresses) -> Any:
    """The parameters of a form whose outputs a layer goes on with; `plain` are the others."""
    record = np.zeros(1, LAYER_PARAMS)[0]
    record["plain"] = plain
    if gemm.has_residual:
        size, stride = (gemm.m, gemm.columns), addresses.residual_stride
        record["residual"] = encode(addresses.residual, size, (PANEL, PANEL), gemm.dtype, stride)
    if gemm.rope is not None:
        record["rope"], record["rope_heads"] = addresses.rope, gemm.rope.heads
        record["rope_rows"], record["first_position"] = gemm.rope.rows, gemm.rope.first
    if gemm.cache is not None:
        _write_caches(record, gemm, gemm.cache, addresses)
    return record


def _write_caches(record: Any, gemm: Gemm, cache: CacheStore, addresses: Addresses) -> None:
    """Maps that begin at the new rows. Of one row per sequence, the sequences are the rows of one matrix."""
    sequences = gemm.m // cache.rows
    record["k_column"], record["v_column"] = gemm.columns, gemm.columns + cache.columns
    record["cache_rows"] = gemm.m if cache.rows == 1 else cache.rows
    for name in ("k_cache", "v_cache"):
        stride = getattr(addresses, f"{name}_stride") or cache.columns
        first = getattr(addresses, name) + cache.first * stride * ELEMENT_BYTES
        apart = cache.capacity * stride
        size, strides = (sequences, cache.rows, cache.columns), (apart, stride)
        if cache.rows == 1:
            size, strides = (1, sequences, cache.columns), (sequences * apart, apart)
        record[name] = encode_sequences(first, size, strides, PANEL, gemm.dtype)


def address_fields_of(gemm: Gemm, config: WgmmaTile) -> list[AddressField]:
    """Where `record_of` and `layer_record_of` put which address; those of caches are left out."""
    fields = [_map_field("a", "a"), _map_field("b", "b"), _map_field("c", "c")]
    if gemm.has_halves:
        fields.append(_map_field("b_values", "b_values"))
    elif _whole_tiles(gemm, config):
        fields.append(_map_field("b_tiles", "b"))
    if gemm.has_residual:
        fields.append(AddressField(_layer_offset("residual"), "map", "residual"))
    if gemm.rope is not None:
        fields.append(AddressField(_layer_offset("rope"), "pointer", "rope"))
    if gemm.columns >= _columns_of_c(gemm, config):
        fields.append(_map_field("c_tiles", "c"))
    tickets: Operand
    tickets, shift = ("partials", TICKET_BYTES) if config.is_stream_k else ("tickets", 0)
    return [
        *fields,
        *(AddressField(_offset(name), "pointer", name) for name in _biases(gemm)),
        AddressField(_offset("partials"), "pointer", "partials", shift),
        AddressField(_offset("tickets"), "pointer", tickets),
    ]


def _write_b(record: Any, gemm: Gemm, config: WgmmaTile, addresses: Addresses) -> None:
    """B's tensor maps: of one matrix, or of gates and values; by rows also one for all panels of a tile."""
    columns, stride = _columns_of_b(gemm), addresses.b_stride
    if gemm.b_order == "column":
        parts = max(config.cluster, 2 if gemm.has_halves else 1)
        size, box = (columns, gemm.k), (config.tile_n // parts, TILE_K)
    else:
        size, box = (gemm.k, columns), (TILE_K // config.cluster, PANEL)
    record["b"] = encode(addresses.b, size, box, gemm.dtype, stride)
    if gemm.has_halves:
        record["b_values"] = encode(addresses.b_values, size, box, gemm.dtype, stride)
    record["whole_tiles"] = _whole_tiles(gemm, config)
    if record["whole_tiles"]:
        record["b_tiles"] = encode_panels(addresses.b, size, config.tile_n, TILE_K, gemm.dtype, stride)


def _write_c(record: Any, gemm: Gemm, config: WgmmaTile, addresses: Addresses) -> None:
    size, stride = (gemm.m, gemm.columns), addresses.c_stride
    record["c"] = encode(addresses.c, size, (PANEL, PANEL), gemm.dtype, stride)
    record["c_tiles"] = encode_tiles(
        addresses.c, size, _columns_of_c(gemm, config), PANEL, gemm.dtype, stride
    )


def _biases(gemm: Gemm) -> tuple[Operand, ...]:
    if not gemm.has_bias:
        return ()
    return ("bias", "values_bias") if gemm.has_halves else ("bias",)


def _columns_of_b(gemm: Gemm) -> int:
    """Of each of B's matrices."""
    return gemm.n // 2 if gemm.has_halves else gemm.n


def _columns_of_c(gemm: Gemm, config: WgmmaTile) -> int:
    """Of a tile's outputs."""
    return gemm.output_columns * config.tile_n // gemm.n


def _whole_tiles(gemm: Gemm, config: WgmmaTile) -> int:
    """Of a row of tiles, how many are loaded all panels at once."""
    if gemm.b_order == "column" or gemm.has_halves:
        return 0
    return tiles_in_panels(gemm.n, config.tile_n)


def _require_aligned(gemm: Gemm, addresses: Addresses) -> None:
    depth = gemm.k if gemm.b_order == "column" else _columns_of_b(gemm)
    maps = {"a": gemm.k, "b": depth, "c": gemm.columns, "residual": gemm.columns}
    if gemm.cache is not None:
        maps |= dict.fromkeys(("k_cache", "v_cache"), gemm.cache.columns)
    pointers = {"b_values": ALIGNMENT, "rope": ALIGNMENT, "bias": PAIR_BYTES, "values_bias": PAIR_BYTES}
    for name, unit in (dict.fromkeys(maps, ALIGNMENT) | pointers).items():
        address = getattr(addresses, name)
        if address % unit:
            raise DescriptionError(
                f"Gemm {gemm.name}: {name} is at address {address:#x}; TMA needs a multiple of "
                f"{unit} bytes. Use cupy.ascontiguousarray"
            )
    for name, width in maps.items():
        require_stride(f"Gemm {gemm.name}", name, getattr(addresses, f"{name}_stride"), width)


def require_stride(owner: str, name: str, stride: int, width: int) -> None:
    """Raises `DescriptionError` for rows of `width` elements that TMA cannot find `stride` elements apart."""
    if stride and (stride < width or stride * ELEMENT_BYTES % ALIGNMENT):
        raise DescriptionError(
            f"{owner}: {name}_stride is {stride}; it must be 0 or a multiple of "
            f"{ALIGNMENT // ELEMENT_BYTES} elements of at least {width}. Use a contiguous copy"
        )


def _offset(name: str) -> int:
    """Where a field of `PARAMS` begins."""
    assert PARAMS.fields is not None
    return PARAMS.fields[name][1]


def _layer_offset(name: str) -> int:
    """Where a field of `LAYER_PARAMS` begins."""
    assert LAYER_PARAMS.fields is not None
    return LAYER_PARAMS.fields[name][1]


def _map_field(name: str, operand: Operand) -> AddressField:
    return AddressField(_offset(name), "map", operand)
