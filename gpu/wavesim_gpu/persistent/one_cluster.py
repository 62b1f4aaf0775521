"""WaveRNN-896 in int8 in one cluster of 16 blocks: its weights as `one_cluster.cu` loads them, its launch.

Example: `OneCluster(Wavernn("int8")).enqueue()` does all steps in one launch of 16 blocks, and writes what
the model's other ways write. In fp16 the weights are 6 MB, more than 16 SMs hold besides what they compute.
"""

from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended, most_clusters
from wavesim_gpu.persistent.wavernn import Wavernn
from wavesim_gpu.persistent.weights import BATCH, BATCHES, GATES, HALF, HIDDEN, Array, Weights

SOURCE = Path(__file__).with_name("one_cluster.cu")
KERNEL, NON_PORTABLE_ALLOWED = (
    "wavernn_one_cluster",
    14,
)  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
BLOCKS, SIDE_BLOCKS, INNER_WARPS, UNIT_WARPS, LOGIT_TILES = 16, 8, 4, 7, 2
THREADS, SHARED_BYTES = 32 * (INNER_WARPS + 1 + UNIT_WARPS), 117_632
GROUP, K_STEP = 8, 32  # units or rows that lie together, and K of one product
OWN_ROWS = HALF // SIDE_BLOCKS  # of a block: units of R, and rows of its inner layer
# That each block hears in a cycle: h and samples of all, its side's inner layer, words of the other side.
HEARD_BYTES = BATCH * HIDDEN + BLOCKS * BATCH * 4 + BATCH * HALF + SIDE_BLOCKS * INNER_WARPS * 4


class OneCluster:
    """One launch for all steps of a model, whose outputs it writes; on the model's stream.

    Raises `DescriptionError` for another type than int8, `DeviceError` for a GPU without clusters of 16.
    """

    def __init__(self, model: Wavernn) -> None:
        if model.dtype != "int8":
            raise DescriptionError(f"dtype is {model.dtype!r}; one cluster holds the weights of 'int8' alone")
        self.model = model
        self.shape = KernelLaunch(KERNEL, THREADS, SHARED_BYTES, BLOCKS, cluster=BLOCKS)
        self._function = load_function(SOURCE, KERNEL, Build(), SHARED_BYTES).function
        driver = model.cupy.cuda.driver
        driver.funcSetAttribute(self._function.ptr, NON_PORTABLE_ALLOWED, 1)
        if not most_clusters(self._function, self.shape):
            raise DeviceError(
                f"the GPU takes no cluster of {BLOCKS} blocks of {THREADS} threads; use a H100 or H200"
            )
        self._packed = model.cupy.asarray(packed_for_cluster(model.weights))
        model.cupy.cuda.Device().synchronize()

    def enqueue(self, heard_bytes: int = HEARD_BYTES) -> None:
        """The launch. With another `heard_bytes` its blocks wait for what never comes, and give up."""
        record = self.model.record()
        record["weights"] = self._packed.data.ptr
        arguments = (
            record,
            self.model.progress_record(),
            np.int32(self.model.steps * BATCHES),
            np.uint32(heard_bytes),
        )
        launch_extended(self._function, self.shape, arguments, self.model.stream)

    def run(self) -> None:
        """All steps, until they are done. Raises `DeadlockError` as `Wavernn.check` does."""
        self.model.clear()
        self.enqueue()
        self.model.check("cluster")


def packed_for_cluster(weights: Weights) -> Array:
    """All blocks' weights as bytes, block after block: R's warps, the inner layer's, the output layer's."""
    return np.concatenate([part for block in range(BLOCKS) for part in _block(weights, block)])


def _block(weights: Weights, block: int) -> list[Array]:
    inner, last = ("o3", "o4") if block >= SIDE_BLOCKS else ("o1", "o2")
    rank = block % SIDE_BLOCKS
    gates = weights.matrices["r"].reshape(GATES, HIDDEN, HIDDEN)
    units = [slice(first, first + GROUP) for first in range(block * OWN_ROWS, (block + 1) * OWN_ROWS, GROUP)]
    parts = []
    for own in units:
        parts += [packed_rows(gates[:2, own].reshape(2 * GROUP, HIDDEN)), packed_rows(gates[2, own])]
    rows = np.zeros((2 * GROUP * INNER_WARPS, HALF), gates.dtype)  # the last warp's lower half is empty
    rows[:OWN_ROWS] = weights.matrices[inner][rank * OWN_ROWS : (rank + 1) * OWN_ROWS]
    few = 2 * GROUP * LOGIT_TILES
    logits = weights.matrices[last][rank * few : (rank + 1) * few]
    tiles = np.concatenate([rows, logits]).reshape(-1, 2 * GROUP, HALF)
    return parts + [packed_rows(tile) for tile in tiles]


def packed_rows(rows: Array) -> Array:
    """8 or 16 rows (rows, K) of int8 as bytes: by K step and lane, 8 or 16 bytes each.

    A lane is row `lane // 4` of 8 and has 8 bytes of K, the quarter `lane % 4` of 32: a word of the first
    four and one of the rest, each of its row and, of 16 rows, of the one 8 below.
    """
    halves, k = len(rows) // GROUP, rows.shape[1]
    parts = np.ascontiguousarray(rows).view(np.uint8).reshape(halves, GROUP, k // K_STEP, 4, 2, 4)
    # below, row, K step, quarter, word, bytes -> K step, row, quarter, word, below, bytes
    packed: Any = parts.transpose(2, 1, 3, 4, 0, 5).reshape(-1)
    return np.asarray(packed)
