"""The advice browser in JupyterLab and Chromium: pairs by keyboard, marks, a pair in the explorer."""

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

SOURCE = """from wavesim.profile.advice import advise
from wavesim.profile.profile_file import EXAMPLE, load_profile
from wavesim.widgets.advice_browser import AdviceBrowser

AdviceBrowser(advise(load_profile(EXAMPLE)))"""
FIGURE = ".wavesim .wavesim-drawn canvas[data-drawn]"
EXPLORER = ".wavesim-picture"


def test_pairs_are_chosen_marked_and_opened_in_the_explorer(lab, visit):
    page = visit.page
    visit.open(lab, lab.write("advice.ipynb", SOURCE))
    assert visit.run_all() == []
    page.wait_for_selector(FIGURE)
    saving = page.locator("p", has_text="times. Tile sync:").first
    before = saving.text_content()
    page.get_by_role("button", name="no", exact=True).press("Enter")
    page.wait_for_function("text => !document.body.textContent.includes(text)", arg=before)
    page.get_by_role("button", name="unknown", exact=True).press("Enter")
    page.wait_for_function("text => document.body.textContent.includes(text)", arg=before)

    page.get_by_role("button", name="Open in the what-if explorer").press("Enter")
    visit.await_label("", EXPLORER)
    assert page.locator(FIGURE).count() == 1
    assert "Which tile reads which is assumed" in page.locator(".wavesim-below").text_content()
    drawn = visit.pixels(".wavesim-picture")
    visit.move("SMs", "ArrowLeft", "131")
    page.wait_for_function(
        "old => document.querySelector('.wavesim-picture .wavesim-drawn canvas').toDataURL() !== old",
        arg=drawn,
    )

    page.get_by_label("Pair", exact=True).press("ArrowDown")
    page.wait_for_selector(EXPLORER, state="detached")
    page.wait_for_selector(FIGURE)
    assert visit.outside == []
    assert visit.console_errors == []
