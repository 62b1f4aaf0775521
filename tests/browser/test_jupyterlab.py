"""The first notebook and the explorer in JupyterLab and Chromium, as a reader meets them, keyboard only."""

import sys
from statistics import median
from typing import Any

import nbformat
import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

FIRST_NOTEBOOK = "01_start_here.ipynb"
STATUS = ".wavesim-spoken"
MAKESPAN = ".wavesim-makespan"
PLOT = ".wavesim .js-plotly-plot"
STILL_MS = 1_500  # longer than the explorer waits before it draws in full
# From a key's event to the figure drawn with what it asked for; the clock is the page's own.
WATCH = """() => {
  const plot = document.querySelector('.wavesim .js-plotly-plot');
  window.seen = { key: 0, drawn: [] };
  window.addEventListener('keydown', () => { window.seen = { key: performance.now(), drawn: [] }; }, true);
  plot.on('plotly_afterplot', () => window.seen.drawn.push(performance.now()));
}"""
DRAWN_SINCE_KEY = """tiles => window.seen.drawn.length > 0
  && document.querySelector('.wavesim-spoken').dataset.tiles !== tiles"""
CHANGE_THEME = "async theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
# Other processes on a busy machine only ever add time, so the best of a few medians is the widget's.
MOVES, ROUNDS = 5, 3
# What a machine that runs other things beside may add before a redraw counts as too slow.
SLACK = 3


def handle(page: Any, label: str) -> Any:
    """The slider with that label, as a keyboard user and a screen reader find it."""
    return page.get_by_role("slider", name=label)


def tiles(page: Any) -> str:
    return str(page.locator(STATUS).get_attribute("data-tiles"))


def await_picture(page: Any) -> None:
    page.wait_for_selector(f"{PLOT} .main-svg", timeout=60_000)
    page.wait_for_selector(".wavesim .noUi-handle[aria-label]", timeout=60_000)
    page.wait_for_timeout(STILL_MS)


def write_explorer(lab: Any, name: str, **start: Any) -> None:
    arguments = ", ".join(f"{key}={value!r}" for key, value in start.items())
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(f"from wavesim import WhatIf\n\nWhatIf({arguments})")]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, lab.root / name)


def test_the_first_notebook_runs_moves_and_survives_a_reload(lab, visit):
    page = visit.page
    visit.open(lab, FIRST_NOTEBOOK)
    assert visit.run_all() == []
    await_picture(page)
    before = page.locator(MAKESPAN).text_content()
    handle(page, "Tokens (rows)").press("ArrowRight")
    page.wait_for_function(
        "text => document.querySelector('.wavesim-makespan').textContent !== text", arg=before
    )
    page.wait_for_timeout(STILL_MS)
    moved = page.locator(MAKESPAN).text_content(), tiles(page), page.locator(f"{PLOT} .bars .point").count()
    assert moved[2] >= int(moved[1])  # a bar per tile, and those of idle and waiting slots

    page.evaluate("async () => window.jupyterapp.commands.execute('docmanager:save')")
    visit.reload(FIRST_NOTEBOOK)
    await_picture(page)
    reloaded = (
        page.locator(MAKESPAN).text_content(),
        tiles(page),
        page.locator(f"{PLOT} .bars .point").count(),
    )
    assert reloaded == moved
    assert handle(page, "Tokens (rows)").get_attribute("aria-valuetext") == "1,152"
    assert visit.outside == []
    assert visit.console_errors == []


def test_a_setting_that_cannot_run_says_why_beside_the_last_picture(lab, visit):
    page = visit.page
    write_explorer(lab, "refusal.ipynb", workload="toy", policy="tile")
    visit.open(lab, "refusal.ipynb")
    assert visit.run_all() == []
    await_picture(page)
    page.get_by_label("Wait-kernel").press("Space")
    for _ in range(3):
        handle(page, "Consumers first").press("ArrowRight")
    page.wait_for_timeout(STILL_MS)
    bars = page.locator(f"{PLOT} .bars .point").count()
    handle(page, "Consumers first").press("ArrowRight")
    page.wait_for_selector(".wavesim-problem")
    assert "4 blocks of gemm2 hold SM slots" in page.locator(".wavesim-problem").text_content()
    assert page.locator(f"{PLOT} .bars .point").count() == bars
    assert page.locator(".wavesim-picture.wavesim-stale").count() == 1
    page.get_by_label("Wait-kernel").press("Space")
    page.wait_for_selector(".wavesim-picture.wavesim-stale", state="detached")
    assert page.locator(".wavesim-problem").count() == 0
    assert visit.console_errors == []


def test_the_figure_follows_the_pages_theme(lab, visit):
    page = visit.page
    write_explorer(lab, "theme.ipynb", workload="toy", policy="tile")
    visit.open(lab, "theme.ipynb")
    visit.run_all()
    await_picture(page)
    ground = f"() => document.querySelector('{PLOT} .main-svg').style.background"
    light = page.evaluate(ground)
    page.evaluate(CHANGE_THEME, "JupyterLab Dark")
    page.wait_for_function(f"light => ({ground})() !== light", arg=light)
    page.evaluate(CHANGE_THEME, "JupyterLab Light")
    page.wait_for_function(f"light => ({ground})() === light", arg=light)


@pytest.mark.parametrize(
    ("start_tokens", "limit_ms"), [(384, 100), (7_936, 300)], ids=["1,000 tiles", "10,000 tiles"]
)
def test_a_slider_move_is_drawn_in_time(lab, visit, capsys, start_tokens, limit_ms):
    """Both plans' tiles count. Every move is to a size not simulated before, from a picture at rest.

    The limits are for a quiet machine and are printed beside what was measured; a machine that runs the
    rest of the tests too is given some slack.
    """
    page = visit.page
    write_explorer(lab, f"speed{start_tokens}.ipynb", tokens=start_tokens)
    visit.open(lab, f"speed{start_tokens}.ipynb")
    assert visit.run_all() == []
    await_picture(page)
    page.evaluate(WATCH)
    medians = []
    for _ in range(ROUNDS):
        times, counts = zip(*(one_move(page) for _ in range(MOVES)), strict=True)
        medians.append(median(times))
        with capsys.disabled():  # the figure is what this test is for
            sys.stdout.write(
                f"\nslider to redraw at {min(counts)} to {max(counts)} tiles: median {medians[-1]:.0f} ms, "
                f"{min(times):.0f} to {max(times):.0f} ms over {MOVES} moves (target {limit_ms} ms)\n"
            )
        if medians[-1] < limit_ms:
            break
    assert min(medians) < SLACK * limit_ms


def one_move(page: Any) -> tuple[float, int]:
    """Milliseconds from a key's event to the first complete drawing after it, and the tiles drawn."""
    before = tiles(page)
    handle(page, "Tokens (rows)").press("ArrowRight")
    page.wait_for_function(DRAWN_SINCE_KEY, arg=before)
    key, drawn = page.evaluate("() => [window.seen.key, window.seen.drawn]")
    page.wait_for_timeout(STILL_MS)
    return drawn[0] - key, int(tiles(page))
