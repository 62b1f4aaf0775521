"""Products over two GPUs of one host: results, bits, replays under skew, and a rank that does not come."""

import numpy as np
import pytest

from wavesim.errors import DeadlockError
from wavesim.model.collective import Collective
from wavesim_gpu.evaluation.two_gpus.cases import SharedCase, expected_of, operands_of, relative_error
from wavesim_gpu.evaluation.two_gpus.turns import TOLERANCE
from wavesim_gpu.peers.groups import LocalPeers
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.programs import SharedGemmProgram
from wavesim_gpu.peers.rank_launches import CallOptions

pytestmark = pytest.mark.gpu

KINDS = [
    (Collective("all-reduce"), False),
    (Collective("all-reduce"), True),
    (Collective("all-reduce", "one-shot"), False),
    (Collective("reduce-scatter"), False),
    (Collective("reduce-scatter"), True),
    (Collective("all-gather"), False),
]


@pytest.fixture(scope="module")
def group():
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs of one host")
    return LocalPeers((0, 1))


@pytest.mark.parametrize(("collective", "by_blocks"), KINDS, ids=str)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("split_k", [1, 2])
def test_results_are_right_on_every_rank_and_in_every_call(group, collective, by_blocks, dtype, split_k):
    problem = SharedGemm(1024, 1536, 1408, collective, dtype=dtype, split_k=split_k)
    case = SharedCase(problem, seed=1)
    program = SharedGemmProgram(group, problem, operands_of(group, case), CallOptions(by_blocks, limit_s=2))
    for _ in range(3):
        program.poison()
        program.enqueue()
        program.check()
        for rank in group.ranks:
            with group.on(rank) as cupy:
                expected = expected_of(cupy, case, rank)
                assert relative_error(cupy, program.outs[rank], expected, dtype) < TOLERANCE[dtype]


def test_both_ranks_have_the_same_bits_after_replays_under_skew(group):
    problem = SharedGemm(512, 1536, 1408, Collective("all-reduce"))
    program = SharedGemmProgram(
        group, problem, operands_of(group, SharedCase(problem, 2)), CallOptions(limit_s=5)
    )
    replay = program.launchers(repeats=2)
    first = None
    for turn in range(200):
        for rank in (0, 1) if turn % 2 else (1, 0):
            replay[rank]()
        program.check()
        bits = [program.outs[rank].get() for rank in (0, 1)]
        first = bits[0] if first is None else first
        np.testing.assert_array_equal(bits[0].view(np.uint16), bits[1].view(np.uint16))
        np.testing.assert_array_equal(bits[0].view(np.uint16), first.view(np.uint16))


def test_a_rank_that_does_not_come_is_named_and_the_other_ends(group):
    problem = SharedGemm(512, 1536, 1408, Collective("all-reduce"))
    program = SharedGemmProgram(
        group, problem, operands_of(group, SharedCase(problem, 3)), CallOptions(limit_s=0.2)
    )
    program.launchers()[0]()
    with pytest.raises(DeadlockError, match="of rank 1"):
        program.check()
    with group.on(0) as cupy:
        assert int(cupy.arange(4).sum()) == 6  # the context is alive
