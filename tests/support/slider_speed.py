"""How long a picture takes to follow a slider, in a page; the clock is the page's own.

Example: the tokens slider goes up five times, each time from a picture at rest; of five times the median, and
how much longer a process that only computes takes on this machine just now.
"""

import time
from typing import Any

STATUS = ".wavesim-finding"
# From a key's event to the picture drawn with what it asked for, which its label says. The message that a
# frame's callback sends arrives when that frame has been painted.
WATCH = """() => {
  const label = () => document.querySelector('.wavesim .wavesim-drawn canvas').getAttribute('aria-label');
  window.seen = { drawn: [] };
  window.addEventListener('keydown', () => {
    window.seen = { key: performance.now(), label: label(), drawn: [] };
  }, true);
  document.addEventListener('wavesim-drawn', () => {
    const seen = window.seen;
    if (label() === seen.label) return;
    const painted = new MessageChannel();
    painted.port1.onmessage = () => seen.drawn.push(performance.now());
    requestAnimationFrame(() => painted.port2.postMessage(null));
  });
}"""
DRAWN_SINCE_KEY = """tiles => window.seen.drawn.length > 0
  && document.querySelector('.wavesim-finding').dataset.tiles !== tiles"""
STILL_MS = 300  # between two moves of a slider, so that each starts from a picture at rest
STEPS = 1_000_000  # of a loop that only computes
STEPS_S = 0.065  # that it takes where the limits were set: one quiet core of an AMD EPYC


def tiles(page: Any) -> str:
    """Those that are drawn, in both plans' pictures together."""
    return str(page.locator(STATUS).get_attribute("data-tiles"))


def slowdown() -> float:
    """How much longer a process that only computes takes than where the limits were set."""
    begin, total = time.perf_counter(), 0
    for step in range(STEPS):
        total += step * step % 7
    return (time.perf_counter() - begin) / STEPS_S


def one_move(visit: Any, arrow: str) -> tuple[float, int]:
    """Milliseconds from a key's event to the picture that follows from it, and the tiles drawn."""
    page = visit.page
    before = tiles(page)
    visit.slider("Tokens (rows)").press(arrow)
    page.wait_for_function(DRAWN_SINCE_KEY, arg=before)
    key, drawn = page.evaluate("() => [window.seen.key, window.seen.drawn]")
    page.wait_for_timeout(STILL_MS)
    return drawn[0] - key, int(tiles(page))
