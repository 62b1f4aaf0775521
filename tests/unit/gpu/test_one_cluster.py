"""The host's side of WaveRNN in one cluster: packed weights, bytes that blocks hear, and what is refused."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.persistent import one_cluster
from wavesim_gpu.persistent.weights import BATCH, HALF, first_state, made_up_weights

TEXT = one_cluster.SOURCE.read_text()
WEIGHTS = made_up_weights("int8", 3)


def groups_of(inputs):
    """Inputs (8, K) as blocks hold them, before halves are exchanged: groups of 8, (K / 8, 8, 8)."""
    return inputs.reshape(BATCH, -1, 8).transpose(1, 0, 2)


def multiplied(packed, halves, inputs):
    """What `mma.sync` makes of packed rows: a lane of quarter q reads group 4 i + q in K step i."""
    words = packed.view(np.int8).reshape(-1, 8, 4, 2, halves, 4)  # K step, row, quarter, word, below, bytes
    read = groups_of(inputs).reshape(-1, 4, BATCH, 2, 4)  # K step, quarter, sequence, word, bytes
    sums = np.einsum("irqwhb,iqnwb->hrn", words.astype(np.int64), read.astype(np.int64))
    return sums.reshape(8 * halves, BATCH)


@pytest.mark.parametrize("rows", [8, 16])
def test_rows_packed_for_the_cluster_give_the_product(rows):
    matrix = WEIGHTS.matrices["o1"][:rows]
    inputs = first_state("int8", 4)[0][:, :HALF]
    expected = matrix.astype(np.int64) @ inputs.astype(np.int64).T
    assert np.array_equal(multiplied(one_cluster.packed_rows(matrix), rows // 8, inputs), expected)


def test_every_weight_is_in_one_block_and_each_block_is_as_large_as_the_kernel_says():
    packed = one_cluster.packed_for_cluster(WEIGHTS)
    of_block = 7 * 24 * 896 + (4 + 2) * 16 * 448
    assert packed.size == 16 * of_block
    both = sum(matrix.size for matrix in WEIGHTS.matrices.values())
    assert packed.size - both == 16 * 8 * 448  # the empty rows of each block's last inner warp
    # Block 9 has the second eighth of the fine half: its third warp of R has units 56 * 9 + 16 and on.
    r = WEIGHTS.matrices["r"].reshape(3, 896, 896)[:, 56 * 9 + 16 : 56 * 9 + 24]
    at = 9 * of_block + 2 * 24 * 896
    assert np.array_equal(packed[at : at + 16 * 896], one_cluster.packed_rows(r[:2].reshape(16, 896)))
    assert np.array_equal(packed[at + 16 * 896 : at + 24 * 896], one_cluster.packed_rows(r[2]))
    last = WEIGHTS.matrices["o4"][48:64]
    assert np.array_equal(packed[10 * of_block - 16 * 448 : 10 * of_block], one_cluster.packed_rows(last))


def test_the_host_knows_the_kernels_sizes():
    numbers = dict(re.findall(r"(\w+) = (\d+)[,;]", TEXT))
    for name in ("BLOCKS", "SIDE_BLOCKS", "INNER_WARPS", "UNIT_WARPS", "LOGIT_TILES"):
        assert int(numbers[name.lower()]) == getattr(one_cluster, name)
    assert int(re.search(r"sizeof\(Shared\) == (\d+)", TEXT)[1]) == one_cluster.SHARED_BYTES
    assert f"{one_cluster.KERNEL}(" in TEXT


def test_fp16_is_refused_since_its_weights_do_not_fit():
    with pytest.raises(DescriptionError, match="'int8' alone"):
        one_cluster.OneCluster(SimpleNamespace(dtype="fp16"))
