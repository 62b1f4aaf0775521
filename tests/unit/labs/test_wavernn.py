"""WaveRNN's cycles: every product of every step once, and no product before what it reads."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.labs.wavernn import (
    LAYERS,
    OWN_CUT,
    PUBLISHED_CUT,
    RECURRENT,
    WAYS,
    BlockRows,
    StepCycle,
    cycles_of,
    in_flight,
    pipeline_of,
)


def test_the_published_cut_has_the_talks_64_blocks():
    assert [PUBLISHED_CUT.blocks(layer) for layer in LAYERS] == [42, 7, 4, 7, 4]
    assert PUBLISHED_CUT.all_blocks == 64
    assert [OWN_CUT.blocks(layer) for layer in LAYERS] == [56, 7, 4, 7, 4]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_does_800_products_of_eight_sequences(way):
    """32 steps x 5 layers x 5 batches of 8; a batch of 40 counts as five."""
    cycles = cycles_of(way, 32)
    for layer in LAYERS:
        assert sum(cycle.sequences // 8 for cycle in cycles if layer in cycle.layers) == 32 * 5


def test_a_pipeline_of_five_batches_takes_164_cycles_and_fills_and_drains_in_four():
    cycles = cycles_of("both", 32)
    assert len(cycles) == 164
    assert [len(cycle.layers) for cycle in cycles[:5]] == [1, 2, 3, 4, 5]
    assert [len(cycle.layers) for cycle in cycles[-4:]] == [4, 3, 2, 1]
    assert all(cycle.layers == LAYERS for cycle in cycles[4:160])
    assert len(cycles_of("persistent", 32)) == 800


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 5])
def test_a_batch_is_at_one_layer_after_the_other_and_enters_again_when_it_is_through(batches):
    cycles = in_flight(batches, 3)
    assert len(cycles) == 5 * 2 + batches + 4
    for batch in range(batches):
        walk = [LAYERS[i % 5] for i in range(15)]
        assert all(walk[i] in cycles[batch + i].layers for i in range(15))
    assert sum(len(cycle.layers) for cycle in cycles) == 15 * batches


def test_cycles_become_kernels_with_a_block_for_each_piece_of_work():
    pipeline = pipeline_of([StepCycle((RECURRENT,)), StepCycle(LAYERS)])
    assert [stage.grid.size for stage in pipeline.stages] == [42, 64]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BlockRows(12, 64), "multiple of 8"),
        (lambda: BlockRows(64, 0), "from 8 to"),
        (lambda: cycles_of("fast"), "must be one of library"),
        (lambda: cycles_of("both", 0), "steps is 0"),
        (lambda: in_flight(6, 1), "batches in flight is 6"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, words):
    with pytest.raises(DescriptionError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
