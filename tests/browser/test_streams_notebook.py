"""Notebook 17 in JupyterLab: its explorer by keyboard, and an operation told of step by step."""

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

NOTEBOOK = "17_what_streams_promise.ipynb"


def test_the_streams_notebook_runs_and_its_explorer_follows_sliders_and_arrow_keys(lab, visit):
    page = visit.page
    visit.open(lab, NOTEBOOK)
    assert visit.run_all() == []
    visit.show("StreamsExplorer(streams=4, chunks=4)")
    queues = visit.slider("Queues").first
    queues.wait_for()
    visit.await_label("1,100 µs; kernels run for 800 µs of them", ".wavesim")
    queues.press("Home")
    visit.await_label("1,700 µs, 600 µs of them because streams share a hardware queue", ".wavesim")
    root = page.locator(".wavesim .wavesim-explorer").first
    root.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "words => document.querySelector('.wavesim .wavesim-told').textContent.includes(words)",
        arg="stood behind c0 in queue 0 for 400 µs: a false dependency",
    )
    assert visit.outside == []
    assert visit.console_errors == []
