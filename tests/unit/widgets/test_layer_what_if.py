"""The what-if on a layer: controls, edges that are switched off, settings that cannot run."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.widgets.layer_scenario import LayerScenario, layer_answer
from wavesim.widgets.layer_what_if import LayerWhatIf

SMALL = {"model": "qwen2.5-0.5b", "tokens": 256}


def test_edges_follow_the_part_and_each_can_wait_for_the_whole_kernel():
    widget = LayerWhatIf(**SMALL)
    assert [box.description for box in widget.edges.children] == ["qkv -> attention", "attention -> out"]
    before = widget.answer.chosen.time_ns
    for box in widget.edges.children:
        box.value = False
    assert widget.scenario.waiting == ("qkv -> attention", "attention -> out")
    assert widget.answer.chosen.time_ns >= before
    widget.part.value = "whole layer"
    assert len(widget.edges.children) == 6


def test_another_phase_offers_its_own_numbers_of_tokens():
    widget = LayerWhatIf(**SMALL)
    widget.phase.value = "decode"
    assert widget.tokens.value == 1
    assert widget.answer.scenario.pipeline.parameters["phase"] == "decode"
    assert "points" in widget.finding.value


def test_a_plan_without_semaphores_ignores_the_ticks():
    found = layer_answer(LayerScenario(**SMALL, sync="stream", waiting=("qkv -> attention",)))
    assert found.chosen.time_ns == found.stream.time_ns


def test_what_is_shown_is_a_page_without_controls(tmp_path):
    path = LayerWhatIf(**SMALL).save(tmp_path / "layer.html")
    assert "Simulated: " in path.read_text("utf-8")


def test_start_values_that_cannot_run_are_refused():
    with pytest.raises(DescriptionError, match="model is 'gpt-5'"):
        LayerWhatIf(model="gpt-5")
