"""The what-if explorer without a browser: its controls, its picture's data, its words and its refusals."""

import asyncio
import re

import numpy as np
import pytest

from wavesim.widgets.what_if import WhatIf, start_scenario


def makespan(widget: WhatIf) -> str:
    """What stands in the finding's element for tests and screen readers."""
    found = re.search(r'class="wavesim-makespan"[^>]*>([^<]*)<', widget.finding.value)
    assert found, widget.finding.value
    return found[1]


def tiles(widget: WhatIf) -> list[int]:
    """How many blocks each panel of the picture holds."""
    return [array(panel["blocks"]["end"]).size for panel in widget.picture.scene["panels"]]


def array(packed):
    """An array as the browser unpacks it."""
    return np.frombuffer(packed["data"], dtype=packed["type"])


@pytest.fixture
def on_toy():
    return WhatIf(workload="toy", policy="tile")


@pytest.mark.parametrize(
    ("order", "policy", "waves"),
    [
        ("row", "tile", "3 waves"),
        ("row", "row", "3 waves"),
        ("row, consumer reversed", "tile", "4 waves"),
        ("column", "tile", "3.5 waves"),
        ("column", "row", "4 waves"),
    ],
)
def test_the_explorer_shows_every_case_of_figure_1(on_toy, order, policy, waves):
    on_toy.controls.order.value = order
    on_toy.controls.policy.value = policy
    assert makespan(on_toy) == waves


def test_changing_a_control_changes_the_scene_of_the_same_picture():
    widget = WhatIf(tokens=256)
    picture, before = widget.picture, widget.picture.scene
    widget.controls.tokens.value = 384
    assert widget.picture is picture
    assert widget.picture.scene != before
    assert tiles(widget) == [3 * (24 + 48)] * 2


def test_pictures_of_the_next_sizes_are_sent_before_they_are_asked_for():
    sent = []

    async def moved():
        widget = WhatIf(tokens=256)
        widget.picture.observe(lambda change: sent.append(change.new), names="ahead")
        for _ in range(500):  # until they have come; 5 s are the limit
            await asyncio.sleep(0.01)
            if len(sent) >= 3:
                break
        widget.controls.tokens.value = 384
        yield widget.picture.scene, widget.picture.strip["of"]
        widget.controls.policy.value = "tile"
        yield widget.picture.scene, widget.picture.strip["of"]

    async def both():
        return [seen async for seen in moved()]

    (scene, setting), (_, other) = asyncio.run(both())
    assert [entry["at"] for entry in sent[:3]] == [128, 384, 512]
    assert sent[1]["scene"] == scene
    assert {entry["of"] for entry in sent} == {setting}
    assert other != setting


def test_the_state_that_a_reloaded_page_asks_for_is_what_was_last_shown(on_toy):
    first = on_toy.picture.get_state()["scene"]["title"]
    on_toy.controls.order.value = "column"
    assert on_toy.picture.get_state()["scene"]["title"] == on_toy.picture.scene["title"] != first


def test_the_scene_holds_the_schedule_of_the_traces(on_toy):
    trace = on_toy.answer.chosen
    panel = on_toy.picture.scene["panels"][1]
    for name in ("stage", "x", "y", "sm"):
        np.testing.assert_array_equal(array(panel["blocks"][name]), getattr(trace, name))
    np.testing.assert_array_equal(array(panel["blocks"]["end"]), trace.end_ns - trace.issue_ns.min())
    assert panel["dependencies"][0]["values"] == [1] * 6
    assert panel["gain"] == {"words": "−25 %", "kind": "good"}


def test_a_block_that_does_not_fit_is_explained_and_the_last_picture_stays():
    widget = WhatIf(tokens=256)
    before = widget.picture.scene
    widget.controls.device.value = "t4"
    assert "t4 allows a block at most 65536 bytes" in widget.problem.value
    assert "last setting that ran: gpt3-mlp, 256 tokens" in widget.problem.value
    assert widget.picture.scene == before
    assert "wavesim-stale" in widget._parts[1]._dom_classes
    widget.controls.device.value = "h200"
    assert "wavesim-problem" not in widget.problem.value
    assert "wavesim-stale" not in widget._parts[1]._dom_classes


def test_a_deadlock_is_told_in_words(on_toy):
    on_toy.controls.wait_kernel.value = False
    on_toy.controls.head_start.value = 4
    assert "Deadlock." in on_toy.problem.value
    assert "4 blocks of gemm2 hold SM slots" in on_toy.problem.value
    assert "gemm1: 6 of its blocks" in on_toy.problem.value
    assert "Traceback" not in on_toy.problem.value


def test_what_the_plans_safety_rests_on_is_said_below_the_picture(on_toy):
    assert "<b>Safety:</b> rests on issue of blocks wherever an SM has room" in on_toy.costs.value
    on_toy.controls.wait_kernel.value = False
    assert "<b>Safety:</b> can deadlock: 4 blocks of gemm2" in on_toy.costs.value


def test_an_error_of_our_own_is_said_and_not_swallowed(on_toy, monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr("wavesim.widgets.what_if._drawn", broken)
    with pytest.raises(ZeroDivisionError):
        on_toy.refresh()
    assert "wavesim met an error of its own" in on_toy.problem.value


def test_choosing_a_workload_or_device_sets_the_controls_that_follow():
    widget = WhatIf(tokens=256)
    widget.controls.device.value = "a100-80gb"
    assert widget.controls.sm_count.value == 108
    widget.controls.workload.value = "toy"
    assert (widget.controls.device.value, widget.controls.sm_count.value) == ("toy", 4)
    assert widget.controls.tokens.disabled


def test_a_workload_of_another_unit_brings_its_own_sizes_and_tiles():
    widget = WhatIf(tokens=2048)
    controls = widget.controls
    controls.workload.value = "llama-mlp"
    assert controls.tokens.value == 2048
    controls.workload.value = "vgg-conv-256"
    assert (controls.tokens.description, controls.tokens.value) == ("Images", 16)
    assert controls.tile.value == "64x256"
    assert max(value for _, value in controls.tokens.options) == 128
    controls.tile.value = "256x128"
    controls.device.value = "t4"
    controls.workload.value = "gpt3-mlp"
    assert (controls.tokens.description, controls.tokens.value) == ("Tokens (rows)", 1024)
    assert start_scenario(workload="resnet-conv").tokens == 16


def test_the_last_setting_that_ran_is_told_in_the_workloads_own_unit():
    widget = WhatIf(workload="resnet-conv-512")
    widget.controls.policy.value = "tile"
    widget.controls.wait_kernel.value = False
    widget.controls.head_start.value = 12
    widget.controls.sm_count.value = 1
    assert "resnet-conv-512, 16 images, tile 64x64" in widget.problem.value


def test_a_networks_part_is_a_chain_in_the_tiles_that_its_kernels_have():
    widget = WhatIf(workload="resnet-34-14", tokens=2, tile="64x64")
    assert "ResNet-34, images of 14 × 14" in [text for text, _ in widget.controls.workload.options]
    assert ("256 × 64", "256x64") in widget.controls.tile.options
    assert "Row semaphores" in widget.finding.value
    assert "convolutions as fitted to single ones and to pairs" in widget.costs.value


def test_every_control_is_labelled():
    assert all(control.description for control in WhatIf(workload="toy").controls)


def test_the_costs_and_where_they_come_from_are_stated():
    widget = WhatIf(tokens=256, device="a100-80gb")
    assert "a100-80gb's data sheet" in widget.costs.value
    assert "never measured" in widget.costs.value


def test_a_published_page_holds_the_picture_and_its_words(on_toy):
    page = on_toy.html()
    assert "half-empty waves filled, 4 \\u2192 3 waves" in page
    assert "25.0 points less time" in page
    assert "new PageModel(" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_another_gpu_says_whether_its_costs_may_be_compared():
    explorer = WhatIf(workload="gpt3-mlp", tokens=1024)
    h200_us = explorer.answer.stream.time_ns / 1000
    explorer.controls.device.value = "h100"
    assert "never measured: compare plans by it, not devices" in explorer.costs.value
    # What is said to be faster is the plan, on the same GPU; the other's time stands nowhere.
    assert "Row semaphores: " in explorer.finding.value
    assert f"{h200_us:,.1f}" not in explorer.finding.value + explorer.table.value
    explorer.controls.device.value = "h200"
    assert "compare plans by it, not devices" not in explorer.costs.value
    assert f"{h200_us:,.1f}" in explorer.finding.value
