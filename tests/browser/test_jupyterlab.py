"""The first notebook and the explorer in JupyterLab and Chromium, as a reader meets them, keyboard only."""

import sys
from statistics import median
from typing import Any

import pytest
from slider_speed import STILL_MS, WATCH, one_move, slowdown

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

FIRST_NOTEBOOK = "01_start_here.ipynb"
MAKESPAN = ".wavesim-makespan"
CHANGE_THEME = "async theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
# Up and down again, from the start outwards: sizes that are next to what is shown.
STEPS = ("ArrowRight",) * 10 + ("ArrowLeft",) * 10
MEDIAN_MS, MOST_MS, MOST_PX = 60, 150, 720


def await_picture(page: Any) -> None:
    page.wait_for_selector(".wavesim .wavesim-drawn canvas[data-drawn]", timeout=120_000)
    page.wait_for_selector(".wavesim .noUi-handle[aria-label]")


def explorer(lab: Any, name: str, **start: Any) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in start.items())
    return str(lab.write(name, f"from wavesim.widgets import WhatIf\n\nWhatIf({arguments})"))


def test_the_first_notebook_runs_moves_and_survives_a_reload(lab, visit):
    page = visit.page
    visit.open(lab, FIRST_NOTEBOOK)
    assert visit.run_all() == []
    visit.show("WhatIf(")
    await_picture(page)
    before, pixels = page.locator(MAKESPAN).text_content(), visit.pixels(".wavesim")
    visit.move("Tokens (rows)", "ArrowRight", "1,152")
    visit.await_label("1152 tokens", ".wavesim")
    # The picture may be drawn before the text beside it.
    page.wait_for_function(
        "text => document.querySelector('.wavesim-makespan').textContent !== text", arg=before
    )
    moved = page.locator(MAKESPAN).text_content(), visit.picture(".wavesim").get_attribute("aria-label")
    assert visit.pixels(".wavesim") != pixels

    visit.save_and_reload(lab, FIRST_NOTEBOOK)
    visit.show("WhatIf(")
    await_picture(page)
    page.wait_for_function(
        "text => document.querySelector('.wavesim-makespan')?.textContent === text", arg=moved[0]
    )
    visit.await_label(moved[1], ".wavesim")
    assert visit.outside == []
    assert visit.console_errors == []


def test_a_picture_that_loaded_too_late_for_anywidget_follows_its_controls(lab, first_visit):
    """As on a machine that is busy for more than the two seconds that anywidget gives every model."""
    give_up = "AbortSignal.timeout = () => ({ addEventListener: (_, late) => late() })"
    first_visit.page.add_init_script(give_up)
    first_visit.open(lab, explorer(lab, "late.ipynb", workload="toy", policy="tile"))
    assert first_visit.run_all() == []
    await_picture(first_visit.page)
    first_visit.page.get_by_label("Semaphores", exact=True).select_option("one semaphore per tile row")
    first_visit.await_label("Row semaphores")
    assert first_visit.given_up > 0


def test_a_setting_that_cannot_run_says_why_beside_the_last_picture(lab, visit):
    page = visit.page
    visit.open(lab, explorer(lab, "refusal.ipynb", workload="toy", policy="tile"))
    assert visit.run_all() == []
    await_picture(page)
    page.get_by_role("checkbox", name="Wait-kernel").press("Space")
    page.wait_for_selector("[aria-label='Consumers first']:not([disabled] *, [disabled])")
    for count in "123":
        visit.move("Consumers first", "ArrowRight", count)
    visit.await_label("5 waves")
    last_good = visit.pixels(".wavesim")
    visit.slider("Consumers first").press("ArrowRight")
    page.wait_for_selector(".wavesim-problem")
    assert "4 blocks of gemm2 hold SM slots" in page.locator(".wavesim-problem").text_content()
    page.wait_for_selector(".wavesim-picture.wavesim-stale")
    assert visit.pixels(".wavesim") == last_good
    page.get_by_role("checkbox", name="Wait-kernel").press("Space")
    # The picture may be fresh before the words below it are gone.
    page.wait_for_selector(".wavesim-picture.wavesim-stale", state="detached")
    page.wait_for_selector(".wavesim-problem", state="detached")

    page.get_by_label("Workload", exact=True).select_option("GPT-3 MLP")
    visit.await_label("gpt3-mlp")
    page.wait_for_selector(".wavesim-timelines[data-unknown='0']")  # every size of the strip is simulated
    page.wait_for_timeout(STILL_MS)
    last_good = visit.pixels(".wavesim")
    page.get_by_label("Device", exact=True).select_option("t4")
    page.wait_for_selector(".wavesim-problem")
    assert "t4 allows a block at most 65536 bytes" in page.locator(".wavesim-problem").text_content()
    assert visit.pixels(".wavesim") == last_good
    assert visit.console_errors == []


def test_pictures_follow_the_pages_theme(lab, visit):
    page = visit.page
    visit.open(lab, explorer(lab, "theme.ipynb", workload="toy", policy="tile"))
    visit.run_all()
    await_picture(page)
    corner = """() => [...document.querySelector('.wavesim-drawn canvas').getContext('2d')
      .getImageData(1, 1, 1, 1).data].join()"""
    assert page.evaluate(corner) == "255,255,255,255"
    page.evaluate(CHANGE_THEME, "JupyterLab Dark")
    page.wait_for_function(f"() => ({corner})() === '17,24,39,255'")
    page.evaluate(CHANGE_THEME, "JupyterLab Light")
    page.wait_for_function(f"() => ({corner})() === '255,255,255,255'")


@pytest.mark.alone
@pytest.mark.parametrize("start", [512, 1_024, 8_192])
def test_a_slider_move_is_drawn_in_time(lab, visit, capsys, start):
    """Twenty steps, each from a picture at rest, as a reader makes them.

    On a quiet machine the limits hold as they stand. On a slower or a busy one, a limit is as many times
    longer as a process that only computes takes there; the factor is measured and printed.
    """
    page = visit.page
    visit.open(lab, explorer(lab, f"speed{start}.ipynb", tokens=start))
    assert visit.run_all() == []
    await_picture(page)
    page.evaluate(WATCH)
    page.wait_for_timeout(4 * STILL_MS)
    before = slowdown()
    times, counts = zip(*(one_move(visit, key) for key in STEPS), strict=True)
    busy = max(1.0, (before + slowdown()) / 2)
    with capsys.disabled():  # the figures are what this test is for
        sys.stdout.write(
            f"\nfrom {start} tokens, {min(counts)} to {max(counts)} tiles: "
            f"median {median(times):.0f} ms, at most {max(times):.0f} ms; "
            f"a process that only computes takes {busy:.2f} times as long\n"
        )
    assert median(times) < MEDIAN_MS * busy
    assert max(times) < MOST_MS * busy


def test_both_plans_are_seen_at_once_on_a_laptops_screen(lab, visit, capsys):
    page = visit.page
    page.set_viewport_size({"width": 1280, "height": 800})
    visit.open(lab, explorer(lab, "height.ipynb"))
    assert visit.run_all() == []
    await_picture(page)
    height = page.locator(".wavesim").first.bounding_box()["height"]
    with capsys.disabled():  # the figure is what this test is for
        sys.stdout.write(f"\nthe what-if is {height:.0f} px tall at 1280 px\n")
    assert height <= MOST_PX
