"""The documentation builds as a site in strict mode, and a link that leads nowhere is named."""

import re
import subprocess
import sys
from pathlib import Path

from wavesim import Dependency

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def run_docs(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT
    )


def told_by(check: str, site: Path) -> list[str]:
    tools = str(ROOT / "tools")
    code = (
        f"import sys; from pathlib import Path; sys.path.insert(0, {tools!r})\n"
        f"from check_links import {check}; print(*{check}(Path({str(site)!r})), sep='\\n')"
    )
    done = run_docs("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_link_to_a_file_or_an_anchor_that_is_not_there_is_named(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(
        '<h1 id="here">x</h1><a href="#here">1</a><a href="sub/b.html#there">2</a><img src="a.png">'
        '<a href="https://example.org/gone">outside</a>'
        '<a href="#nowhere">3</a><a href="sub/c.html">4</a><source srcset="b.png 2x">'
    )
    (tmp_path / "sub" / "b.html").write_text('<p id="there"></p><a href="../index.html#away">5</a>')
    assert told_by("dead_links", tmp_path) == [
        "index.html: #nowhere",
        "index.html: sub/c.html",
        "index.html: b.png",
        "sub/b.html: ../index.html#away",
    ]


def test_a_picture_without_text_is_named(tmp_path):
    (tmp_path / "index.html").write_text(
        '<img src="a.png" alt="waves"><img src="b.png"><img src="c.png" alt="">'
    )
    assert told_by("pictures_without_text", tmp_path) == ["index.html: b.png", "index.html: c.png"]


def test_the_site_builds_strictly_with_all_pages_notebooks_and_docstrings_and_fetches_nothing(tmp_path):
    """The whole site but for the notebooks' outputs, which test_notebooks and test_pages look at."""
    site = tmp_path / "out"
    done = run_docs(ROOT / "tools" / "build_site.py", "--no-run", "--out", site)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    pages = {path.stem for path in DOCS.rglob("*.md")} | {"index", "GLOSSARY", "CONTRIBUTING", "CHANGELOG"}
    assert pages <= {path.stem for path in site.rglob("*.html")}
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks <= {path.stem for path in (site / "notebooks").glob("*.html")}
    rooms = {path.parent.name for path in (ROOT / "wavesim").glob("*/__init__.py")}
    assert rooms <= {path.stem for path in (site / "api").glob("*.html")}
    check_docstrings(site)
    for page in ("index.html", "the-model.html", "api/model.html"):
        fetched = fetched_by((site / page).read_text(encoding="utf-8"))
        assert fetched
        assert not [source for source in fetched if source.startswith(("http", "//"))], page


def check_docstrings(site: Path) -> None:
    text = (site / "api" / "model.html").read_text(encoding="utf-8")
    assert 'id="wavesim.model.dependency.Dependency"' in text
    assert Dependency.__doc__
    assert Dependency.__doc__.splitlines()[0].split("`")[0].strip() in re.sub(r"<[^>]+>", "", text)


def fetched_by(text: str) -> list[str]:
    return re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"([^\"]+)\"", text)
