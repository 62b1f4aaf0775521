"""Names in plotly's figures are texts: no tag, link, formula or field of theirs is read."""

import json
import re
from dataclasses import replace

import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.sim.simulation import simulate
from wavesim.view.comparison import predicted_and_measured
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.timeline_figure import timeline
from wavesim.workloads.figure_one import TILE_NS, toy

LINK = "<a href='https://example.org'>$x$ %{x}</a>"


@pytest.fixture(scope="module")
def named():
    """Traces of the toy, simulated and as if measured, in which every name is a link."""
    pipeline = toy()
    found = []
    for plan in (StreamSync(), SemaphoreSync(TileSync())):
        trace = simulate(pipeline, plan, load("toy"), zero_cost(pipeline, TILE_NS))
        head = trace.header
        stages = tuple(replace(info, name=LINK) for info in head.stages)
        semaphores = tuple(
            replace(info, producer=LINK, consumer=LINK, policy=LINK) for info in head.dependencies
        )
        names = {"workload": LINK, "plan_label": LINK, "device": {**head.device, "name": LINK}}
        found.append(replace(trace, header=replace(head, stages=stages, dependencies=semaphores, **names)))
    return found


def figures(named):
    measured = [replace(trace, header=replace(trace.header, source="measured")) for trace in named]
    yield timeline(named)
    yield predicted_and_measured(list(zip(named, measured, strict=True)))
    yield gain_overview([Gain(LINK, LINK, 1.0, 2.0)], source=LINK, size_name=LINK)


def test_a_name_in_a_figure_is_no_link_no_formula_and_no_field(named):
    for figure in figures(named):
        spec = json.loads(figure.to_json())
        spec["layout"].pop("template", None)
        for series in spec["data"]:
            series.pop("legendgroup", None)  # never shown
        text = json.dumps(spec)
        assert "&lt;a href=" in text
        assert "<a" not in text
        assert "$" not in text
        assert "%{x}</a>" not in text


def test_what_a_figure_marks_up_itself_stays_markup(named):
    for figure in figures(named):
        text = figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u002f", "/")
        assert not re.search(r"&lt;/?(b|br|span|extra)", text)
        assert not re.search(r"&#37;\{(y|custom)", text)
