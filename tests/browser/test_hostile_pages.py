"""Names that attack, in every output, in Chromium: no script runs, nothing is fetched, nothing is blank.

Pages hold many outputs each, so that all names in all outputs are a few page loads.
"""

import itertools
import json
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hostile import IN_PROFILES, NAMES, OUTPUTS, advice, fragments, traces, what_if
from made_up_findings import report as lint_report
from sample_results import changed

from wavesim.bench.gpu_results import load_results
from wavesim.bench.results_page import write_results_page
from wavesim.profile.report import write_report
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.display import STYLE
from wavesim.view.export import save_html
from wavesim.view.findings_page import write_findings
from wavesim.view.page import Section, Table, write_page
from wavesim.view.perfetto import write_perfetto
from wavesim.view.plotly_script import packed_plotly
from wavesim.view.timeline_figure import timeline
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.scripts import style

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    # Sockets of a browser that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

COUNT_HITS = "window.hits = 0; window.hit = () => { window.hits += 1; };"
DRAWN = """([canvases, plots]) => document.querySelectorAll('canvas[data-drawn]').length === canvases
  && document.querySelectorAll('.js-plotly-plot .main-svg .draglayer').length === plots"""
# Elements and attributes that nothing of ours makes.
FOREIGN = """() => [...document.querySelectorAll('*')].filter((el) =>
  el.matches('img, iframe, object, embed, link, base, form, input:not([type=range]), video, math, a[href]')
  || el.localName.includes('<') || [...el.attributes].some((one) => one.name.startsWith('on')))
  .map((el) => el.outerHTML.slice(0, 200))"""
BLANK = """() => [...document.body.children].filter((el) => el.matches('section'))
  .filter((el) => el.lastElementChild?.className !== 'end' || el.clientHeight < 20 || !el.innerText.trim())
  .map((el) => el.innerHTML.slice(-300))"""
# Hovers over a point of each plot, and over the middle of each canvas.
HOVER = """() => {
  for (const plot of document.querySelectorAll('.js-plotly-plot')) {
    const curveNumber = plot.data.findLastIndex((one) => one.hovertemplate && (one.x?.length ?? 0) > 0);
    const { xaxis = 'x', yaxis = 'y' } = plot.data[curveNumber] ?? {};
    if (curveNumber >= 0) Plotly.Fx.hover(plot, [{ curveNumber, pointNumber: 0 }], xaxis + yaxis);
  }
  for (const canvas of document.querySelectorAll('canvas[data-drawn]')) {
    const box = canvas.getBoundingClientRect();
    for (const share of [0.3, 0.5, 0.7])
      canvas.dispatchEvent(new PointerEvent('pointermove',
        { clientX: box.left + box.width / 2, clientY: box.top + box.height * share, bubbles: true }));
  }
}"""
# Pictures as SVG are well-formed, and put into a page as PNG export does it. Of each kind (output and place)
# there are as many, from the first in the page to the last.
EXPORT = """async (about) => {
  const kinds = new Map();
  for (const section of document.querySelectorAll('section[data-output]'))
    [...section.querySelectorAll('*')].filter((el) => el.wavesim?.svg).forEach((el, place) => {
      const kind = `${section.dataset.output} ${place}`;
      kinds.set(kind, [...(kinds.get(kind) ?? []), el]);
    });
  const each = Math.ceil(about / kinds.size);
  const chosen = [...kinds].flatMap(([kind, all]) => all
    .filter((_, at) => Math.floor((at + 1) * each / all.length) > Math.floor(at * each / all.length))
    .map((el) => [kind, el]));
  const broken = [];
  for (const [, el] of chosen) {
    const svg = await el.wavesim.svg(900);
    const parsed = new DOMParser().parseFromString(svg, 'image/svg+xml');
    if (parsed.querySelector('parsererror')) broken.push(parsed.documentElement.textContent.slice(0, 200));
    const holder = document.createElement('div');
    document.body.append(holder);
    holder.innerHTML = svg;
    await new Promise((done) => setTimeout(done, 0));
    const inside = [...holder.querySelectorAll('*')].map((one) => one.localName);
    if (inside.some((name) => ['script', 'img', 'iframe', 'a', 'foreignobject'].includes(name.toLowerCase())))
      broken.push(svg.slice(0, 300));
    holder.remove();
  }
  return [chosen.map(([kind]) => kind), broken];
}"""
SHEETS = [element("style", Markup(css)) for css in (DrawnWidget._css, style("what_if.css"), STYLE)]
DRAWN_WIDGETS = ("wave player", "what-if", "what-if refused", "tuner", "comparison", "dependencies")
WORDS = ("values by themselves", "predictions", "problems")
# A page each: one of all of them would keep one worker busy when the others have long ended.
FIGURES = (("timelines",), ("safety", "gains", "readiness"))


class Watched:
    """A page that notes what it should not do."""

    def __init__(self, page):
        self.page, self.wrong = page, []
        page.add_init_script(COUNT_HITS)
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        page.on("console", lambda said: said.type == "error" and self.wrong.append(f"console {said.text}"))
        page.on("request", self._note_request)
        page.on(
            "framenavigated", lambda frame: frame.url != self.own and self.wrong.append(f"to {frame.url}")
        )

    def open(self, path: Path):
        self.own = path.as_uri()
        self.page.goto(self.own)

    def _note_request(self, request):
        if request.url != self.own and not request.url.startswith(("data:", "blob:")):
            self.wrong.append(f"request {request.url[:200]}")

    def assert_harmless(self):
        assert self.page.evaluate("window.hits") == 0
        assert self.page.evaluate(FOREIGN) == []
        assert self.wrong == []


@pytest.fixture
def watched(browser):
    found = Watched(browser.new_page())
    yield found
    found.page.close()


@pytest.fixture
def page_of(monkeypatch, tmp_path):
    """Writes a page with a section per part, and what is the same in all of them once: plotly.js and styles.

    Each style more in a page, the same or not, makes a browser look at every element again.
    """
    script = element("script", packed_plotly())
    monkeypatch.setattr("wavesim.view.figure.packed_plotly", lambda: Markup(""))

    def write(outputs, parts):
        parts = list(parts)
        for sheet in SHEETS:
            first = next((place for place, part in enumerate(parts) if sheet in part), 0)
            parts[first + 1 :] = [Markup(part.replace(sheet, "")) for part in parts[first + 1 :]]
        sections = [
            element("section", part, element("i", "end", class_="end"), data_output=output)
            for output, part in zip(outputs, parts, strict=True)
        ]
        return save_html(Markup("").join([script, *sections]), tmp_path / "page.html")

    return write


@pytest.mark.parametrize("outputs", [("advice",), *FIGURES, DRAWN_WIDGETS, WORDS], ids=lambda names: names[0])
def test_no_name_in_any_output_runs_loads_or_blanks_a_page(outputs, watched, page_of):
    parts = [(output, part) for output in outputs for part in fragments(OUTPUTS[output])]
    path = page_of(*zip(*parts, strict=True))
    watched.open(path)
    text = path.read_text(encoding="utf-8")
    watched.page.wait_for_function(DRAWN, arg=[text.count("new PageModel("), text.count("plotly.newPlot(")])
    assert watched.page.locator("body > section").count() == len(parts)
    assert watched.page.evaluate(BLANK) == []
    watched.page.evaluate(HOVER)
    watched.assert_harmless()
    exported, broken = watched.page.evaluate(EXPORT, 20)
    assert broken == []
    assert {kind.rsplit(" ", 1)[0] for kind in exported} == (set() if outputs == WORDS else set(outputs))
    watched.assert_harmless()


def results_page(folder: Path) -> Path:
    """The page of a benchmark's results in which every text is a name."""
    names = itertools.cycle(NAMES)

    def attack(document):
        document |= {key: next(names) for key in ("date", "commit", "kernels")}
        document |= {"versions": {next(names): next(names) for _ in range(8)}}
        document["device"]["name"] = next(names)
        for case in document["cases"]:
            case |= {key: next(names) for key in ("plan", "kernels", "order", "way", "tile")}
            case |= {"cuts": [next(names)], "roles": [*case.get("roles", []), next(names)]}
        document["cases"] += [{**document["cases"][-1], "name": name} for name in NAMES]
        for case in document["cases"][-40:]:
            case["verdict"] = {"is_good": False}

    return write_results_page(folder / "page.html", load_results(changed(folder, attack)))


def report(folder: Path) -> Path:
    """The advice on a profile of forty kernels."""
    names = iter(IN_PROFILES)
    return write_report(folder / "page.html", advice(lambda: next(names), kernels=40))


def whole_page(folder: Path) -> Path:
    """A page of ours in which every text is a name, and every name in every kind of text."""
    names = iter(NAMES)
    figure = timeline(traces(lambda: next(names))[0])
    return write_page(
        folder / "page.html",
        title=" ".join(NAMES[:40]),
        lead="\n\n".join(NAMES),
        figures=[Section(figure, name, " ".join(NAMES)) for name in NAMES[:3]],
        table=Table(
            ["name", *NAMES[:3]], [[name] * 4 for name in NAMES], caption=" ".join(NAMES), signed=NAMES
        ),
        notes=NAMES,
    )


def findings(folder: Path) -> Path:
    """The findings of lint on kernels in which every text is a name."""
    names = itertools.cycle(NAMES)
    return write_findings(folder / "page.html", lint_report(lambda: next(names)))


@pytest.mark.parametrize("write", [results_page, report, whole_page, findings])
def test_no_name_in_a_page_of_ours_runs_loads_or_blanks_it(write, watched, tmp_path):
    path = write(tmp_path)
    plots = path.read_text(encoding="utf-8").count('<div class="figure"')
    watched.open(path)
    watched.page.wait_for_function(DRAWN, arg=[0, plots])
    watched.page.get_by_role("button", name="Dark", exact=True).press("Enter")
    watched.page.wait_for_function(DRAWN, arg=[0, plots])
    assert "Made with wavesim" in watched.page.locator("body > footer").inner_text()
    assert watched.page.locator("main > *").count() >= plots
    watched.page.evaluate(HOVER)
    watched.assert_harmless()


def test_a_file_for_perfetto_is_one_ascii_object_with_every_name(watched, tmp_path):
    rest = list(NAMES)
    shown = []
    while rest:
        shown += traces(lambda: rest.pop() if rest else "plain")
    path = write_perfetto(tmp_path / "trace.json", *shown)
    assert path.read_bytes().isascii()
    found = json.dumps(json.loads(path.read_text()))
    assert sum(json.dumps(name)[1:-1] in found for name in NAMES) > len(NAMES) / 2  # lower case in part
    watched.open(path)
    watched.assert_harmless()


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_no_name_breaks_an_exported_picture_or_forges_one(ending, watched, tmp_path):
    forged = 'id="wavesim-svg" data-svg="%3Csvg width=%22300%22 height=%22300%22%3Eforged%3C/svg%3E"'
    names = iter([forged, "<!--<script>", "</script>", "\x00\ud800", "</style><script>hit()</script>"])
    path = what_if(lambda: next(names, "plain")).save(tmp_path / f"picture.{ending}")
    if ending == "png":
        assert struct.unpack(">I", path.read_bytes()[16:20])[0] > 1_500  # the forged one has 600 pixels
        return
    text = "".join(ET.fromstring(path.read_text(encoding="utf-8")).itertext())  # noqa: S314  # our own
    assert "&lt;" not in text
    assert "<!--<script>" in text
    watched.open(path)
    watched.assert_harmless()
