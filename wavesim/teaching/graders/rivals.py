"""Exercises of notebook 9: slices that fill a wave, and what Stream-K's even share is."""

from math import ceil
from typing import Any

from wavesim.teaching.exercises import Exercise, require, whole

SMS, TILES, MOST_SLICES = 132, 96, 6
STREAM_K_TILES, CHUNKS = 192, 192


def slot_efficiency(slices: int) -> float:
    """The part of the slots that 96 tiles in so many slices use, all slices alike."""
    blocks = TILES * slices
    return blocks / (SMS * ceil(blocks / SMS))


def grade_split_k(answer: Any) -> str:
    """The fewest split-K slices, 1 to 6, with which 96 tiles use 95 % of the slots of 132 SMs."""
    slices = whole(answer, 1, MOST_SLICES)
    used = slot_efficiency(slices)
    require(
        used >= 0.95,
        f"{TILES * slices} blocks are {TILES * slices / SMS:.2f} waves, {100 * used:.0f} % of the slots.",
    )
    require(slot_efficiency(slices - 1) < 0.95, f"{100 * used:.0f} %, and one slice fewer is enough.")
    return f"{TILES * slices} blocks, {100 * used:.0f} % of the slots; each tile is a sum of {slices} parts."


def grade_stream_k(answer: Any) -> str:
    """192 tiles of 192 chunks of K on 132 SMs: the most chunks that one SM computes under Stream-K."""
    chunks = whole(answer, 1, STREAM_K_TILES * CHUNKS)
    share = ceil(STREAM_K_TILES * CHUNKS / SMS)
    require(
        chunks != 2 * CHUNKS,
        "that is two whole tiles, as with one block per tile. Stream-K cuts tiles at any chunk.",
    )
    require(chunks == share, f"{chunks} each? All chunks of all tiles, in equal shares on {SMS} SMs.")
    return f"{share} chunks are {share / CHUNKS:.2f} tiles, where two waves of whole tiles would take 2."


EXERCISES = (
    Exercise("9.1", "The fewest split-K slices that fill 132 SMs with 96 tiles", grade_split_k),
    Exercise("9.2", "Chunks per SM under Stream-K", grade_stream_k),
)
