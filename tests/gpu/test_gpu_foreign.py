"""Kernels that others might have written are right under stream sync, and give its bits under every plan."""

import pytest

from wavesim.bench.foreign_pairs import BASELINE, PLANS, ForeignPair

pytestmark = pytest.mark.gpu

WIDE, SQUARE, FLAT = (128, 256, 32), (128, 128, 32), (64, 128, 32)
PAIRS = (
    ForeignPair("wide", 300, 512, 1024, 512, WIDE),
    ForeignPair("two-blocks", 300, 512, 1024, 512, SQUARE, blocks_per_sm=2, order="grouped:4"),
    ForeignPair("persistent", 700, 512, 1024, 768, SQUARE, pipeline_depth=4, is_persistent=True),
    ForeignPair("before", 700, 512, 1024, 768, SQUARE, WIDE, wait_place="before-main-loop"),
    ForeignPair("unequal", 700, 512, 1024, 768, FLAT, SQUARE, blocks_per_sm=2),
    ForeignPair("softmax", 700, 512, 1024, 0, SQUARE, blocks_per_sm=2),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_plan_gives_stream_syncs_bits(runner, pair):
    from wavesim_gpu.bench.kinds.foreign.kernels import Made

    made = Made(pair)
    words = [word for word in PLANS if "pdl" not in word or runner.device.compute_capability >= (9, 0)]
    wanted = made.outputs(made.graph(BASELINE))
    made.require_product(wanted)
    for word in words:
        replay = made.graph(word)
        for _ in range(3):  # from counters that the run before has left
            made.require_same(made.outputs(replay), wanted, word)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_predictions_are_made_from_is_measured(runner, pair):
    from wavesim_gpu.bench.kinds.foreign.measuring import known

    found = known(pair)
    assert min(found.kernel_ns.values()) > 0
    grids = [info.grid[:2] for info in found.stream.header.stages]
    assert grids == [(stage.grid.x, stage.grid.y) for stage in pair.told().stages]


def test_a_consumer_without_its_producer_runs_out_of_time(runner):
    from wavesim.errors import DeadlockError
    from wavesim_gpu.bench.kinds.foreign.kernels import Made

    made = Made(PAIRS[0])
    made.counters.fill(0)
    made.launch(1, "row", made.streams[0])
    made.streams[0].synchronize()
    with pytest.raises(DeadlockError, match="ran out of its 2 s"):
        made.require_no_timeout()
