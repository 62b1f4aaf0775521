"""GPT-3 145B's attention under 8-way model parallelism, as a chain of five kernels.

Example: the first GEMM makes Q, K and V side by side, n tile columns of each. The scores of head
x's query rows y read Q at column x and K n columns further on; the context reads V another n columns
on. The softmax between them and the last GEMM complete the chain.

It is the paper's Figure 5b with its misprints corrected:
- The stride is n = H / (8 TileN) columns, and tile columns of P, R and T are heads, so that
  `x`, `x + n` and `x + 2n` lie on the first grid. As printed, P's and R's columns are B (S + S') / TileN
  tokens, which leave that grid unless B (S + S') happens to be H / 8.
- The softmax R runs along a row of P: all its keys. As printed it takes all rows (`ForAll` over y) and its
  grid has a single row. Here a tile of P holds all keys of its rows, so R[x, y] needs P[x, y].
- T has B S / TileM rows and H / (8 TileN) columns; printed are B (S + S') / TileN and H / (8 TileM).
- The last grid is H / TileN by B S / TileM (printed: H / (8 TileN) by B / TileM), is called g2
  and not g3, and each of its tiles reads a whole row of T, not one tile: its K loop runs over all of T.

As published, scores and context read K and V of their own rows only. That is right for
generation, where every row is another request. For a prompt, queries attend to the keys of all
rows: the strict dependency, `qkv[x + n, :]`, which is the default here.
Source: cuSync paper, Figures 2b and 5b.
"""

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel, require_positive
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim.workloads.mlps import HIDDEN, gemm_block

SHARE = HIDDEN // 8  # columns of Q, of K and of V on one of 8 GPUs
HEAD = 128  # columns of one attention head
SOFTMAX_BLOCK = Block(threads=256, registers=64)


def gpt3_attention(
    tokens: int, tile: tuple[int, int] = (128, 128), *, cached: int = 0, is_as_published: bool = False
) -> Pipeline:
    """Q, K and V, scores, softmax, context and output for `tokens` rows and `cached` earlier keys.

    `tile` is (tile_m, tile_n); tile_n is a number of whole heads of 128 columns. `is_as_published`
    lets scores and context read K and V of their own rows only. Raises `DescriptionError`.
    """
    require_positive("gpt3_attention", tokens=tokens)
    if cached < 0 or tile[1] % HEAD or SHARE % tile[1]:
        raise DescriptionError(
            f"gpt3_attention: cached is {cached} and tile_n {tile[1]}; cached must be at least 0 and "
            f"tile_n a multiple of {HEAD} that divides {SHARE}"
        )
    n = SHARE // tile[1]
    qkv, scores, softmax, context, output = _stages(tokens, tile, tokens + cached)
    others = y if is_as_published else slice(None)
    return Pipeline(
        "attention-as-published" if is_as_published else "attention",
        [qkv, scores, softmax, context, output],
        [
            Dependency(scores[x, y], [qkv[x, y], qkv[x + n, others]]),
            Dependency(softmax[x, y], [scores[x, y]]),
            Dependency(context[x, y], [softmax[x, y], qkv[x + 2 * n, others]]),
            Dependency(output[x, y], [context[:, y]]),
        ],
        {"tokens": tokens, "cached": cached, "tile": f"{tile[0]}x{tile[1]}"},
    )


def _stages(tokens: int, tile: tuple[int, int], keys: int) -> tuple[Stage, ...]:
    block = gemm_block(tile)
    tile_m, tile_n = tile
    grid = Grid(SHARE // tile_n, -(-tokens // tile_m))  # a tile: some heads, some query rows, all keys
    flops = 2 * tile_m * tile_n * keys
    score_bytes = 2 * tile_m * keys * (tile_n // HEAD)
    matrix_bytes = 2 * (tile_m + keys) * tile_n  # queries or results, and the heads' keys or values
    attend_bytes = matrix_bytes + score_bytes
    return (
        Stage("qkv", Gemm("qkv", tokens, 3 * SHARE, HIDDEN, *tile, block=block, carveout="full")),
        Stage("scores", Kernel("scores", grid, block, flops, attend_bytes, "full")),
        Stage(
            "softmax",
            Kernel("softmax", grid, SOFTMAX_BLOCK, bytes_per_block=2 * score_bytes, carveout="full"),
        ),
        Stage("context", Kernel("context", grid, block, flops, attend_bytes, "full")),
        Stage("output", Gemm("output", tokens, HIDDEN, SHARE, *tile, block=block, carveout="full")),
    )
