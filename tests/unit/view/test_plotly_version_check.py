"""A figure is shown without nbformat, and whoever asks for nbformat, plotly's `show` among them, has it."""

import subprocess
import sys


def run(code):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_figure_is_shown_without_reading_what_checks_notebooks():
    run(
        "import sys, wavesim.widgets.live_figure\nassert 'nbformat' not in sys.modules\n"
        "assert 'jsonschema' not in sys.modules\n"
        "import nbformat.v4\nassert nbformat.v4.new_notebook().cells == []\n"
        "from plotly.optional_imports import get_module\nassert get_module('nbformat') is nbformat\n"
    )


def test_plotly_shows_its_own_figures_as_mime_bundles_all_the_same():
    run(
        "import wavesim.widgets.live_figure, plotly.graph_objects as go, IPython.display as shown\n"
        "found = []\nshown.display = lambda bundle, raw: found.append(bundle)\n"
        "go.Figure().show('plotly_mimetype')\nassert found\n"
    )


def test_where_nbformat_is_not_installed_plotly_says_so():
    run(
        "import wavesim.view.plotly_version_check as check\n"
        "def version(name):\n    raise check.PackageNotFoundError(name)\n"
        "check.version = version\n"
        "import wavesim.widgets.live_figure, plotly.graph_objects as go\n"
        "try:\n    go.Figure().show('plotly_mimetype')\n"
        "except ValueError as error:\n    assert 'nbformat' in str(error)\n"
        "else:\n    raise AssertionError\n"
    )


def test_an_import_of_plotly_that_fails_leaves_nothing_behind():
    run(
        "import sys\nfrom importlib import import_module\n"
        "from wavesim.view.plotly_version_check import RENDERERS, spare_nbformat\n"
        "sys.modules['plotly.io._base_renderers'] = None\n"
        "try:\n    spare_nbformat()\nexcept ImportError:\n    pass\nelse:\n    raise AssertionError\n"
        "assert RENDERERS not in sys.modules\n"
        "del sys.modules['plotly.io._base_renderers']\n"
        "from plotly.optional_imports import get_module\nassert get_module('nbformat')\n"
        "spare_nbformat()\nassert import_module(RENDERERS).nbformat.__version__\n"
    )
