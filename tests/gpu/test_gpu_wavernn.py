"""WaveRNN's kernels are right in every way that their steps are launched, and give up instead of hanging."""

import numpy as np
import pytest

from wavesim.errors import DeadlockError
from wavesim_gpu.persistent import wavernn
from wavesim_gpu.persistent.reference import is_right
from wavesim_gpu.persistent.wavernn import Launched, Wavernn, ways_of

pytestmark = pytest.mark.gpu
STEPS = 6


@pytest.fixture(scope="module", params=["fp16", "int8"])
def model(request):
    return Wavernn(request.param, STEPS, seed=11)


@pytest.mark.parametrize("way", ["batch", "persistent", "pipeline", "both", "words"])
def test_every_step_of_a_way_is_what_its_inputs_make_of_it_twice(model, way):
    for _ in range(2):  # counters and words are as before the first run
        model.run(way)
        assert is_right(model.weights, model.errors()), model.errors()


def test_all_ways_write_the_same(model):
    found = {}
    for way in ways_of(STEPS):
        model.run(way)
        found[way] = {name: array.get() for name, array in model.outputs.items()}
    for way, outputs in found.items():
        for name, values in outputs.items():
            assert np.array_equal(values, found["both"][name]), (way, name)


def test_blocks_whose_outputs_nobody_takes_up_give_up_and_say_so(monkeypatch, model):
    """R's blocks alone: from the second step on they wait for samples that no block of O4 draws."""
    monkeypatch.setattr(wavernn, "LIMIT_NS", 20_000_000)
    model.enqueue([Launched(0, 40, is_pipelined=True, between="words", blocks=56)])
    with pytest.raises(DeadlockError, match="longer than"):
        model.check("words")
    model.run("both")
    assert is_right(model.weights, model.errors())


def test_a_barrier_that_one_block_misses_is_given_up(monkeypatch, model):
    """The counter begins one below zero, as if a block fewer had come: the first to arrive makes it zero."""
    monkeypatch.setattr(wavernn, "LIMIT_NS", 20_000_000)
    model.set_progress(2**32 - 1)
    model.launch(Launched(0, 4, is_pipelined=True, between="barrier"))
    with pytest.raises(DeadlockError, match="longer than"):
        model.check("both")
    model.run("both")
    assert is_right(model.weights, model.errors())


@pytest.fixture(scope="module")
def one_cluster(runner):
    from wavesim_gpu.persistent.one_cluster import OneCluster

    return OneCluster(Wavernn("int8", STEPS, seed=11))


def test_one_cluster_is_right_twice_and_writes_what_all_others_write(one_cluster):
    model = one_cluster.model
    model.run("both")
    expected = {name: array.get() for name, array in model.outputs.items()}
    for _ in range(2):
        one_cluster.run()
        assert is_right(model.weights, model.errors()), model.errors()
        for name, values in expected.items():
            assert np.array_equal(model.outputs[name].get(), values), name


def test_a_cluster_that_waits_for_more_than_is_sent_gives_up(monkeypatch, one_cluster):
    from wavesim_gpu.persistent.one_cluster import HEARD_BYTES

    monkeypatch.setattr(wavernn, "LIMIT_NS", 20_000_000)
    one_cluster.enqueue(HEARD_BYTES + 4)
    with pytest.raises(DeadlockError, match="longer than"):
        one_cluster.model.check("cluster")
    one_cluster.run()
    assert is_right(one_cluster.model.weights, one_cluster.model.errors())
