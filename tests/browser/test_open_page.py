"""The page of `wavesim page` as its readers meet it: from a file, by a link, on a phone, with keys alone."""

import re
import sys
import time

import pytest

from wavesim.cli.command_line import main

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

MOST_BYTES, PICTURE_S = 1_500_000, 2.0
DRAWN = "#what-if-picture canvas[data-drawn]"
PIXELS = "id => document.querySelector(`#${id}-picture canvas`).toDataURL()"
# Everything that has focus in the Tab order has a name, as a screen reader finds it.
NAMELESS = """() => [...document.querySelectorAll('a, button, input, select, [tabindex="0"]')]
  .filter(at => at.offsetParent)
  .filter(at => !(at.getAttribute('aria-label') || at.textContent.trim() || at.labels?.length))
  .map(at => at.outerHTML)"""
# The contrast of every text with the ground that it is on, by WCAG's formula; large and small alike.
FAINT = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number)
      .map(part => (part /= 255) <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = at => {
    for (; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('h1, h2, p, label, a, button, li, summary, legend, output')]
    .filter(at => at.offsetParent && at.textContent.trim())
    .map(at => {
      const [one, two] = [light(getComputedStyle(at).color), light(ground(at))].sort();
      return [(two + 0.05) / (one + 0.05), at.outerHTML.slice(0, 80)];
    })
    .filter(([contrast]) => contrast < 4.5);
}"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    assert main(["page", "-o", str(path)]) == 0
    return path


@pytest.fixture
def open_at(page_file, first_visit):
    """Opens the page with a fragment and waits for its first picture; the page, and the seconds that took."""

    def opened(fragment="", *, width=1280, theme="light"):
        page = first_visit.page
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.goto("about:blank")
        began = time.monotonic()
        page.goto(page_file.as_uri() + fragment)
        page.wait_for_selector(DRAWN)
        return page, time.monotonic() - began

    yield opened
    assert first_visit.console_errors == []
    assert [url for url in first_visit.outside if not url.startswith("file:")] == []


def shown(page, part="what-if"):
    return page.locator(f"#{part}-picture").get_attribute("data-shown")


def test_the_page_is_small_and_its_first_picture_and_a_links_state_come_quickly(page_file, open_at, capsys):
    assert page_file.stat().st_size < MOST_BYTES
    _, first_s = open_at()
    page, restored_s = open_at("#tokens=768&plan=tile&blocks=264&c1=12")
    page.wait_for_function("() => /768/.test(document.querySelector('#tokens-value').textContent)")
    assert "Tile semaphores" in shown(page)
    assert page.locator("#blocks-value").text_content() == "264"
    assert page.locator("[name=c1]").input_value() == "12"
    with capsys.disabled():  # the figures are what this test is for
        sys.stdout.write(f"\npage: first picture {first_s:.2f} s, restored from a link {restored_s:.2f} s\n")
    assert max(first_s, restored_s) < PICTURE_S


def test_keys_alone_change_the_size_race_and_zoom(open_at):
    page, _ = open_at()
    before = shown(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#tokens-value').textContent === '1,152'")
    page.wait_for_function(
        "text => document.querySelector('#what-if-picture').dataset.shown !== text", arg=before
    )
    still = page.evaluate(PIXELS, "what-if")
    page.keyboard.press(" ")
    page.wait_for_timeout(400)
    moved = page.evaluate(PIXELS, "what-if")
    page.wait_for_timeout(400)
    assert len({still, moved, page.evaluate(PIXELS, "what-if")}) == 3
    page.locator("#what-if-picture .wavesim-timelines").focus()
    page.keyboard.press("w")
    span = page.locator("#what-if-picture .wavesim-timelines").get_attribute("data-span")
    assert re.fullmatch(r"\d+ \d+", span)


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        ("#tokens=77", "tokens: “77” is none of 128, 256 and on to 4096"),
        ("#rows=400&c1=400&c2=400", "320,000 tiles are too many for this page: at most 6,000"),
        ("#rows=abc", "tile rows: “abc” is not a whole number from 1 to 400"),
        ("#colour=red", "The link says colour, which this page does not have"),
    ],
)
def test_an_impossible_link_gives_a_sentence_and_a_picture(open_at, fragment, words):
    page, _ = open_at(fragment)
    assert words in page.locator("#problem").text_content()
    assert "12 % less time" in shown(page)


def test_a_pair_of_ones_own_is_simulated_and_letters_leave_the_last_picture(open_at):
    page, _ = open_at()
    page.locator("[name=rows]").fill("11")
    page.wait_for_function(
        "() => document.querySelector('#pair-picture canvas').ariaLabel.includes('11 × 24 tiles')"
    )
    good = page.evaluate(PIXELS, "pair")
    page.locator("[name=t1]").fill("fast")
    assert (
        "µs per tile of the first kernel: “fast” is not a number" in page.locator("#problem").text_content()
    )
    assert page.evaluate(PIXELS, "pair") == good
    page.locator("[name=t1]").fill("240")
    assert page.locator("#problem").is_hidden()


def test_a_race_is_saved_as_a_moving_gif_in_one_click(open_at, tmp_path):
    page, _ = open_at()
    for kind, begins in (("GIF", b"GIF89a"), ("PNG", b"\x89PNG"), ("SVG", b"<svg ")):
        with page.expect_download() as download:
            page.locator(f"#what-if-picture [aria-label='Save the picture as {kind}']").click()
        saved = tmp_path / kind
        download.value.save_as(saved)
        data = saved.read_bytes()
        assert data.startswith(begins)
        if kind == "GIF":
            assert data.count(b"\x21\xf9\x04") >= 40  # frames


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1920])
def test_it_fits_its_screen_with_names_and_contrast(open_at, width, theme):
    page, _ = open_at(width=width, theme=theme)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(FAINT) == []


def test_without_javascript_there_is_a_picture_and_a_sentence(page_file, browser):
    page = browser.new_page()
    session = browser.new_cdp_session(page)
    session.send("Emulation.setScriptExecutionDisabled", {"value": True})
    page.goto(page_file.as_uri())
    assert page.locator("#still svg").count() == 2
    assert page.locator("#still svg").first.is_visible()
    assert "SMs idle in the last wave" in page.locator("noscript").first.inner_text()
    assert not page.locator("form.pair").is_visible()
    page.close()
