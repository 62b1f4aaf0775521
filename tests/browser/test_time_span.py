"""A span of time on drawn timelines: dragged over, moved and widened by keys, whole again, and in the SVG."""

import pytest

from wavesim import StreamSync, device, simulate, toy, zero_cost
from wavesim.view.timeline_data import timeline_parts
from wavesim.widgets.drawn import PlansPicture

pytestmark = pytest.mark.browser
ROOT, TILE_NS = ".wavesim-timelines", 1000
SVG = "() => [...document.querySelectorAll('*')].find(el => el.wavesim?.svg).wavesim.svg(1000)"
PIXELS = "() => document.querySelector('canvas').toDataURL()"


@pytest.fixture
def page(visit, tmp_path):
    """Stream order on the toy, which takes four tile times, in a page of its own."""
    four_sms = toy()
    trace = simulate(four_sms, StreamSync(), device("toy"), zero_cost(four_sms, TILE_NS))
    path = tmp_path / "plans.html"
    PlansPicture.of(timeline_parts([trace])).save(path)
    visit.page.goto(path.as_uri())
    yield visit.page
    assert visit.console_errors == []


def spanned(page) -> list[int]:
    return [round(float(ns), -2) for ns in page.locator(ROOT).get_attribute("data-span").split()]


def test_a_span_of_time_is_dragged_moved_widened_and_let_go(page):
    root, canvas = page.locator(ROOT), page.locator("canvas")
    root.wait_for()
    whole = page.evaluate(PIXELS)
    box = canvas.bounding_box()
    left, right = box["x"] + 62, box["x"] + box["width"] - 116  # the axis, from 0 to 4 tile times
    y = box["y"] + box["height"] / 2
    page.mouse.move((left + right) / 2, y)
    page.mouse.down()
    page.mouse.move((left + 3 * right) / 4, y, steps=3)
    page.mouse.up()
    assert spanned(page) == [2000, 3000]
    assert "From t = 2 to t = 3" in page.get_by_role("status").inner_text()
    assert "From t = 2 to t = 3" in canvas.get_attribute("aria-label")
    assert page.evaluate(PIXELS) != whole

    page.mouse.move(left + 30, y)  # where tile 0 of gemm1 was, gemm2 is now
    assert "gemm2" in page.locator(".wavesim-hover").inner_text()
    svg = page.evaluate(SVG)
    assert "clipPath" in svg
    assert ">2</text>" in svg  # the axis begins there
    assert ">1</text>" not in svg

    root.focus()
    for key, span in (
        ("ArrowRight", [2200, 3200]),
        ("ArrowLeft", [2000, 3000]),
        ("+", [2200, 2800]),
        ("-", [2000, 3000]),
        ("-", [1500, 3500]),
        ("ArrowRight", [2000, 4000]),
        ("ArrowRight", [2000, 4000]),  # no further than the run
    ):
        page.keyboard.press(key)
        assert spanned(page) == span, key
    page.keyboard.press("Home")
    assert root.get_attribute("data-span") == "whole"
    assert page.evaluate(PIXELS) == whole
    page.keyboard.press("+")
    canvas.dblclick(position={"x": 300, "y": 100})
    assert root.get_attribute("data-span") == "whole"
    assert "clipPath" not in page.evaluate(SVG)


def test_a_click_and_keys_of_the_browser_change_nothing(page):
    page.locator(ROOT).wait_for()
    page.locator("canvas").click(position={"x": 300, "y": 100})
    page.locator(ROOT).focus()
    page.keyboard.press("Control+-")
    page.keyboard.press("a")
    assert page.locator(ROOT).get_attribute("data-span") == "whole"
