"""Row kernels and products with a residual between other stages, as tests use them: they wait and post."""

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.work.rows import Copy, Norm, Softmax


def norm_chain(tile_m, dtype="fp16"):
    """A product, its norm with the residual in place, and the product of that."""
    shape = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "dtype": dtype}
    up = Stage("up", Gemm("up", 512, 1024, 512, **shape))
    own = Stage(
        "norm",
        Norm("norm", 512, 1024, tile_m, dtype=dtype),
        buffers={"x": "up.c", "residual": "h", "sum": "h"},
    )
    down = Stage("down", Gemm("down", 512, 512, 1024, **shape), buffers={"a": "norm.out"})
    per = 128 // tile_m
    links = [
        Dependency(own[x, y], [up[:, y // per]]),
        Dependency(down[x, y], [own[0, per * y : per * y + per]]),
    ]
    return Pipeline("chain", [up, own, down], links)


def softmax_chain():
    """A softmax, a copy of it by other tiles, and a copy of that."""
    own = Stage("softmax", Softmax("softmax", 2, 100, 3, 104, 16, dropout=0.2, scale=0.5))
    first, last = (
        Stage(name, Copy(name, 200, 312, 16, 104), buffers={"x": f"{before}.out"})
        for name, before in (("copy", "softmax"), ("last", "copy"))
    )
    links = [Dependency(first[x, y], [own[:, :]]), Dependency(last[x, y], [first[x, y]])]
    return Pipeline("softmax chain", [own, first, last], links)


def residual_pair(dtype="fp16"):
    """A product and the next one, which adds what it makes to a residual, in place, and a norm of the sum."""
    up = Stage("up", Gemm("up", 333, 1024, 512, 128, 256, 64, dtype=dtype))
    down = Gemm("down", 333, 512, 1024, 128, 128, 64, dtype=dtype, has_residual=True)
    own = Stage("down", down, buffers={"a": "up.c", "residual": "h", "c": "h"})
    norm = Norm("norm", 333, 512, 16, has_residual=False, dtype=dtype)
    last = Stage("norm", norm, buffers={"x": "h"})
    return Pipeline(
        "pair", [up, own, last], [gemm_rows(up, own), Dependency(last[x, y], [own[:, y // (128 // 16)]])]
    )
