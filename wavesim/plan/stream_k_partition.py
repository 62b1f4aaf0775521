"""Stream-K's partition: how many tiles are split over the blocks, and which K iterations each block gets.

Example: of 200 tiles on 132 blocks the last 68 are split. At 96 iterations a tile these are 6,528, of which
block b computes 6,528 * b // 132 up to 6,528 * (b + 1) // 132. The Hopper kernel computes the same functions:
`wavesim/codegen/stream_k_text.py` writes them as CUDA, so each is one `return` of integer arithmetic.

`iterations` are all K iterations of the split tiles together, `per_tile` those of one tile.
"""

from collections.abc import Callable


def split_tiles(tiles: int, blocks: int) -> int:
    """How many of the tiles are split; the others are whole, as many for every block.

    Those of the last wave, and of the wave before where the last one has less than a quarter of its tiles:
    a few tiles alone would be split into many parts each.
    """
    return tiles % blocks + (min(tiles - tiles % blocks, blocks) if 0 < 4 * (tiles % blocks) < blocks else 0)


def share_begin(block: int, iterations: int, blocks: int) -> int:
    """The first iteration of the block's share; it ends where the next block's begins, and may be empty."""
    return iterations * block // blocks


def share_of(iteration: int, iterations: int, blocks: int) -> int:
    """The number of the share that an iteration is in, of the shares that are not empty."""
    return iteration if iterations < blocks else ((iteration + 1) * blocks - 1) // iterations


def share_count(tile: int, per_tile: int, iterations: int, blocks: int) -> int:
    """How many shares have iterations of split tile number `tile`: the parts whose sums are added up."""
    return (
        share_of((tile + 1) * per_tile - 1, iterations, blocks)
        - share_of(tile * per_tile, iterations, blocks)
        + 1
    )


def most_shares(split: int, blocks: int) -> int:
    """No tile has more parts where `split` tiles are split."""
    return (blocks + split - 1) // max(split, 1) + 1


FUNCTIONS: tuple[Callable[..., int], ...] = (split_tiles, share_begin, share_of, share_count, most_shares)
