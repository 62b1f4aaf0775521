"""Small pipelines of GEMMs for the GPU tests: pairs, chains and forks of any tile shapes."""

from itertools import pairwise

from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

SMALL, WIDE, TALL, SQUARE = (64, 64, 32), (128, 256, 32), (256, 128, 32), (128, 128, 32)


def chain(m, widths, tiles, *, split_k=1, dtype="fp16", activation="gelu"):
    """Stage i is (m, widths[i]) x (widths[i], widths[i + 1]) in tiles[i]; all but the last are activated."""
    splits = split_k if isinstance(split_k, tuple) else (split_k,) * len(tiles)
    stages = []
    for i, (tile, split) in enumerate(zip(tiles, splits, strict=True)):
        act = activation if i < len(tiles) - 1 else None
        name = f"gemm{i + 1}"
        work = Gemm(name, m, widths[i + 1], widths[i], *tile, split_k=split, dtype=dtype, activation=act)
        stages.append(Stage(name, work))
    needs = [gemm_rows(first, second) for first, second in pairwise(stages)]
    return Pipeline("chain", stages, needs)


def pair(m=200, k=256, hidden=320, n=192, tiles=(SMALL, SMALL), **options):
    return chain(m, (k, hidden, n), tiles, **options)


def fork(m=200, tiles=(SMALL, SMALL, SMALL), dtype="fp16"):
    """One producer, two consumers of different widths."""
    first = Stage("gemm1", Gemm("gemm1", m, 320, 256, *tiles[0], dtype=dtype, activation="gelu"))
    second = Stage("gemm2", Gemm("gemm2", m, 192, 320, *tiles[1], dtype=dtype))
    third = Stage("gemm3", Gemm("gemm3", m, 256, 320, *tiles[2], dtype=dtype))
    return Pipeline("fork", [first, second, third], [gemm_rows(first, second), gemm_rows(first, third)])
