"""Names that attack, in live widgets: what a kernel sends to JupyterLab runs nothing and fetches nothing."""

from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

SUPPORT = Path(__file__).parents[1] / "support"
SOURCE = f"""import itertools
import sys
sys.path.insert(0, {str(SUPPORT)!r})
from IPython.display import display
from hostile import advice, measured, pipeline, traces, what_if
from wavesim.teaching.prediction import Prediction
from wavesim.widgets import ComparisonView
from wavesim.widgets.advice_browser import AdviceBrowser

NAMES = [
    "<img src=x onerror=hit()>",
    "<script>hit()</script>",
    "<!--<script>",
    "</script><script>hit()</script>",
    "<svg onload=hit()>",
    '" autofocus onfocus="hit()',
    "<a href='https://example.org/'>x</a>",
    "$\\\\href{{javascript:hit()}}{{x}}$",
]


take = itertools.cycle(NAMES).__next__
refused = what_if(take)
refused.controls.wait_kernel.value = False
refused.controls.head_start.value = 4
ours = traces(take)[1]
display(refused, AdviceBrowser(advice(take)), Prediction(take(), choices=(take(), take())))
display(ComparisonView([(take(), lambda: (ours, measured(ours, take), None))]))
display(pipeline(take), ours)"""
DRAWN = """() => document.querySelectorAll('.wavesim-drawn canvas[data-drawn]').length >= 4
  && document.querySelector('.wavesim-display svg')
  && document.querySelector('.prediction, .jupyter-widgets input[type=radio]')"""
# Our own script stands beside what a widget leaves for the time after a restart.
FOREIGN = """() => [...document.querySelectorAll('.jp-OutputArea-output *')].filter((el) =>
  el.matches('script:not(.wavesim-still > script), img, iframe, object, embed')
  || el.matches('a[href*="example"], a[href^="javascript"]')
  || [...el.attributes].some((one) => one.name.startsWith('on'))).map((el) => el.outerHTML.slice(0, 200))"""


def test_no_name_in_a_live_widget_runs_or_loads_anything(lab, first_visit):
    page = first_visit.page
    page.add_init_script("window.hits = 0; window.hit = () => { window.hits += 1; };")
    first_visit.open(lab, lab.write("hostile.ipynb", SOURCE))
    assert first_visit.run_all() == []
    page.wait_for_function(DRAWN)
    assert "Deadlock" in page.locator("[role=alert]").first.inner_text()
    assert "<img src=x onerror=hit()>" in page.locator(".jp-Notebook").inner_text()
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate("window.hits") == 0
    assert first_visit.outside == []
    assert first_visit.console_errors == []
