"""Steps of generation that share a cache, as tests use them."""

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.attention.head_product import HeadProduct
from wavesim.work.gemm import Gemm
from wavesim.workloads.mlps import gemm_block

HEADS, LENGTH, ROWS = 4, 8, 512
WIDTH = HEADS * 128


def rolled_back(has_anti_dependency):
    """Scores of 504 cached keys and 8 new ones, then of 8 others in place of the last 8 cached.

    The second step's keys are there from the start: nothing but an anti-dependency keeps it from storing them
    while the first, which waits for a long product, has not yet read what they replace.
    """
    product = Gemm("keys", LENGTH, WIDTH, 16_384, 128, 128, 32, block=gemm_block((128, 128)))
    keys = Stage("keys", product, buffers={"c": "keys"})
    steps = [
        HeadProduct(name, "scores", 1, LENGTH, HEADS, HEADS, 128, cached, cached + LENGTH)
        for name, cached in (("first", ROWS - LENGTH), ("second", ROWS - 2 * LENGTH))
    ]
    first = Stage("first", steps[0], buffers={"b": "keys", "cache": "cache"})
    second = Stage("second", steps[1], buffers={"cache": "cache"})
    links = [Dependency(first[x, y], [keys[:, 0]])]
    if has_anti_dependency:
        links.append(Dependency(second[x, y], [first[:, :]]))
    return Pipeline("rolled back", [keys, first, second], links)
