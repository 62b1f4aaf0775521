"""Every notebook as a static page with its figures, for readers who have no kernel: `make pages`.

Example: build/pages/index.html lists the questions; behind each is the notebook as it ran just now, its
widgets as pictures that still answer mouse and keyboard. Nothing is fetched from outside.
"""

import argparse
import gzip
import hashlib
import html
import json
import re
import shutil
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import mistune
import nbformat
import plotly.io
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from traitlets.config import Config

from wavesim.teaching.folded_answers import WORDS
from wavesim.view.plotly_script import SOURCE, packed_plotly
from wavesim.view.raster import dark_rasters
from wavesim.view.theme import DARK, LIGHT, counterparts

ROOT = Path(__file__).parent.parent
STYLE = Path(__file__).parent / "pages.css"
GUIDE = "synchronise-your-kernel"
PLOTLY, VIEW = "application/vnd.plotly.v1+json", "application/vnd.jupyter.widget-view+json"
# Runs before the notebook's first cell, and is not shown.
BEFORE = """
import plotly.io
from wavesim.widgets.static import show_static

plotly.io.renderers.default = "plotly_mimetype"
show_static()
"""
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<link rel="stylesheet" href="{root}pages.css">{script}</head>
<body><nav>{home}<a href="{root}index.html">wavesim notebooks</a>{links}</nav><main>{body}</main>{recolour}
</body></html>
"""
# Figures are drawn for a light page. In a dark one each colour gives way to its counterpart.
RECOLOUR = """<script>(() => {{
  if (!window.matchMedia("(prefers-color-scheme: dark)").matches) return;
  const pairs = {pairs};
  const dark = (value) => {{
    if (typeof value === "string")
      return value.replace(/#[0-9A-F]{{6}}|rgba\\(\\d+,\\d+,\\d+,/g, (found) => pairs[found] ?? found);
    if (Array.isArray(value)) return value.map(dark);
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, dark(entry)]));
  }};
  addEventListener("load", () => document.querySelectorAll(".js-plotly-plot").forEach((el) => {{
    const layout = dark(el.layout);
    layout.meta?.darkImages?.forEach((source, place) => {{ layout.images[place].source = source; }});
    Plotly.react(el, dark(el.data), layout);
  }}));
}})();</script>"""
TIMEOUT_S = 120
# Executed notebooks, by the hash of everything that their outputs come from.
CACHE = ROOT / "build" / "executed"
# Without encryption, which is the default, the kernel warns about its sockets in every notebook.
SHARED = "window.wavesimPlotly ??= Promise.resolve(window.Plotly);"
KERNEL = Config({"KernelManager": {"transport_encryption": "auto"}})


@lru_cache(maxsize=1)
def package_hash() -> str:
    """The hash of all files that notebooks run: the package with its recordings, and the GPU's Python."""
    whole = hashlib.sha256()
    for folder in (ROOT / "wavesim", ROOT / "gpu" / "wavesim_gpu"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                whole.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs: of the last run if neither it nor the package has changed since."""
    key = hashlib.sha256(path.read_bytes() + package_hash().encode() + BEFORE.encode()).hexdigest()[:16]
    kept = CACHE / f"{path.stem}-{key}.ipynb"
    if not kept.exists():
        notebook = run_notebook(path)
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob(f"{path.stem}-*.ipynb"):
            old.unlink()
        half = kept.with_suffix(".part")
        nbformat.write(notebook, half)
        half.replace(kept)
    return nbformat.read(kept, 4)


def run_notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook after a run in a clean kernel, with static widgets. Raises `CellExecutionError`."""
    notebook = nbformat.read(path, 4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(BEFORE))
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            kernel_name="python3",
            store_widget_state=False,
            config=KERNEL,
            resources={"metadata": {"path": folder}},
        ).execute()
    del notebook.cells[0]
    return notebook


def make_static(notebook: nbformat.NotebookNode) -> None:
    """Turns plotly figures and widgets into HTML that needs no kernel and shares one plotly.min.js."""
    for cell in notebook.cells:
        kept = [
            output for output in cell.get("outputs", []) if output.get("data", {}).get("text/plain") != WORDS
        ]
        if "outputs" in cell:
            cell.outputs = kept  # where nothing runs, nobody commits to a prediction
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        if PLOTLY in data:
            spec = data.pop(PLOTLY)
            spec["layout"]["meta"] = dark_rasters(spec["layout"])
            figure = plotly.io.from_json(json.dumps(spec))
            data["text/html"] = figure.to_html(full_html=False, include_plotlyjs=False)
        if data.pop(VIEW, None) is not None and "text/html" not in data:
            data["text/html"] = "<p class='needs-kernel'>This widget needs a running kernel.</p>"
        if "text/html" in data:
            data["text/html"] = data["text/html"].replace(packed_plotly(), SHARED)


def title_of(notebook: nbformat.NotebookNode) -> str:
    """The question in the notebook's first line."""
    return str(notebook.cells[0].source.splitlines()[0].removeprefix("# "))


def body_of(notebook: nbformat.NotebookNode) -> str:
    """The notebook as a fragment of HTML, its links pointing to the other pages."""
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    text, _ = exporter.from_notebook_node(notebook)
    text = re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.html"', text)
    text = re.sub(r'href="\.\./solutions/s\w+\.py"', 'href="solutions/index.html"', text)
    return text.replace(f'href="../docs/{GUIDE}.md"', f'href="{GUIDE}.html"')


HOME = '<a href="{root}../index.html">documentation</a><a href="{root}../try.html">try it live</a>'


def page(
    title: str, body: str, *, root: str = "", links: str = "", home: str = "", has_plotly: bool = False
) -> str:
    """A whole page; `root` leads to the folder of index.html, `home` are links that lead out of it."""
    script = f'<script src="{root}plotly.min.js"></script>' if has_plotly else ""
    pairs = json.dumps(counterparts(LIGHT, DARK))
    recolour = RECOLOUR.format(pairs=pairs) if has_plotly else ""
    return PAGE.format(
        title=html.escape(title),
        body=body,
        root=root,
        home=home.format(root=root),
        links=links,
        script=script,
        recolour=recolour,
    )


def write_notebook(path: Path, names: list[str], out: Path, home: str, *, is_executed: bool) -> str:
    """Writes one notebook, with the outputs of a run if `is_executed`; returns its question."""
    notebook = executed(path) if is_executed else nbformat.read(path, 4)
    make_static(notebook)
    at = names.index(path.stem)
    around = [
        (names[i], words) for i, words in ((at - 1, "previous"), (at + 1, "next")) if 0 <= i < len(names)
    ]
    links = "".join(f'<a href="{name}.html">{words}</a>' for name, words in around)
    text = page(title_of(notebook), body_of(notebook), links=links, home=home, has_plotly=True)
    (out / f"{path.stem}.html").write_text(text, encoding="utf-8")
    return title_of(notebook)


def write_shared(out: Path) -> None:
    """What all pages use: the style and plotly's script."""
    (out / "plotly.min.js").write_bytes(gzip.decompress(SOURCE.read_bytes()))
    (out / "pages.css").write_text(
        STYLE.read_text(encoding="utf-8")
        + HtmlFormatter().get_style_defs(".highlight")
        + "\n@media (prefers-color-scheme: dark) {\n"
        + HtmlFormatter(style="github-dark").get_style_defs(".highlight")
        + "\n.highlight { background: var(--card); }\n}\n",
        encoding="utf-8",
    )


def write_rest(questions: dict[str, str], out: Path, home: str) -> None:
    """The index, the solutions, and the page that notebooks link to."""
    items = "".join(f'<li><a href="{name}.html">{html.escape(q)}</a></li>' for name, q in questions.items())
    introduction = INTRODUCTION.format(count=len(questions))
    shown = page("wavesim notebooks", f"{introduction}<ol>{items}</ol>", home=home)
    (out / "index.html").write_text(shown, "utf-8")
    guide = str(mistune.html((ROOT / "docs" / GUIDE).with_suffix(".md").read_text(encoding="utf-8")))
    guide = re.sub(r'<a href="(?!https?:)[^"]*">(.*?)</a>', r"\1", guide)  # no page of docs/ is beside it
    shown = page("Synchronise your own kernels", guide, home=home)
    (out / GUIDE).with_suffix(".html").write_text(shown, "utf-8")
    (out / "solutions").mkdir()
    files = sorted((ROOT / "solutions").glob("s*.py"))
    codes = (highlight(file.read_text(encoding="utf-8"), PythonLexer(), HtmlFormatter()) for file in files)
    solutions = page("Solutions", f"<h1>Solutions</h1>{''.join(codes)}", root="../", home=home)
    (out / "solutions" / "index.html").write_text(solutions, encoding="utf-8")


INTRODUCTION = """<h1>{count} questions about GPU kernels that wait for each other</h1>
<p>Notebooks as they ran when this page was made, without a kernel: figures answer the mouse, players the
keyboard; predictions and exercises need JupyterLab (<code>make lab</code>). Every number says whether it was
simulated or measured, and on what.</p>
<p><b>20 minutes:</b> 1. <b>75 minutes:</b> 1, 2, 4, 6, 11.</p>"""


def main() -> None:
    """Writes all pages, or those of the notebooks that are named, into a folder that it empties first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "notebooks", nargs="*", type=Path, default=sorted((ROOT / "notebooks").glob("*.ipynb"))
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "pages")
    parser.add_argument("--no-run", action="store_true", help="without outputs")
    parser.add_argument("--site", action="store_true", help="with links to the documentation around them")
    options = parser.parse_args()
    home = HOME if options.site else ""
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    write_shared(options.out)
    names, questions = [path.stem for path in options.notebooks], {}
    for path in options.notebooks:
        began = time.monotonic()
        questions[path.stem] = write_notebook(path, names, options.out, home, is_executed=not options.no_run)
        print(f"{path.stem}: {time.monotonic() - began:.1f} s", flush=True)  # noqa: T201  # progress of a command
    write_rest(questions, options.out, home)


if __name__ == "__main__":
    main()
