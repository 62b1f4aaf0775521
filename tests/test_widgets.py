"""The what-if explorer without a browser: its controls, its figure's data, its words and its refusals."""

import asyncio
import re
from base64 import b64decode

import numpy as np
import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.widgets.controls import start_scenario
from wavesim.widgets.live_figure import LiveFigure
from wavesim.widgets.scenario import ORDERS, Scenario, answer
from wavesim.widgets.what_if import WhatIf
from wavesim.widgets.when_still import WhenStill


def makespan(widget: WhatIf) -> str:
    """What stands in the finding's element for tests and screen readers."""
    found = re.search(r"class='wavesim-makespan'[^>]*>([^<]*)<", widget.finding.value)
    assert found, widget.finding.value
    return found[1]


def bars(widget: WhatIf) -> list[list[float]]:
    """Lengths of the bars of every series that has any."""
    lengths = [
        list(series.x) for series in widget.figure.data if series.type == "bar" and series.x is not None
    ]
    return [row for row in lengths if row != [None]]


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


def test_changing_a_control_changes_the_data_of_the_same_figure():
    widget = WhatIf(tokens=256)
    figure, before = widget.figure, bars(widget)
    widget.controls.tokens.value = 384
    assert widget.figure is figure
    assert bars(widget) != before
    assert len(widget.answer.chosen) == 3 * (24 + 48)


def test_a_figure_that_was_changed_and_changed_back_holds_what_a_new_one_does(on_toy):
    on_toy.controls.order.value = "column"
    on_toy.controls.order.value = "row"
    new = WhatIf(workload="toy", policy="tile").figure
    for series, fresh in zip(on_toy.figure.to_dict()["data"], new.to_dict()["data"], strict=True):
        assert series.keys() == fresh.keys()
        for name in ("base", "x", "y"):
            np.testing.assert_array_equal(decoded(series.get(name)), decoded(fresh.get(name)))
    assert on_toy.figure.to_dict()["layout"] == new.to_dict()["layout"]


def decoded(value):
    """Plotly's base64 arrays as numpy's."""
    if isinstance(value, dict):
        return np.frombuffer(b64decode(value["bdata"]), dtype=value["dtype"])
    return np.asarray(value)


def test_the_state_that_a_reloaded_page_asks_for_is_what_was_last_shown(on_toy):
    first = on_toy.figure.get_state()["_widget_layout"]["title"]["text"]
    on_toy.controls.order.value = "column"
    state = on_toy.figure.get_state()
    assert state["_widget_layout"]["title"]["text"] != first
    assert state["_widget_layout"]["title"]["text"] == on_toy.figure.layout.title.text


def test_a_redraw_sends_one_message_and_only_what_changed(on_toy, monkeypatch):
    sent = []
    monkeypatch.setattr(
        LiveFigure, "_send_update_msg", lambda self, *args, **kwargs: sent.append(kwargs or args)
    )
    on_toy.controls.order.value = "column"
    assert len(sent) == 1
    assert "marker.color" not in str(sent)


def test_a_block_that_does_not_fit_is_explained_and_the_last_picture_stays():
    widget = WhatIf(tokens=256)
    before = widget.figure.to_json()
    widget.controls.device.value = "t4"
    assert "t4 allows a block at most 65536 bytes" in widget.finding.value
    assert "last setting that ran: gpt3-mlp, 256 tokens" in widget.finding.value
    assert widget.figure.to_json() == before
    assert "wavesim-stale" in widget._picture_box._dom_classes
    widget.controls.device.value = "h200"
    assert "wavesim-problem" not in widget.finding.value
    assert "wavesim-stale" not in widget._picture_box._dom_classes


def test_a_deadlock_is_told_in_words(on_toy):
    on_toy.controls.wait_kernel.value = False
    on_toy.controls.head_start.value = 4
    assert "Deadlock." in on_toy.finding.value
    assert "4 blocks of gemm2 hold SM slots" in on_toy.finding.value
    assert "gemm1: 6 of its blocks" in on_toy.finding.value
    assert "Traceback" not in on_toy.finding.value


def test_an_error_of_our_own_is_said_and_not_swallowed(on_toy, monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr("wavesim.widgets.what_if.answer", broken)
    with pytest.raises(ZeroDivisionError):
        on_toy.refresh()
    assert "wavesim met an error of its own" in on_toy.finding.value


def test_start_values_that_cannot_run_raise():
    with pytest.raises(DescriptionError, match="t4 allows"):
        WhatIf(device="t4")
    with pytest.raises(DeadlockError):
        WhatIf(workload="toy", policy="tile", wait_kernel=False, head_start=4)


def test_choosing_a_workload_or_device_sets_the_controls_that_follow():
    widget = WhatIf(tokens=256)
    widget.controls.device.value = "a100-80gb"
    assert widget.controls.sm_count.value == 108
    widget.controls.workload.value = "toy"
    assert (widget.controls.device.value, widget.controls.sm_count.value) == ("toy", 4)
    assert widget.controls.tokens.disabled


def test_every_control_is_labelled():
    assert all(control.description for control in WhatIf(workload="toy").controls.all)


def test_the_baseline_is_not_simulated_again_when_only_the_policy_changes(monkeypatch):
    widget = WhatIf(tokens=256, sm_count=77)
    before = widget.answer.stream
    widget.controls.policy.value = "tile"
    assert widget.answer.stream is before


def test_fewer_sms_leave_the_time_of_a_tile_as_it_is():
    whole, part = (answer(start_scenario(tokens=256, sm_count=count)) for count in (132, 66))
    assert whole.costs.model.tile_ns == part.costs.model.tile_ns


def test_the_costs_and_where_they_come_from_are_stated():
    widget = WhatIf(tokens=256, device="a100-80gb")
    assert "a100-80gb's data sheet" in widget.costs.value
    assert "never measured" in widget.costs.value


def test_a_dark_page_restyles_the_figure(on_toy):
    light = on_toy.figure.layout.paper_bgcolor
    on_toy._watch.is_light = False
    assert on_toy.figure.layout.paper_bgcolor != light


def test_a_narrow_page_narrows_the_figure(on_toy):
    on_toy._watch.width = 700
    assert on_toy.figure.layout.width == 700


def test_every_order_that_the_controls_offer_simulates():
    for order in ORDERS:
        assert len(answer(Scenario("toy", device="toy", sm_count=4, order=order)).chosen) == 12


def test_many_tiles_are_a_preview_first_and_bars_when_the_controls_are_still():
    async def move():
        widget = WhatIf(tokens=512)
        widget.controls.tokens.value = 640
        preview = bars(widget), len(widget.figure.to_dict()["layout"].get("images", []))
        await asyncio.sleep(0.6)
        return preview, (bars(widget), len(widget.figure.to_dict()["layout"].get("images", [])))

    (early_bars, early_images), (late_bars, late_images) = asyncio.run(move())
    assert early_images == 2
    assert not early_bars
    assert late_images == 0
    assert sum(map(len, late_bars)) >= 2 * 5 * (24 + 48)


def test_what_waits_for_stillness_runs_once():
    calls = []

    async def restart_twice():
        still = WhenStill(lambda: calls.append(1), 0.01)
        still.restart()
        still.restart()
        await asyncio.sleep(0.05)

    asyncio.run(restart_twice())
    assert calls == [1]
