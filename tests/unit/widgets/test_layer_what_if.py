"""The what-if on a layer: controls, edges with policies of their own, settings that cannot run."""

from dataclasses import replace

from wavesim.codegen.edge_policies import with_edges
from wavesim.plan.parsing import parse_plan
from wavesim.widgets.layer_what_if import LayerWhatIf

SMALL = {"model": "qwen2.5-0.5b", "tokens": 256}


def edge(widget, name):
    return next(menu for menu in widget.edges.children if menu.description == name)


def test_edges_follow_the_part_and_each_can_wait_for_the_whole_kernel():
    widget = LayerWhatIf(model="gpt3-145b")
    assert [menu.description for menu in widget.edges.children] == ["qkv-attention", "attention-out"]
    before = widget.answer.chosen.time_ns
    for menu in widget.edges.children:
        menu.value = "grid"
    assert widget.scenario.edges == "qkv-attention=grid,attention-out=grid"
    assert widget.answer.chosen.time_ns > before
    widget.part.value = "whole layer"
    assert len(widget.edges.children) == 6
    assert widget.scenario.edges == "qkv-attention=grid,attention-out=grid"


def test_one_edge_of_another_policy_is_the_plan_that_the_command_line_names():
    widget = LayerWhatIf(**SMALL)
    edge(widget, "qkv-attention").value = "tile"
    pipeline, plan = widget.scenario.pipeline, widget.answer.scenario.plan
    assert plan.policy_of("qkv", "attention").name == "tile"
    assert plan.policy_of("attention", "out").name == "row"
    assert plan == replace(
        with_edges(parse_plan("pdl+row"), pipeline, "qkv-attention=tile"), orders=plan.orders
    )
    assert "qkv-attention=tile" in widget.finding.value


def test_policies_that_another_pipeline_lacks_are_those_of_the_plan_again():
    widget = LayerWhatIf(model="gpt3-145b", tokens=256, edges="qkv-attention=strided:6,attention-out=tile")
    assert "strided:6" in widget.scenario.edges
    widget.model.value = "llama-65b"
    assert widget.scenario.edges == "attention-out=tile"


def test_without_semaphores_edges_cannot_be_chosen_and_come_back_with_them():
    widget = LayerWhatIf(**SMALL, edges="qkv-attention=grid")
    widget.sync.value = "stream"
    assert all(menu.disabled for menu in widget.edges.children)
    assert widget.answer.chosen.time_ns == widget.answer.stream.time_ns
    widget.sync.value = "pdl+tile"
    assert not any(menu.disabled for menu in widget.edges.children)
    assert widget.scenario.edges == "qkv-attention=grid"


def test_another_phase_offers_its_own_numbers_of_tokens():
    widget = LayerWhatIf(**SMALL)
    widget.phase.value = "decode"
    assert widget.tokens.value == 1
    assert widget.answer.scenario.pipeline.parameters["phase"] == "decode"
    assert "points" in widget.finding.value
