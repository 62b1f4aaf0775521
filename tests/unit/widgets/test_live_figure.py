"""The figure that lives on screen, without a browser: what one is sent, and what one that missed it gets."""

from copy import deepcopy

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


def number_of(figure):
    """The number with which a browser that loads now would report its first drawing."""
    return figure.get_state()["_last_trace_edit_id"]


def report(figure, number):
    """What a view says when it has drawn a state, or an edit."""
    figure.set_state({"_js2py_traceDeltas": {"trace_deltas": [], "trace_edit_id": number}})


def drawn(props, edit, index=None):
    """The properties of a series, or of the layout, after an edit, as plotly.js sets them."""
    props = deepcopy(props)
    if index is None:
        changes = edit["layout_data"]
    elif index in edit["style_traces"]:
        place = edit["style_traces"].index(index)
        changes = {path: values[place] for path, values in edit["style_data"].items()}
    else:
        return props
    for path, value in changes.items():
        *names, last = path.split(".")
        inner = props
        for name in names:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return props


def whole(value):
    """Properties without those that are None, or hold nothing else."""
    if isinstance(value, dict):
        return {name: kept for name, entry in value.items() if (kept := whole(entry)) not in (None, {}, [])}
    return plain(value)


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


def assert_edit_makes(edit, update, before):
    """The edit turns a figure of the one update into what the other's is."""
    old, new = LiveFigure(before), LiveFigure(update)
    for index, props in enumerate(old._data):
        assert whole(plain(drawn(props, edit, index))) == whole(plain(new._data[index]))
    assert whole(plain(drawn(old._layout, edit))) == whole(plain(new._layout))


def test_a_view_that_drew_what_was_shown_first_gets_all_that_is_shown(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    first = number_of(figure)
    figure.redraw(updates[1])
    figure.redraw(updates[2])
    report(figure, first)
    assert len(sent) == 3
    assert_edit_makes(sent[-1], updates[2], before=updates[0])


def test_a_slower_second_view_gets_what_it_missed_whatever_the_first_reported(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    first = number_of(figure)
    figure.redraw(updates[1])
    report(figure, sent[-1]["trace_edit_id"])
    second = number_of(figure)
    assert len(sent) == 1
    report(figure, first)
    assert len(sent) == 2
    assert_edit_makes(sent[-1], updates[1], before=updates[0])
    figure.redraw(updates[0])
    report(figure, second)
    assert len(sent) == 4
    assert_edit_makes(sent[-1], updates[0], before=updates[1])


def test_a_property_that_only_an_older_state_has_is_taken_away(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    faint = updates[0]._replace(data=[{**props, "opacity": 0.5} for props in updates[0].data])
    figure.redraw(faint)
    between = number_of(figure)
    figure.redraw(updates[0])
    figure.redraw(updates[1])
    report(figure, between)
    assert_edit_makes(sent[-1], updates[1], before=faint)


def test_a_view_that_has_drawn_what_is_shown_gets_nothing(updates):
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    report(figure, number_of(figure))
    figure.redraw(updates[1])
    report(figure, sent[-1]["trace_edit_id"])
    report(figure, number_of(figure))
    figure.redraw(updates[1])
    assert len(sent) == 1


def test_an_edit_that_reached_a_view_is_not_sent_again(updates):
    """Reports trail a slider that is dragged; an answer to each would double what a browser draws."""
    figure = LiveFigure(updates[0])
    sent = sent_by(figure)
    for update in (*updates, updates[0], updates[2]):
        figure.redraw(update)
    for edit in list(sent):
        report(figure, edit["trace_edit_id"])
    assert len(sent) == 4


def test_an_edit_is_one_message_and_the_number_of_a_state_goes_with_its_data_alone(updates, monkeypatch):
    """A model in the browser whose number were newer than its data would draw what is shown no more."""
    figure = LiveFigure(updates[0])
    messages = []
    monkeypatch.setattr(figure, "_send", lambda message, buffers=None: messages.append(message["state"]))
    figure.redraw(updates[1])
    assert [list(state) for state in messages] == [["_py2js_update"]] * 2
    assert messages[1] == {"_py2js_update": None}  # plotly's: a property, not a call, is what a browser sees
    figure._repr_mimebundle_()
    figure.send_state()
    assert {"_last_trace_edit_id" in state for state in messages if "_widget_data" in state} == {True}
    assert messages[-1]["_last_trace_edit_id"] == number_of(figure)


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
