"""Exercises of notebook 16: what an attention tile reads, and what short rows first are worth."""

from typing import Any

from wavesim.plan.order import Reversed, RowMajor
from wavesim.teaching.attention_rows import units
from wavesim.teaching.exercises import Exercise, pair, require
from wavesim.workloads.layers import transformer_layer


def tiles_needed(x: int, y: int) -> int:
    """QKV tiles that attention tile (x, y) of Llama-3-8B needs, at 512 tokens in tiles of 128 x 128."""
    layer = transformer_layer("llama-3-8b", 512, tiles={"qkv": (128, 128, 1)})
    dependency = layer.dependency_of("attention")
    assert dependency is not None
    return len(dependency.producer_tiles(x, y))


def grade_tiles(answer: Any) -> str:
    """How many QKV tiles the first and the last row block of head 5 need."""
    for given, row in zip(pair(answer, "first row block, last row block"), (0, 3), strict=True):
        require(
            given == tiles_needed(5, row),
            f"{given} for row block {row}? One tile of Q, and of K and of V as many as the mask lets it see.",
        )
    return "One tile of Q; of K and V one each per row block up to its own."


def grade_order(answer: Any) -> str:
    """Units under row semaphores, short rows first and long rows first."""
    orders = {"short rows first": RowMajor(), "long rows first": Reversed(RowMajor())}
    for given, (words, order) in zip(pair(answer, ", ".join(orders)), orders.items(), strict=True):
        require(
            given == units(order, overlaps=True),
            f"{given} with {words}? Write down when each of the four SMs is free, and which rows are "
            "whole then.",
        )
    return "Short rows first are whole early, and their output tiles start beside the long rows."


EXERCISES = (
    Exercise("16.1", "QKV tiles that head 5 needs: (first row block, last row block)", grade_tiles),
    Exercise("16.2", "Units under row semaphores: (short rows first, long rows first)", grade_order),
)
