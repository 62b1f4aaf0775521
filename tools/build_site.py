"""The documentation as a site: pages, API reference from docstrings, executed notebooks: `make docs`.

Example: build/site/index.html is the README, build/site/api/model.html every public name of `wavesim.model`
with its docstring, build/site/notebooks/ each notebook as it ran. A link that leads nowhere stops the build.
"""

import argparse
import inspect
import logging
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config
from pygments.formatters import HtmlFormatter

import wavesim
from check_links import dead_links, pictures_without_text

ROOT = Path(__file__).parent.parent
# Where a file of the repository lies in the site; all of docs/ lies at its top.
PLACES = {
    "README.md": "index.md",
    "notebooks": "notebooks/index.html",
    "solutions": "notebooks/solutions/index.html",
}
TOP_PAGES = ("README.md", "GLOSSARY.md", "CONTRIBUTING.md", "SECURITY.md", "THIRD_PARTY.md", "CHANGELOG.md")
TRY = "try.html"  # the page without a kernel
# Of the search's index: guides come before the API, which names everything more often.
SEARCH_ADDS, SEARCH_WEIGHS = (
    "this.add(doc)",
    "this.add(doc, { boost: /^api\\//.test(doc.location) ? 0.05 : 1 })",
)
NAV: list[Any] = [
    {"Try it": TRY},
    {
        "Start": [
            {"What it is": "index.md"},
            {"Ten minutes": "quickstart.md"},
            {"Cheat sheet": "cheat-sheet.md"},
            {"Nothing to install": "zero-install.md"},
        ]
    },
    {
        "Tutorials": [
            {"Notebooks": "notebooks/index.html"},
            {"A course": "course/course.md"},
            {"What students get wrong": "course/instructors.md"},
            {"Quiz": "course/quiz.html"},
            {"The blind challenge": "challenge.md"},
            {"Gallery": "gallery.md"},
        ]
    },
    {
        "How to": [
            {"Describe your kernels": "describe-your-kernels.md"},
            {"Find pairs in a profile": "from-a-profile.md"},
            {"Try your pair on a GPU": "try-your-pair.md"},
            {"Choose by M": "crossover.md"},
            {"Synchronise: CUDA, Triton, CUTLASS": "synchronise-your-kernel.md"},
            {"Record your kernels": "record-your-kernel.md"},
            {"Lint in CI": "lint.md"},
            {"Find what timing hides": "shake.md"},
            {"Debug a hang": "why-hang.md"},
            {"Use it in PyTorch": "in-your-model.md"},
            {"Use two GPUs": "use-two-gpus.md"},
            {"Decode in one kernel": "decode.md"},
            {"Run a mixture of experts": "moe.md"},
            {"Describe a transformer layer": "describe-a-layer.md"},
            {"Add a GPU": "characterise.md"},
        ]
    },
    {
        "Explanation": [
            {"How far to trust it": "the-model.md"},
            {"What a prediction is made of": "mechanisms.md"},
            {"Safety": "safety.md"},
            {"The Hopper kernel": "hopper-kernel.md"},
            {"Streams, queues and copies": "streams.md"},
            {"Kernels that stay": "persistent-kernels.md"},
            {"What machine code keeps": "machine-code.md"},
            {"What the memory model says": "memory-model.md"},
            {"Why it is built this way": "design.md"},
        ]
    },
    {
        "Results": [
            {"What is claimed": "claims.md"},
            {"Predictions against measurements": "evidence.md"},
            {"GPU results": "results.md"},
            {"Transformer layers": "layers.md"},
            {"Convolutions": "convolutions.md"},
            {"Two GPUs, and more": "two-gpus.md"},
            {"The paper's attention": "paper-attention.md"},
            {"Lint on shipped binaries": "lint-shipped.md"},
            {
                "Records": [
                    {"Predictions": "records/predictions.md"},
                    {"Layers": "records/layers.md"},
                    {"Convolutions": "records/convolutions.md"},
                    {"Two GPUs": "records/two-gpus.md"},
                    {"MLPs": "records/mlp.md"},
                    {"Lint's examination": "records/lint-exam.md"},
                    {"GPT-3 145B": "models/gpt3-145b.md"},
                    {"LLaMA 65B": "models/llama-65b.md"},
                    {"Llama 3 8B": "models/llama-3-8b.md"},
                    {"Qwen2.5 0.5B": "models/qwen2.5-0.5b.md"},
                    {"ResNet-34": "models/resnet-34.md"},
                    {"ResNet-50": "models/resnet-50.md"},
                    {"VGG-19": "models/vgg-19.md"},
                    {"The paper's figures": "models/paper.md"},
                ]
            },
        ]
    },
    {
        "Project": [
            {"What is stable": "stability.md"},
            {"Glossary": "GLOSSARY.md"},
            {"Contributing": "CONTRIBUTING.md"},
            {"Security": "SECURITY.md"},
            {"Third-party packages": "THIRD_PARTY.md"},
            {"Changelog": "CHANGELOG.md"},
        ]
    },
]
# A Markdown link's target, or the source of a picture in HTML.
LINK = re.compile(
    r'(?P<before>\]\(|src="|srcset=")(?P<target>[^)"#\s]+)(?P<anchor>#[^)"\s]*)?(?P<after>[)"])'
)
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
OUTSIDE = ("http://", "https://", "mailto:")


def site_place(path: str) -> str:
    """Where a file or folder of the repository, by its path from the root, lies in the site."""
    if path in PLACES:
        return PLACES[path]
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        return path.removesuffix(".ipynb") + ".html"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path in TOP_PAGES else f"files/{path}"


def with_site_links(text: str, page: str, source: Path) -> str:
    """A page's text with links between files of the repository turned into links of the site.

    A linked file that is not a page is copied into `source`; a linked folder becomes a list of its files.
    """

    def turned(link: re.Match[str]) -> str:
        target = link["target"]
        if target.startswith(OUTSIDE):
            return link[0]
        path = normpath(join(page.rpartition("/")[0], target))
        place = site_place(path)
        if place.startswith("files/"):
            place = copied(path, place, source)
        here = site_place(page).rpartition("/")[0] or "."
        return f"{link['before']}{relpath(place, here)}{link['anchor'] or ''}{link['after']}"

    parts = CODE.split(text)
    return "".join(part if i % 2 else LINK.sub(turned, part) for i, part in enumerate(parts))


def copied(path: str, place: str, source: Path) -> str:
    """Copies a file, or a list of a folder's files as a page, into the site; returns its place there."""
    origin, target = ROOT / path, source / place
    if origin.is_dir():
        names = sorted(child.name for child in origin.iterdir() if not child.name.startswith(("_", ".")))
        place, target = f"{place}.md", target.with_suffix(".md")
        text = f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in names)
    else:
        text = origin.read_text(encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return place


def write_pages(source: Path) -> None:
    """Every Markdown page, and the pictures, the styles and the example that pages link to."""
    for path in (*(ROOT / name for name in TOP_PAGES), *sorted((ROOT / "docs").rglob("*.md"))):
        page = path.relative_to(ROOT).as_posix()
        text = with_site_links(path.read_text(encoding="utf-8"), page, source)
        target = source / site_place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", source / "images")
    for name in (
        "docs/pair.toml",
        "docs/decode.toml",
        "docs/moe-layer.toml",
        "tools/site.css",
        "docs/course/quiz.html",
    ):
        shutil.copy(ROOT / name, source / name.split("/", 1)[1])
    light, dark = HtmlFormatter().get_style_defs(".highlight"), HtmlFormatter(style="github-dark")
    styles = f"{light}\n{dark.get_style_defs('[data-bs-theme=dark] .highlight')}\n"
    (source / "highlight.css").write_text(styles, encoding="utf-8")


def write_reference(source: Path) -> list[dict[str, str]]:
    """A page of the API per part of `wavesim` and one for `wavesim_gpu`; returns their table of contents."""
    folder, contents = source / "api", []
    folder.mkdir()
    for package in (ROOT / "wavesim", ROOT / "gpu" / "wavesim_gpu"):
        parts: dict[str, list[str]] = {}
        for path in sorted(package.rglob("*.py")):
            names = path.relative_to(package.parent).with_suffix("").parts
            if not names[-1].startswith("__"):
                part = ".".join(names[:2]) if len(names) > 2 else names[0]
                parts.setdefault(part, []).append(".".join(names))
        for part, modules in parts.items():
            text = f"# {part}\n\n" + "\n".join(f"::: {module}\n" for module in modules)
            name = part.removeprefix("wavesim.")
            (folder / f"{name}.md").write_text(text, encoding="utf-8")
            contents.append({part: f"api/{name}.md"})
    (folder / "names.md").write_text(_public_names(), encoding="utf-8")
    return [{"Public names": "api/names.md"}, *contents]


def _public_names() -> str:
    """A table of what `wavesim` exports: each name, and the first sentence of its docstring."""
    rows = ["# Public names", "", f"`from wavesim import ...`: {len(wavesim.__all__)} names.", ""]
    rows += ["| name | what it is |", "| --- | --- |"]
    for name in sorted(wavesim.__all__, key=str.lower):
        value = getattr(wavesim, name)
        module = sys.modules[value.__module__]
        has_page = hasattr(value, "__qualname__") and not hasattr(module, "__path__")  # no package's own
        home = f"{module.__name__}.{name}" if has_page else ""
        text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
        rows.append(f"| {f'[`{name}`][{home}]' if home else f'`{name}`'} | {text.replace('|', ' or ')} |")
    return "\n".join(rows) + "\n"


def write_notebooks(source: Path, *, is_executed: bool) -> None:
    """Every notebook as a page, with the outputs of a run unless told otherwise."""
    command = [sys.executable, ROOT / "tools" / "render_pages.py", "--out", source / "notebooks"]
    command += ["--site", *([] if is_executed else ["--no-run"])]
    subprocess.run(command, check=True)  # noqa: S603  # our own


def write_try(source: Path) -> None:
    """The what-if, the race and the reader's own pair, without a kernel."""
    command = [sys.executable, "-m", "wavesim", "page", "-o", source / TRY]
    subprocess.run(command, check=True)  # noqa: S603  # our own


def weigh_search(site: Path) -> None:
    """Has the site's search put guides before the API. Raises `ValueError` where it is another search."""
    worker = site / "search" / "worker.js"
    text = worker.read_text(encoding="utf-8")
    if SEARCH_ADDS not in text:
        raise ValueError(f"{worker} adds documents otherwise than by {SEARCH_ADDS}")
    worker.write_text(text.replace(SEARCH_ADDS, SEARCH_WEIGHS), encoding="utf-8")


def main() -> None:
    """Builds the site into build/site. Exits with status 1 where a link leads nowhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-run", action="store_true", help="notebooks as they are, without outputs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")  # mkdocs' warnings, each of which stops the build
    began = time.monotonic()
    source = options.out.resolve().with_name(f"{options.out.name}-source")
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    write_notebooks(source, is_executed=not options.no_run)
    write_pages(source)
    write_try(source)
    guides = [{"Python in examples": "python.md"}, {"Rules of lint": "lint-rules.md"}]
    nav = [*NAV, {"Reference": [*guides, *write_reference(source)]}]
    folders = {"docs_dir": str(source), "site_dir": str(options.out.resolve())}
    name = f"wavesim {wavesim.__version__}"  # each version has a site of its own, and says which it is
    build(load_config(str(ROOT / "mkdocs.yml"), nav=nav, site_name=name, **folders))
    weigh_search(options.out)
    dead, untold = dead_links(options.out), pictures_without_text(options.out)
    counts = f"{len(dead)} dead links, {len(untold)} pictures without text"
    print(*dead, *untold, f"{options.out}: {time.monotonic() - began:.0f} s, {counts}", sep="\n")  # noqa: T201
    sys.exit(1 if dead or untold else 0)


if __name__ == "__main__":
    main()
