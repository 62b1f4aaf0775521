"""The what-if on a mixture of experts: what each control changes, and what is refused."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.widgets.experts_what_if import ExpertsWhatIf


def test_skew_gives_the_busiest_expert_more_rows_and_the_layer_more_blocks():
    widget = ExpertsWhatIf(skew=0.0)
    assert "in 8 blocks of rows" in widget.finding.value
    even = widget.stream.time_ns
    widget.skew.value = 1.0
    assert "in 9 blocks of rows" in widget.finding.value
    assert widget.stream.time_ns > even


def test_few_tokens_by_zipf_touch_fewer_experts_so_that_less_is_read():
    widget = ExpertsWhatIf(model="qwen3-30b-a3b", experts=128, top_k=8, tokens=16, skew=0.0)
    even = widget.stream.time_ns
    widget.skew.value = 1.0
    assert widget.stream.time_ns < 0.85 * even


def test_another_model_brings_its_experts_and_a_plan_tile_or_top_k_can_be_chosen():
    widget = ExpertsWhatIf()
    widget.model.value = "gpt-oss-20b-like"
    assert (widget.scenario.experts, widget.scenario.top_k) == (32, 4)
    before = widget.chosen
    widget.sync.value = "persistent"
    assert widget.chosen.header.plan != before.header.plan
    widget.tile.value = "128x128"
    assert widget.pipeline.stages[0].work.output_tile == (128, 128)
    widget.top_k.value = 1
    assert widget.pipeline.stages[2].work.top_k == 1


def test_more_experts_of_a_token_than_there_are_and_an_unknown_tile_are_refused_by_name():
    widget = ExpertsWhatIf()
    widget.experts.value = 4
    widget.top_k.value = 8
    assert "top_k is 8" in widget.problem.value
    with pytest.raises(DescriptionError, match="Tile is '64x99'; there are"):
        ExpertsWhatIf(tile="64x99")
