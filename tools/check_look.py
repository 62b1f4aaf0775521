"""Looks at the built site in Chromium: `make look`, or `python tools/check_look.py build/site`.

Example: at 390 px a page is wider than the screen, or in the dark theme letters have a contrast of 3.9 where
WCAG's AA asks for 4.5: both are named with their page, and the status is 1.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

WIDTHS, HEIGHT, THEMES = (390, 1280, 1920), 900, ("light", "dark")
LEFT_OUT = (
    "notebooks",
    "files",
    "api",
    "course/quiz.html",
    "try.html",
    "404.html",
)  # not of the site's theme
# Of each element with text of its own: its words, contrast, and whether its letters are large (WCAG 1.4.3).
CONTRASTS = """() => {
  const rgba = text => { const m = text.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => [0, 1, 2].map(i => linear(c[i] / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const found = new Map();
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].filter(node => node.nodeType === 3);
    const words = own.map(node => node.data.trim()).join(' ').trim();
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const isShown = style.visibility !== 'hidden' && box.width && box.height && !element.closest('svg');
    if (!words || !isShown) continue;
    const below = behind(element), letters = over(rgba(style.color), below);
    const [a, b] = [light(letters), light(below)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), isBold = parseInt(style.fontWeight) >= 700;
    const least = size >= 24 || (size >= 18.66 && isBold) ? 3 : 4.5, ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least) found.set(style.color + below, `${words.slice(0, 30)}: contrast ${ratio.toFixed(1)}`);
  }
  return [...found.values()];
}"""
THEME = "theme => { document.documentElement.dataset.bsTheme = theme; }"
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def faults_of(page: Page, address: str) -> Iterator[str]:
    """What is wrong with a page at each width in each theme, each fault once."""
    seen = set()
    for theme in THEMES:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.goto(address)
            page.evaluate(THEME, theme)
            wider = page.evaluate(WIDER)
            faults = [f"{wider} px wider than {width}"] if wider > 0 else []
            faults += [f"{fault} ({theme})" for fault in page.evaluate(CONTRASTS)]
            yield from (fault for fault in faults if fault not in seen)
            seen.update(faults)


def main() -> int:
    """Prints the faults of all pages. Returns 1 where there are any."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site").resolve()
    pages = [path for path in sorted(site.rglob("*.html")) if not _is_left_out(path, site)]
    count = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(reduced_motion="reduce")  # no colour is caught on its way
        for path in pages:
            for fault in faults_of(page, path.as_uri()):
                count += 1
                print(f"{path.relative_to(site)}: {fault}")  # noqa: T201  # a script
        browser.close()
    print(f"{len(pages)} pages, {len(WIDTHS)} widths, {len(THEMES)} themes: {count} faults")  # noqa: T201
    return min(count, 1)


def _is_left_out(path: Path, site: Path) -> bool:
    place = path.relative_to(site).as_posix()
    return place.startswith(LEFT_OUT)


if __name__ == "__main__":
    sys.exit(main())
