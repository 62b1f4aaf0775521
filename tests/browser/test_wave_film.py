"""The README's moving picture: one instant at a time, at rest for who asks for less motion, small enough."""

from pathlib import Path

import pytest

from wavesim import DescriptionError, StreamSync, device, simulate, toy, zero_cost
from wavesim.widgets.wave_player import WaveFilm

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MOST_BYTES = 1_000_000
TEXTS_AT = """ms => {
  document.getAnimations().forEach(one => { one.pause(); one.currentTime = ms; });
  const frames = [...document.querySelectorAll('.frame')];
  const textsOf = use => {
    const part = document.querySelector(use.getAttribute('href'));
    return (part.matches('g') ? [...part.children] : [part]).map(one => one.textContent);
  };
  return frames.filter(frame => getComputedStyle(frame).visibility === 'visible')
    .map(frame => [...frame.querySelectorAll('use')].flatMap(textsOf));
}"""
TILE_MS, HOLD_MS = 2_000, 3_000  # eight seconds for stream order's four waves
SECOND = 4 * TILE_MS + HOLD_MS


@pytest.fixture
def film():
    return IMAGES / "tour.svg"


def test_the_committed_film_is_small_and_holds_no_script(film):
    text = film.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert "<script" not in text


@pytest.mark.browser
def test_the_film_shows_one_instant_after_another(film, first_visit):
    first_visit.page.goto(film.as_uri())
    for ms, words, clock in (
        (2.52 * TILE_MS, "Stream order", "t = 2.5"),
        (4.5 * TILE_MS, "Stream order", "t = 4"),
        (SECOND + 1.52 * TILE_MS, "Tile semaphores", "t = 1.5"),
        (SECOND + 3.5 * TILE_MS, "Tile semaphores", "t = 3"),
    ):
        (frame,) = first_visit.page.evaluate(TEXTS_AT, ms)
        assert clock in frame
        assert any(text.startswith(words) for text in frame)


@pytest.mark.browser
def test_the_film_stands_still_for_who_asks_for_less_motion(film, first_visit):
    first_visit.page.emulate_media(reduced_motion="reduce")
    first_visit.page.goto(film.as_uri())
    assert first_visit.page.evaluate("document.getAnimations().length") == 0
    (frame,) = first_visit.page.evaluate(TEXTS_AT, 0)
    assert "t = 3" in frame


def test_a_film_needs_a_trace_and_time_to_play_it():
    trace = simulate(toy(), StreamSync(), device("toy"), zero_cost(toy(), 1_000))
    with pytest.raises(DescriptionError, match="there is no trace; give at least one"):
        WaveFilm({})
    with pytest.raises(DescriptionError, match="seconds is 0; it must be above 0 and at most 60"):
        WaveFilm({"stream": trace}, seconds=0)
