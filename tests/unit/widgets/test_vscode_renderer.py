"""What VS Code's notebook renderer needs of widgets, as it cannot run here.

It has the three packages of ipywidgets itself. Any other module it takes from the environment's
`share/jupyter/nbextensions`, or else from a CDN, for which it needs a network and asks the reader.
It has none of JupyterLab's style, and names its theme on the page's body, one of four kinds.
"""

import re
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import ipywidgets
import pytest

import wavesim.teaching
import wavesim.widgets
from wavesim.view.display import STYLE
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.words import DARK_PAGES

BUNDLED = {"@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"}
EXTENSIONS = Path(sys.prefix) / "share" / "jupyter" / "nbextensions"
LIGHT_KINDS, DARK_KINDS = ("light", "high-contrast-light"), ("dark", "high-contrast")
PARTS = sorted(Path(wavesim.widgets.__file__).parent.glob("*.[cj]s*"))
# An address that is no name of an XML namespace, or another file's contents.
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/)|^\s*import\b|\bimport\(|\bfetch\(|@import", re.MULTILINE)
# Both decide by what is not light, so that a kind that is new is dark.
IS_LIGHT = re.compile(r'code [!=]== "vscode-light" (?:\|\||&&) code [!=]== "vscode-high-contrast-light"')


def our_widgets() -> list[type[ipywidgets.Widget]]:
    for package in (wavesim.widgets, wavesim.teaching):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            if not module.ispkg:
                import_module(module.name)
    found, left = [], [ipywidgets.Widget]
    while left:
        kinds = left.pop().__subclasses__()
        left += kinds
        found += [kind for kind in kinds if kind.__module__.startswith("wavesim.")]
    return found


def test_every_widgets_code_is_bundled_or_in_the_environment_so_that_none_comes_from_a_cdn():
    modules = {
        getattr(kind, trait).default_value
        for kind in our_widgets()
        for trait in ("_model_module", "_view_module")
    }
    assert modules - BUNDLED == {"anywidget"}
    assert (EXTENSIONS / "anywidget" / "index.js").is_file()
    # What VS Code reads: which of the module's names is which file.
    assert "nbextensions/anywidget/index" in (EXTENSIONS / "anywidget" / "extension.js").read_text("utf-8")


def test_no_script_or_style_of_ours_takes_anything_from_elsewhere():
    kinds = [kind for kind in our_widgets() if issubclass(kind, DrawnWidget) and kind is not DrawnWidget]
    assert len(kinds) > 10
    for kind in kinds:
        source = str(kind._esm) + str(kind._css)
        assert not ELSEWHERE.search(source), kind


@pytest.mark.parametrize("path", PARTS, ids=lambda path: path.name)
def test_no_colour_of_jupyterlabs_is_taken_without_another_in_its_place(path):
    text = path.read_text("utf-8")
    assert re.findall(r"var\(--jp-[\w-]+\s*\)", text) == []
    kinds = set(re.findall(r'vscode-theme-kind="vscode-([\w-]+)"', text))
    assert kinds in (set(), set(DARK_KINDS))
    if "vscodeThemeKind" in text:
        assert IS_LIGHT.search(text)


def test_each_of_vs_codes_four_kinds_of_theme_is_light_or_dark_to_figures_and_displays():
    assert [f'body[data-vscode-theme-kind="vscode-{kind}"]' for kind in DARK_KINDS] == list(DARK_PAGES[1:])
    for kinds, ink in ((LIGHT_KINDS, "#111827"), (DARK_KINDS, "#F3F4F6")):
        for kind in kinds:
            assert f'[data-vscode-theme-kind="vscode-{kind}"] .wavesim-display{{--ink:{ink};' in STYLE
