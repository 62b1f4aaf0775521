"""`--edges`: single edges of a plan synchronised otherwise, as in the what-if on a layer."""

import pytest

from wavesim.cli.command_line import main
from wavesim.codegen.edge_policies import with_edges
from wavesim.errors import DescriptionError
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import edges_of
from wavesim.widgets.layer_what_if import LayerScenario

SCENARIO = LayerScenario("qwen2.5-0.5b", tokens=256, attention_order="short rows first")
CHAIN = SCENARIO.pipeline


def policies(plan):
    return {edge: plan.policy_of(*edge).name for edge in edges_of(CHAIN)}


def test_an_edge_takes_the_policy_that_is_named_and_the_others_keep_theirs():
    plan = with_edges(parse_plan("pdl+row"), CHAIN, "qkv-attention=tile")
    assert policies(plan) == {("qkv", "attention"): "tile", ("attention", "out"): "row"}
    assert with_edges(parse_plan("pdl+row"), CHAIN, "") == parse_plan("pdl+row")


def test_an_edge_that_the_what_if_switches_off_is_grid_here():
    plan = with_edges(parse_plan("pdl+row"), CHAIN, "attention-out=grid")
    scenario = LayerScenario("qwen2.5-0.5b", tokens=256, edges="attention-out=grid")
    assert (
        policies(plan)
        == policies(scenario.plan)
        == {
            ("qkv", "attention"): "row",
            ("attention", "out"): "grid",
        }
    )


@pytest.mark.parametrize(
    ("sync", "text", "message"),
    [
        ("pdl", "qkv-attention=row", "has no semaphores to choose; use --sync row"),
        ("pdl+row", "qkv-out=row", "has qkv-attention, attention-out"),
        ("pdl+row", "qkv-attention", "policy is ''"),
        ("pdl+row", "qkv-attention=row,qkv-attention=tile", "twice"),
    ],
)
def test_an_edge_that_is_not_there_and_one_that_cannot_wait_are_refused(sync, text, message):
    with pytest.raises(DescriptionError, match=message):
        with_edges(parse_plan(sync), CHAIN, text)


def test_a_plan_whose_edges_all_wait_for_whole_kernels_gains_less(capsys):
    words = ["simulate", "gpt3-145b-layer-attention", "--tokens", "512", "--sync", "pdl+row", "--json"]
    spans = []
    for edges in ("", "qkv-attention=grid,attention-out=grid"):
        assert main([*words, "--edges", edges]) == 0
        spans.append(int(capsys.readouterr().out.partition('"makespan_ns": ')[2].split(",")[0]))
    assert spans[0] < spans[1]
