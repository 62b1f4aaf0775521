"""The paper's attention as works that run: its dependencies name all that is read."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.device import load
from wavesim.plan.coverage import Precedence
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.predict.defaults import default_costs
from wavesim.sim.simulation import simulate
from wavesim.workloads.attention_chain import cusync_repository_attention, paper_attention

FORMS = {
    "a prompt": {"tokens": 512},
    "a ragged prompt": {"tokens": 328, "tile": (128, 256), "model": "llama"},
    "generation": {"tokens": 4, "cached": 511, "sequences": 4},
    "sequences that go on": {"tokens": 400, "cached": 312, "sequences": 2, "softmax_rows": 32},
}


@pytest.mark.parametrize("form", FORMS)
def test_what_every_tile_reads_is_named(form):
    pipeline = paper_attention(**FORMS[form])
    order = Precedence(Accesses(pipeline))
    for stage in pipeline.stages:
        order.require_covered(stage.name)


def test_scores_wait_for_their_queries_and_their_block_of_keys_and_for_nothing_else():
    accesses = Accesses(paper_attention(512))
    found = {(one.producer, one.tile) for one in Precedence(accesses).needed("scores", (4 * 5 + 3, 1), 0)}
    assert found == {("qkv", (5, 1)), ("qkv", (12 + 5, 3))}


def test_the_context_needs_values_block_by_block():
    accesses = Accesses(paper_attention(512))
    found = {
        one.tile: one.at for one in Precedence(accesses).needed("context", (5, 1), 0) if one.producer == "qkv"
    }
    assert found == {(24 + 5, row): 4 * row for row in range(4)}


def test_cached_keys_are_not_waited_for():
    accesses = Accesses(paper_attention(2, cached=511, sequences=2))
    assert not [one for one in Precedence(accesses).needed("scores", (0, 0), 0) if one.tile[0] >= 12]
    assert {one.tile for one in Precedence(accesses).needed("scores", (3, 0), 0)} == {(0, 0), (12, 0)}


def test_the_repositorys_chain_has_no_softmax_and_reads_keys_for_values():
    pipeline = cusync_repository_attention(512)
    assert [stage.name for stage in pipeline.stages] == ["qkv", "scores", "context", "output"]
    assert pipeline.stage("context").view("b") == pipeline.stage("scores").view("b")
    assert pipeline.stage("scores").work.head_dim == 1536
    order = Precedence(Accesses(pipeline))
    for name in ("scores", "context"):
        order.require_covered(name)


@pytest.mark.parametrize("make", [paper_attention, cusync_repository_attention])
def test_both_chains_are_simulated(make):
    pipeline, device = make(256), load("h200")
    costs, _ = default_costs(pipeline, device)
    for plan in (StreamSync(), SemaphoreSync(TileSync())):
        trace = simulate(pipeline, plan, device, costs)
        assert len(trace) == sum(stage.grid.size for stage in pipeline.stages)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "gpt4"}, "model is 'gpt4'; known are gpt3, llama"),
        ({"tile": (128, 192)}, "tile_n is 192; it must be a multiple of 128 that divides 1536"),
        ({"tokens": 129, "sequences": 2}, "tokens is 129 and sequences 2"),
        ({"tokens": 2, "sequences": 2, "cached": 512}, "are 513 keys"),
    ],
)
def test_what_cannot_be_described_is_refused_by_name(options, said):
    with pytest.raises(DescriptionError, match=said):
        paper_attention(**{"tokens": 256, **options})
