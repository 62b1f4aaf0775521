"""A figure is shown without nbformat, and whoever asks for nbformat, plotly's `show` among them, has it."""

import subprocess
import sys

SHOWN = (
    "import sys, IPython.display as shown\nimport plotly.graph_objects as go\n"
    "from wavesim.view import figure\nfound = []\nshown.display = lambda bundle, raw: found.append(bundle)\n"
)


def run(code):
    subprocess.run([sys.executable, "-W", "error", "-c", SHOWN + code], check=True)


def test_a_figure_is_shown_without_reading_what_checks_notebooks_and_plotlys_own_as_ever():
    run(
        "figure.figure_of([], {})._ipython_display_()\nassert found\n"
        "assert not {'nbformat', 'jsonschema'} & set(sys.modules)\n"
        "import nbformat.v4\nassert nbformat.v4.new_notebook().cells == []\n"
        "from plotly.optional_imports import get_module\nassert get_module('nbformat') is nbformat\n"
        "go.Figure().show('plotly_mimetype')\nassert len(found) == 2\n"
    )


def test_where_nbformat_is_not_installed_plotly_says_so():
    run(
        "def version(name):\n    raise figure.PackageNotFoundError(name)\n"
        "figure.version = version\nfigure.spare_nbformat()\n"
        "try:\n    go.Figure().show('plotly_mimetype')\n"
        "except ValueError as error:\n    assert 'nbformat' in str(error)\nelse:\n    raise AssertionError\n"
    )


def test_a_timeline_is_drawn_on_our_canvas_until_its_layout_is_changed_and_nothing_has_a_toolbar():
    run(
        "from wavesim import StreamSync, device, simulate, timeline, toy, zero_cost\n"
        "trace = simulate(toy(), StreamSync(), device('toy'), zero_cost(toy(), 1000))\n"
        "drawn = timeline(trace)\ndrawn._ipython_display_()\nassert 'render(' in found[0]['text/html']\n"
        "assert 'Stream sync' in found[0]['text/plain']\n"
        "import plotly.io\nplotly.io.renderers.default = 'plotly_mimetype'\n"
        "drawn.update_layout(title='mine')\ndrawn._ipython_display_()\n"
        "(spec,) = (value for value in found[1].values() if isinstance(value, dict))\n"
        "assert spec['layout']['title']['text'] == 'mine'\n"
        "assert spec['config']['displayModeBar'] is False\n"
    )
