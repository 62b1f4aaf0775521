"""Any view as a file: self-contained HTML, or SVG and PNG drawn by an installed Chromium.

Example: `WavePlayer(trace).save("wave.svg")` for a slide; the same call with `.html` for a mail.
Nothing is fetched: the page holds its script, and the browser runs without a network.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import unquote

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.escaping import Markup
from wavesim.safe_io.writing import write_bytes, write_text
from wavesim.view.theme import find_theme

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
KINDS = (".html", ".png", ".svg")
TIMEOUT_S = 90
PNG_SCALE = 2
PAGE = Markup("""<!DOCTYPE html>
<html lang="en" data-theme="{theme}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>wavesim</title>
<style>:root {{ color-scheme: {theme}; }}
body {{ margin: 16px auto; max-width: {width}px; background: {ground}; color: {ink};
font: 14px/1.5 Inter, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }}</style></head>
<body>{body}</body>
</html>
""")
# Each drawing element has a property `wavesim` whose svg(width) is its picture; they are stacked.
COLLECT = """<script>(async () => {
  const pictures = [...document.querySelectorAll("*")].filter((el) => el.wavesim?.svg);
  const parser = new DOMParser(), parts = [];
  const GAP = 12;
  let top = -GAP, width = 0;
  for (const el of pictures) {
    const svg = parser.parseFromString(await el.wavesim.svg(WIDTH), "image/svg+xml").documentElement;
    svg.setAttribute("y", top + GAP);
    // Plotly clips a legend to its width in this machine's font; a reader's may be wider.
    for (const el of svg.querySelectorAll('[clip-path*="#legend"]')) el.removeAttribute("clip-path");
    top += Number.parseFloat(svg.getAttribute("height")) + GAP;
    width = Math.max(width, Number.parseFloat(svg.getAttribute("width")));
    parts.push(new XMLSerializer().serializeToString(svg));
  }
  const pre = document.createElement("pre");
  pre.id = "wavesim-svg";
  const ground = getComputedStyle(document.body).backgroundColor;
  pre.dataset.svg = encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}">` +
    `<rect width="100%" height="100%" fill="${ground}"/>${parts.join("")}</svg>`);
  document.body.append(pre);
})();</script>"""
BARE_PAGE = Markup(
    '<!DOCTYPE html><meta charset="utf-8"><style>body{{margin:0}}svg{{display:block}}</style>{}'
)
# With its bracket, which no text of the page has: a name that reads like the attribute is not taken for it.
FOUND = re.compile(r'<pre id="wavesim-svg" data-svg="([^"]*)"')
SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')


def save_html(body: Markup, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
    """Writes a fragment of HTML as a page, or its pictures as SVG or PNG, by the path's ending.

    Raises `DescriptionError` for another ending or an unknown theme, `DeviceError` where SVG or PNG are
    wanted and no Chromium is installed or it fails, `OutputError` where the path cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise DescriptionError(f"path is {path.name!r}; its ending must be one of {', '.join(KINDS)}")
    if path.suffix.lower() == ".html":
        return write_text(path, _page(body, theme, width))
    browser = _chromium()
    with tempfile.TemporaryDirectory(prefix="wavesim-") as folder:
        svg = _svg_of(browser, Path(folder), body, theme, width)
        if path.suffix.lower() == ".svg":
            return write_text(path, svg)
        return write_bytes(path, _screenshot(browser, Path(folder), svg))


def _page(body: Markup, theme: str, width: int) -> Markup:
    palette = find_theme(theme)
    return PAGE.format(theme=palette.name, width=width, ground=palette.background, ink=palette.ink, body=body)


def _chromium() -> str:
    for name in CHROMIUM_NAMES:
        if program := shutil.which(name):
            return program
    raise DeviceError(
        "PNG and SVG are drawn by Chromium, and none is installed (Debian: apt-get install chromium). "
        "Save as .html instead, and use the picture's own PNG and SVG buttons in any browser"
    )


def _svg_of(browser: str, folder: Path, body: Markup, theme: str, width: int) -> Markup:
    collect = Markup(COLLECT.replace("WIDTH", str(width)))
    page = folder / "view.html"
    write_text(page, _page(Markup("").join([body, collect]), theme, width))
    dump = _run(
        browser,
        folder,
        f"--window-size={width + 40},1200",
        "--virtual-time-budget=20000",
        "--dump-dom",
        page.as_uri(),
    )
    match = FOUND.search(dump)
    if match is None:
        raise DeviceError(f"{browser} drew no picture; save as .html and look at its console")
    return Markup(unquote(match[1]))


def _screenshot(browser: str, folder: Path, svg: Markup) -> bytes:
    """The picture as PNG."""
    size = SIZE.search(svg)
    assert size is not None, "an SVG of ours has a size"
    columns, rows = (round(float(number)) for number in size.groups())
    if not columns or not rows:
        raise DeviceError(f"{browser} drew an empty picture; save as .html and look at its console")
    page = folder / "picture.html"
    write_text(page, BARE_PAGE.format(svg))
    shot = folder / "picture.png"
    scale = f"--force-device-scale-factor={PNG_SCALE}"
    _run(
        browser,
        folder,
        f"--window-size={columns},{rows}",
        scale,
        "--hide-scrollbars",
        f"--screenshot={shot}",
        page.as_uri(),
    )
    return shot.read_bytes()


def _run(browser: str, folder: Path, *arguments: str) -> str:
    """Runs a headless browser of its own, with no network and nothing of the user's profile."""
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    flags = [
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
    ]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    try:
        done = subprocess.run(  # noqa: S603  # a browser found on the path, and our own arguments
            [browser, *root, *flags, offline, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
        raise DeviceError(f"{browser} failed to draw the picture: {error}") from error
    return done.stdout
