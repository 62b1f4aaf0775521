"""The lecture's slides as one HTML file, from slides.toml and the project's figures: `make slides`.

Example: build/slides.html opens in any browser, offline. Right and left, Space, Home and End move; printing
gives a page for each slide.
"""

import argparse
import base64
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from draw_gallery import PICTURES
from draw_tour import WIDTH, tour
from wavesim.safe_io.escaping import Markup, element
from wavesim.safe_io.writing import write_text

FILE = Path(__file__).with_name("slides.toml")
ROOT = Path(__file__).parent.parent
FIGURES: Mapping[str, Callable[[Path], object]] = {
    **PICTURES,
    "tour": lambda path: tour().save(path, width=WIDTH),
}
PAGE = Markup("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>{css}</style></head>
<body>{slides}<script>{js}</script></body></html>
""")
CSS = Markup("""
@page { size: 13.333in 7.5in; margin: 0; }
body { margin: 0; background: #fff; color: #111827;
  font-family: Inter, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
section { box-sizing: border-box; height: 100vh; padding: 4vh 6vw 7vh; display: flex; flex-direction: column;
  gap: 2vh; position: relative; break-after: page; overflow: hidden; }
h2 { margin: 0; font-size: min(5.2vh, 3.4vw); line-height: 1.2; }
section.title { justify-content: center; }
section.title h2 { font-size: min(9vh, 5.4vw); }
ul { margin: 0; padding-left: 1.2em; font-size: min(3.6vh, 2.3vw); line-height: 1.5; }
.title ul { list-style: none; padding: 0; color: #6b7280; }
.ask { margin: auto 0 0; padding: 2vh 2vw; border-left: 6px solid #d9730d; background: #fff7ed;
  font-size: min(3.6vh, 2.3vw); }
img { flex: 1 1 0; min-height: 0; width: 100%; object-fit: contain; object-position: left top; }
footer { position: absolute; right: 2.5vw; bottom: 2.5vh; color: #6b7280; font-size: min(2vh, 1.4vw); }
@media screen { .moves section:not(.now) { display: none; } }
""")
JS = Markup("""(() => {
  const slides = [...document.querySelectorAll("section")];
  let now = 0;
  const show = (target) => {
    now = Math.min(slides.length - 1, Math.max(0, target));
    slides.forEach((slide, index) => slide.classList.toggle("now", index === now));
    history.replaceState(null, "", `#${now + 1}`);
  };
  const STEPS = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1,
    Home: -Infinity, End: Infinity };
  addEventListener("keydown", (event) => {
    if (!(event.key in STEPS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    show(now + STEPS[event.key]);
  });
  addEventListener("click", (event) => show(now + (event.clientX < innerWidth / 4 ? -1 : 1)));
  document.body.classList.add("moves");
  show(Number(location.hash.slice(1) || 1) - 1 || 0);
})();""")


def slides_page(slides: list[dict[str, Any]], figures: Mapping[str, bytes]) -> Markup:
    """The whole file; `figures` are the SVGs by name."""
    parts = [_slide(slide, place, len(slides), figures) for place, slide in enumerate(slides, start=1)]
    return PAGE.format(title=slides[0]["title"], css=CSS, slides=Markup("").join(parts), js=JS)


def _slide(slide: dict[str, Any], place: int, count: int, figures: Mapping[str, bytes]) -> Markup:
    parts = [element("h2", slide["title"])]
    if "says" in slide:
        parts.append(element("ul", *(element("li", line) for line in slide["says"])))
    if "figure" in slide:
        data = base64.b64encode(figures[slide["figure"]]).decode()
        parts.append(element("img", src=f"data:image/svg+xml;base64,{data}", alt=slide["title"]))
    if "ask" in slide:
        parts.append(element("p", slide["ask"], class_="ask"))
    parts.append(element("footer", f"{place} / {count}"))
    return element("section", *parts, class_="title" if place == 1 else None)


def drawn(names: set[str]) -> dict[str, bytes]:
    """The figures of these names as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name in sorted(names):
            path = Path(folder) / f"{name}.svg"
            FIGURES[name](path)
            found[name] = path.read_bytes()
    return found


def main() -> None:
    """Writes build/slides.html, or another file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "slides.html")
    options = parser.parse_args()
    slides = tomllib.loads(FILE.read_text(encoding="utf-8"))["slides"]
    figures = drawn({slide["figure"] for slide in slides if "figure" in slide})
    write_text(options.out, slides_page(slides, figures))
    print(options.out)  # noqa: T201


if __name__ == "__main__":
    main()
