"""Where parameter records hold addresses is all that differs between two calls; no GPU needed."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import StreamSync
from wavesim.plan.semaphores import semaphore_arrays
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.cusync.waits import wait_schedule
from wavesim_gpu.kernels.backends import BACKENDS, backend_named, require_runs
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.gemm.sm90 import tensor_map

# Every operand at an address of its own, all of them different between the two.
FIRST, SECOND = (
    Addresses(
        **{name: base + 4096 * i for i, name in enumerate(("a", "b", "c", "partials", "tickets"))},
        **{name: base + 4096 * i for i, name in enumerate(("b_values", "bias", "values_bias"), 5)},
    )
    for base in (0x10_0000, 0x7F00_0000)
)
TILES = {"portable": (128, 128, 32), "hopper": (128, 192, 64)}


def stand_in(address, *described):
    """128 bytes of a tensor map: the address, and a hash of all else, as there is no driver here."""
    words = [address, *hashlib.sha256(repr(described).encode()).digest()]
    return np.array((words + [0] * 16)[:16], "<u8").view("V128")[0]


def replaced(record, fields, addresses):
    """The record with other addresses, as a launch makes it; the driver writes those of real maps."""
    raw = bytearray(record.tobytes())
    for offset, _, operand, shift in fields:
        raw[offset : offset + 8] = (getattr(addresses, operand) + shift).to_bytes(8, "little")
    return bytes(raw)


FORMS = {
    "plain": {},
    "column": {"b_order": "column", "has_bias": True},
    "halves": {"activation": "geglu", "gates": "halves", "b_order": "column", "has_bias": True},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", ["tile+one-stream+boundary", "stream-k+one-stream+boundary"])
@pytest.mark.parametrize("n", [144, 192, 528])
@pytest.mark.parametrize("name", BACKENDS)
def test_a_record_with_replaced_addresses_is_that_of_the_other_call(monkeypatch, name, n, words, form):
    monkeypatch.setattr(tensor_map, "_encode", stand_in)
    backend, plan = backend_named(name), parse_plan(words)
    gemm = Gemm("gemm", 300, n, 512, *TILES[name], **FORMS[form] if name == "hopper" else {})
    (first,), (second,) = (backend.arguments(gemm, plan, one) for one in (FIRST, SECOND))
    assert replaced(first, backend.address_fields(gemm, plan), SECOND) == second.tobytes()


def test_the_portable_backend_takes_dense_operands_only():
    gemm = Gemm("gemm", 300, 512, 256, *TILES["portable"])
    with pytest.raises(
        DescriptionError, match=r"a_stride is 264 elements; .* dense rows of 256. Use a contig"
    ):
        backend_named("portable").arguments(gemm, StreamSync(), Addresses(0, 0, 0, a_stride=264))
    backend_named("portable").arguments(gemm, StreamSync(), Addresses(0, 0, 0, a_stride=256, c_stride=512))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"b_order": "column"}, "b_order is 'column'; .* has 'row'. Give B row-major .* backend='hopper'"),
        ({"has_bias": True}, "has_bias is True; .* Add it outside, or use backend='hopper'"),
        ({"activation": "silu"}, "activation is 'silu'"),
    ],
)
def test_the_portable_backend_names_the_fix_for_what_it_leaves_out(options, words):
    with pytest.raises(DescriptionError, match=words):
        backend_named("portable").check(Gemm("gemm", 300, 512, 256, *TILES["portable"], **options))


def described(monkeypatch, gemm, addresses=FIRST):
    """Hopper's parameters, and by address the size and box of every tensor map, as TMA is told of them."""
    maps = {}

    def told(address, sizes, strides, box, dtype):
        maps.setdefault(address, []).append((sizes, strides, box))
        return stand_in(address, sizes, strides, box, dtype)

    monkeypatch.setattr(tensor_map, "_encode", told)
    (record,) = backend_named("hopper").arguments(gemm, StreamSync(), addresses)
    return record, maps


def test_a_column_major_b_is_loaded_in_one_box_of_as_many_rows_as_the_tile_has_columns(monkeypatch):
    gemm = Gemm("gemm", 300, 392, 104, 128, 208, 64, b_order="column")
    record, maps = described(monkeypatch, gemm)
    assert maps[FIRST.b] == [((104, 392), (104,), (64, 208))]
    assert record["load_bytes"] == (128 + 208) * 64 * 2
    assert record["whole_tiles"] == 0


def test_gates_and_values_are_loaded_in_a_box_each_of_half_a_tile(monkeypatch):
    gemm = Gemm(
        "gemm",
        300,
        400,
        104,
        128,
        240,
        64,
        activation="swiglu",
        gates="halves",
        b_order="column",
        has_bias=True,
    )
    record, maps = described(monkeypatch, gemm)
    assert maps[FIRST.b] == maps[FIRST.b_values] == [((104, 200), (104,), (64, 120))]
    assert (record["bias"], record["values_bias"], record["bias_columns"]) == (
        FIRST.bias,
        FIRST.values_bias,
        200,
    )
    # C by tiles of 120 columns: boxes that reach beyond a tile of no whole panels end with it.
    assert maps[FIRST.c] == [
        ((200, 300), (200,), (64, 64)),
        ((120, 1, 300), (120, 200), (64, 1, 64)),
    ]


def test_a_cluster_of_two_loads_half_of_a_column_major_b_each(monkeypatch):
    gemm = Gemm("gemm", 100, 384, 128, 64, 192, 64, b_order="column")
    _, maps = described(monkeypatch, gemm)
    assert maps[FIRST.b] == [((128, 384), (128,), (64, 96))]


def test_strides_are_from_row_to_row_in_every_map(monkeypatch):
    wide = replace(FIRST, a_stride=640, b_stride=1024, c_stride=800)
    _, maps = described(monkeypatch, Gemm("gemm", 300, 512, 128, 128, 256, 64), wide)
    assert maps[FIRST.a] == [((128, 300), (640,), (64, 128))]
    assert maps[FIRST.b] == [
        ((512, 128), (1024,), (64, 64)),
        ((64, 128, 4, 2), (1024, 64, 256), (64, 64, 4, 1)),
    ]
    assert maps[FIRST.c] == [((512, 300), (800,), (64, 64)), ((256, 2, 300), (256, 800), (64, 1, 64))]


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (replace(FIRST, b_values=0x1008), "b_values is at address 0x1008; TMA needs a multiple of 16 bytes"),
        (replace(FIRST, bias=0x1002), "bias is at address 0x1002; .* a multiple of 4 bytes"),
        (
            replace(FIRST, a_stride=124),
            "a_stride is 124; it must be 0 or a multiple of 8 .* at least 128",
        ),
        (replace(FIRST, c_stride=256), "c_stride is 256; .* at least 512"),
    ],
)
def test_operands_that_tma_cannot_move_are_refused(addresses, words):
    with pytest.raises(DescriptionError, match=words):
        backend_named("hopper").arguments(Gemm("gemm", 300, 512, 128, 128, 256, 64), StreamSync(), addresses)


@pytest.mark.parametrize("k", [8, 56, 72, 1000])
def test_a_k_that_fills_no_k_block_is_computed_and_awaited_to_its_end(k):
    first = Stage("up", Gemm("up", 100, k, 64, 64, 128, 64))
    second = Stage("down", Gemm("down", 100, 64, k, 64, 128, 64))
    pipeline = Pipeline("ragged", [first, second], [gemm_rows(first, second)])
    plan = parse_plan("streams+tile")
    require_runs(pipeline, plan, "hopper")
    arrays = semaphore_arrays(pipeline, plan)
    order = Precedence(Accesses(pipeline))
    table = wait_schedule(order, second, {one.producer: one for one in arrays}, by_tile=False)
    awaited = {tuple(step[2:]) for step in table.steps if step[1] >= 0}
    assert awaited == {(x, y) for x in range(first.grid.x) for y in range(first.grid.y)}
