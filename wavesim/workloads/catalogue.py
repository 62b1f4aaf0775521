"""Workloads by name, for the command line and the widgets.

What `tokens` means depends on the workload: rows of the input (M) of the MLPs, of attention and of layers,
sequences in decode, images of the batch for convolutions. Each has its own default of it and of the tile.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.bounds import plain_int, shown
from wavesim.workloads.attention import gpt3_attention
from wavesim.workloads.attention_chain import paper_attention
from wavesim.workloads.conv_networks import NETWORKS, network_part
from wavesim.workloads.convolutions import IMAGE_SIZES, PUBLISHED_TILES, conv_layer
from wavesim.workloads.decode_steps import TILE_ROWS, decode_step
from wavesim.workloads.figure_one import toy
from wavesim.workloads.hopper import CONVOLUTION_TILES, gpt3_mlp_hopper, llama_mlp_hopper
from wavesim.workloads.layers import Phase, chain_of, transformer_layer
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp, llama_mlp_three_gemms
from wavesim.workloads.models import layered_models

Tile = tuple[int, int]
IMAGE_UNIT = "images of the batch"
SEQUENCE_UNIT = "sequences, one new token each"
CACHED = 2047  # keys in each sequence's cache before a step of decode


@dataclass(frozen=True)
class Defaults:
    """A workload's defaults; `unit` is what `tokens` counts, `tiles` what else its kernels have, if known."""

    tokens: int = 1024
    tile: Tile = (128, 256)
    unit: str = "rows of the input (M)"
    tiles: tuple[Tile, ...] = ()


WORKLOADS: dict[str, Callable[[int, Tile], Pipeline]] = {
    "toy": lambda *_: toy(),  # its size is the figure's
    "gpt3-mlp": gpt3_mlp,
    "llama-mlp": llama_mlp,
    "gpt3-mlp-hopper": gpt3_mlp_hopper,
    "llama-mlp-hopper": llama_mlp_hopper,
    "llama-mlp-three-gemms": llama_mlp_three_gemms,
    "attention": gpt3_attention,
    "attention-as-published": partial(gpt3_attention, is_as_published=True),
    "paper-attention": paper_attention,
}
DEFAULTS = {name: Defaults(tile=(128, 128) if "attention" in name else (128, 256)) for name in WORKLOADS}


def _add_convolutions() -> None:
    """`resnet-conv-128` and the like; without a number, ResNet's layer of 128 channels and VGG's of 256."""
    for model, usual in (("resnet", 128), ("vgg", 256)):
        for channels in (None, *IMAGE_SIZES):
            for ending, is_as_published in (("", False), ("-as-published", True)):
                name = f"{model}-conv" + (f"-{channels}" if channels else "") + ending
                layer = partial(conv_layer, model, channels or usual, is_as_published=is_as_published)
                WORKLOADS[name] = layer
                DEFAULTS[name] = Defaults(16, PUBLISHED_TILES[channels or usual], IMAGE_UNIT)


def _layer(model: str, phase: Phase, chain: str, tokens: int, tile: Tile) -> Pipeline:
    tiles = dict.fromkeys(("qkv", "out", "up", "down"), tile)
    cached = CACHED if phase == "decode" else 0
    layer = transformer_layer(model, tokens, cached=cached, phase=phase, tiles=tiles)
    return chain_of(layer, chain) if chain else layer


def _add_layers() -> None:
    """`llama-3-8b-layer`, `llama-3-8b-decode-layer` and the like, and `llama-3-8b-layer-attention`.

    `llama-3-8b-decode-step` is the decode layer as a megakernel has it.
    """
    for model in layered_models():
        for name, chain in (("layer", ""), ("layer-attention", "attention")):
            WORKLOADS[f"{model}-{name}"] = partial(_layer, model, "prefill", chain)
            DEFAULTS[f"{model}-{name}"] = Defaults()
        WORKLOADS[f"{model}-decode-layer"] = partial(_layer, model, "decode", "")
        DEFAULTS[f"{model}-decode-layer"] = Defaults(1, (64, 256), SEQUENCE_UNIT)
        WORKLOADS[f"{model}-decode-step"] = partial(_step, model)
        DEFAULTS[f"{model}-decode-step"] = Defaults(1, (1, TILE_ROWS), SEQUENCE_UNIT)


def _step(model: str, sequences: int, tile: Tile) -> Pipeline:
    """Of a tile the columns are rows of weights."""
    return decode_step(model, sequences, CACHED, tile_rows=tile[1])


def _add_networks() -> None:
    """`resnet-50-28` and the like: what a network computes on images of one size."""
    for network in NETWORKS.values():
        for size in network.sizes:
            WORKLOADS[f"{network.name}-{size}"] = partial(_network_part, network.name, size)
            DEFAULTS[f"{network.name}-{size}"] = Defaults(1, (128, 64), IMAGE_UNIT, CONVOLUTION_TILES)


def _network_part(network: str, size: int, images: int, tile: Tile) -> Pipeline:
    return network_part(network, size, images, (*tile, 1))


_add_convolutions()
_add_networks()
_add_layers()


def workload(name: str, tokens: int | None = None, tile: Tile | None = None) -> Pipeline:
    """The named workload for `tokens` rows (or images) and tiles of (tile_m, tile_n).

    Raises `DescriptionError`.
    """
    if name not in WORKLOADS:
        raise DescriptionError(f"workload is {shown(name)}; known are {', '.join(WORKLOADS)}")
    usual = DEFAULTS[name]
    return WORKLOADS[name](usual.tokens if tokens is None else tokens, usual.tile if tile is None else tile)


def parse_tile(text: str) -> Tile:
    """(tile_m, tile_n) of a word such as "128x256". Raises `DescriptionError`."""
    parts = text.split("x", 2)
    try:
        rows, columns = (plain_int(part) for part in parts)
    except ValueError:
        raise DescriptionError(f"tile is {shown(text)}; write ROWSxCOLUMNS, such as 128x256") from None
    return rows, columns
