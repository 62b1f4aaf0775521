"""The figure that lives on screen, without a browser: what one is sent, and what one that missed it gets."""

import subprocess
import sys

import numpy as np
import pytest

from wavesim.widgets import ComparisonView
from wavesim.widgets.live_figure import LiveFigure


@pytest.fixture(scope="module")
def updates():
    """What three recorded runs show, in as many series."""
    view, found = ComparisonView.recorded(), []
    for run in range(3):
        view.choice.value = run
        found.append(view._update())
    assert len({len(update.data) for update in found}) == 1
    return found


def sent_by(figure):
    """The edits that the figure sends from now on."""
    found = []
    figure.observe(lambda change: found.append(change["new"]) if change["new"] else None, "_py2js_update")
    return found


def report(figure, edit):
    """What a browser says when it has drawn an edit."""
    figure.set_state({"_js2py_traceDeltas": {"trace_deltas": [], "trace_edit_id": edit}})


def plain(value):
    """Values without plotly's arrays; numbers as words, as not-a-number differs from itself."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items() if name != "uid"}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    return str(float(value)) if isinstance(value, int | float | np.number) else value


def test_a_redrawn_figure_is_the_figure_of_what_it_shows(updates):
    figure = LiveFigure(updates[0])
    figure.redraw(updates[2])
    figure.redraw(updates[1])
    afresh = LiveFigure(updates[1])
    for part in ("_data", "_layout"):
        assert plain(getattr(figure, part)) == plain(getattr(afresh, part))


def test_a_browser_that_drew_what_was_shown_first_gets_all_that_has_changed_since(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    figure.redraw(updates[1])
    figure.redraw(updates[2])
    report(figure, 0)
    assert len(sent) == 3
    afresh = LiveFigure(updates[0])
    directly = sent_by(afresh)
    afresh.redraw(updates[2])
    for part in ("style_data", "layout_data", "style_traces"):
        assert plain(sent[-1][part]) == plain(directly[0][part])


def test_a_browser_that_has_drawn_the_last_edit_gets_nothing(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    figure.redraw(updates[1])
    report(figure, figure._last_trace_edit_id)
    report(figure, figure._last_trace_edit_id)
    figure.redraw(updates[1])
    assert len(sent) == 1


def test_reports_of_edits_in_quick_succession_end(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    for update in (*updates, updates[0], updates[2]):
        figure.redraw(update)
    drawn = 0
    while drawn < len(sent):  # a browser reports each edit after it has drawn it
        report(figure, sent[drawn]["trace_edit_id"])
        drawn += 1
        assert drawn < 20
    assert figure._sent == {figure._last_trace_edit_id: figure._shown}


def test_no_column_that_is_sent_has_a_gap(updates):
    """A gap would be plotly's word for one, and end up as a colour in what the browser draws next."""
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    figure.redraw(updates[2])
    columns = sent[0]["style_data"]
    assert columns
    for path, values in columns.items():
        for index, value in zip(sent[0]["style_traces"], values, strict=True):
            there = figure._data[index]
            for name in path.split("."):
                there = (there or {}).get(name)
            assert plain(value) == plain(there)


def test_a_comparison_edits_its_figure_and_makes_another_only_for_other_series():
    view = ComparisonView.recorded()
    figure = view.figure
    view.choice.value = 5
    view._watch.width = 1_200
    view._watch.is_light = False
    assert view.figure is figure
    shown = view._update()
    view._show(shown._replace(data=shown.data[:-1]))
    assert view.figure is not figure
    assert view._box.children == (view.figure,)


def test_a_figure_is_shown_without_reading_what_checks_notebooks():
    code = (
        "import sys, wavesim.widgets.live_figure\nassert 'jsonschema' not in sys.modules\n"
        "import nbformat\nassert nbformat.v4.new_notebook().cells == []\nassert 'jsonschema' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_part_of_a_late_package_is_imported_as_ever():
    code = (
        "from wavesim.view.late_import import import_late\n"
        "import_late('nbformat')\nimport_late('not_there')\n"
        "import nbformat.v4\nfrom nbformat import read\nassert nbformat.v4.nbformat == 4\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
