"""The Hopper attention backend: which tiles it takes, and what it refuses before anything is launched."""

import pytest

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.attention import Attention
from wavesim_gpu.kernels.attention.attention_sm90 import TILES, HopperAttention
from wavesim_gpu.kernels.backends import backend_of
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

BACKEND = HopperAttention()
STREAM, PERSISTENT = (parse_plan(f"{word}+one-stream+boundary", "row") for word in ("tile", "persistent"))


def attention(**options):
    return Attention("attention", **{"sequences": 2, "length": 1000, "heads": 8, "kv_heads": 2, **options})


def test_a_block_per_tile_or_one_per_sm():
    work, device = attention(sequences=4), load("h200")
    assert BACKEND.launch(work, STREAM, device).blocks == 8 * 4 * 8
    launch = BACKEND.launch(work, PERSISTENT, device)
    assert launch.blocks == device.sm_count
    assert launch.expression == (
        "attention_sm90<AttentionTile<128, 128, 2, true, false>, false, generated::stage>"
    )


@pytest.mark.parametrize("tile", TILES.values(), ids=lambda tile: f"{tile.head_dim}-{tile.tile_n}")
def test_every_tile_fits_an_sm(tile):
    device = load("h200")
    assert tile.dynamic_shared_bytes <= device.shared_bytes_per_block


def test_attention_without_a_named_backend_is_computed_here():
    assert isinstance(backend_of(Stage("attention", attention()), "hopper"), HopperAttention)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tile_m": 64}, "the tile is 64x128; .* has 128x128 for a head_dim of 128"),
        ({"head_dim": 64, "tile_n": 176}, "has 128x128 for a head_dim of 64"),
    ],
)
def test_a_tile_without_a_kernel_is_refused_with_those_there_are(options, said):
    with pytest.raises(DescriptionError, match=said):
        BACKEND.check(attention(**options))


def test_dropout_behind_a_part_of_a_block_of_keys_is_refused():
    BACKEND.check(attention(dropout=0.1, cached=256))
    with pytest.raises(DescriptionError, match=r"dropout with 50 cached keys.*multiple of 128.*portable"):
        BACKEND.check(attention(dropout=0.1, cached=50))


def test_a_gpu_without_wgmma_is_refused():
    with pytest.raises(DeviceError, match=r"needs 9\.0 .*portable"):
        BACKEND.launch(attention(), STREAM, load("a100-80gb"))


@pytest.mark.parametrize(
    ("address", "stride", "said"), [(8, 1024, "address of q is 8"), (16, 1028, "row stride of q is 1028")]
)
def test_operands_that_tma_cannot_move_are_refused_by_name(address, stride, said):
    places = {name: OperandPlace(4096, 1024) for name in ("k", "v", "out")}
    with pytest.raises(DescriptionError, match=said):
        BACKEND.stage_arguments(
            attention(), STREAM, {"q": OperandPlace(address, stride), **places}, Scratch()
        )
