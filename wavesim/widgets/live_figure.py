"""A plotly figure that lives on screen: made once, then only what changed is sent to the browser.

Example: a slider moves, 1,000 tiles get new times; one message carries their arrays and the new title,
and colours, axes and legend stay where they are. After a page reload the browser asks the kernel for
the figure and gets what was last shown, not what was first.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import traitlets
from plotly.serializers import custom_serializers

from wavesim.safe_io.escaping import BREAK, element
from wavesim.view.plotly_version_check import spare_nbformat
from wavesim.view.timeline_figure import FigureUpdate

spare_nbformat()  # here, as `go.FigureWidget` imports it when it is named: a base class is named at import
Props = Mapping[str, Any]
LONG_LIST = 64
EXPORT = " as default};"  # the end of plotly's script but for its licences; before it, what makes a widget
LIVE = """}};
export default () => {{
  const widget = {make}();
  const render = async (context) => {{
    await hear(context.model); // plotly draws what is there then, and later edits of that
    return widget.render(context);
  }};
  return {{ ...widget, render }};
}};
"""


class LiveFigure(go.FigureWidget):
    """A figure with a fixed number of series, of which `redraw` sends what differs.

    A browser may draw a state that is no longer shown: edits made while it was loading plotly are lost to
    it. So the number of the edits in a state goes with the state's data, and nowhere else. A view says after
    its first drawing which number it drew, and where that is not the last it gets all that is shown, once.
    From then on it hears every edit.

    With this it reports every default that plotly.js filled in. Nothing here reads them, and merging them
    costs more than a redraw, so they are dropped, and not echoed to other views.
    """

    _last_trace_edit_id = traitlets.Integer(0)  # plotly's count, which it would send with every edit
    _last_layout_edit_id = traitlets.Integer(0)
    _js2py_traceDeltas = traitlets.Dict(allow_none=True).tag(  # noqa: N815  # plotly's name
        sync=True, echo_update=False, **custom_serializers
    )
    _js2py_layoutDelta = traitlets.Dict(allow_none=True).tag(  # noqa: N815  # plotly's name
        sync=True, echo_update=False, **custom_serializers
    )

    @property
    def _esm(self) -> str:
        """Plotly's script, in which the figure hears its kernel however late it was loaded."""
        return _hearing_script()

    _edit = 0  # how many edits are in what is shown; not yet set when plotly opens the widget

    def __init__(self, update: FigureUpdate) -> None:
        update = _with_one_title(update)
        super().__init__(data=[_packed_all(props) for props in update.data], layout=update.layout)
        self._shown = update
        self._names = _names(update, update)  # of all properties ever shown

    def redraw(self, update: FigureUpdate) -> None:
        """Shows the update: one edit with what differs from what is shown, none if nothing does.

        The properties come from `wavesim.view` and were valid in the constructor's figure, so plotly's
        validators, which cost more than the simulation, are not asked again. `to_dict` and exports are
        current; of `data` and `layout`, lists of objects (annotations, shapes) stay as first drawn.

        Raises `ValueError` if the number of series differs: a new figure costs a browser over a second.
        """
        update = _with_one_title(update)
        before, self._shown = self._shown, update
        series, layout = _edits(before, update)
        for index, edits in series.items():
            for path, value in edits.items():
                self._set_in(self._data[index], path, value)
        for path, value in layout.items():
            self._set_in(self._layout, path, value)
        if series or layout:
            self._edit += 1
            self._names = _names(self._names, update)
            self._send_edit(series, layout)

    def _send_edit(self, series: Mapping[int, Props], layout: Props) -> None:
        paths = sorted({path for edits in series.values() for path in edits})
        # Whole columns: plotly's own mark for "as it was" stays in the browser's state as a word.
        columns = {path: [_at(self._data[index], path) for index in series] for path in paths}
        self._send_update_msg(columns, layout, list(series))

    @traitlets.observe("_js2py_traceDeltas")
    def _handler_js2py_traceDeltas(self, change: Mapping[str, Any]) -> None:  # noqa: N802  # plotly's name
        if report := change["new"]:
            self._hear_drawn(report["trace_edit_id"])
            self._trace_edit_in_process = False
            self._js2py_traceDeltas = None  # type: ignore[assignment]  # allow_none does not reach the stub

    @traitlets.observe("_js2py_layoutDelta")
    def _handler_js2py_layoutDelta(self, change: Mapping[str, Any]) -> None:  # noqa: N802  # plotly's name
        if change["new"]:
            self._layout_edit_in_process = False
            self._js2py_layoutDelta = None  # type: ignore[assignment]  # allow_none does not reach the stub

    def _hear_drawn(self, number: int) -> None:
        """A view has drawn a state, by its number, or an edit that reached it, by plotly's, from one up."""
        if number <= 0 and -number != self._edit:
            self._send_edit(*_edits(self._names, self._shown))

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """The widget's state for a browser that (re)connects.

        plotly sends edits as one-shot messages and refreshes the state proper only when the figure
        itself is displayed, so that inside a box a reloaded page would show the first data again.
        """
        if key is None and hasattr(self, "_data"):
            self._trait_values["_widget_data"] = deepcopy(self._data)
            self._trait_values["_widget_layout"] = deepcopy(self._layout_obj._props)  # noqa: SLF001  # plotly has no public way
        state = super().get_state(key=key, drop_defaults=drop_defaults)
        if "_widget_data" in state:
            state["_last_trace_edit_id"] = -self._edit  # not above zero, where plotly's numbers of edits are
        return state


def _edits(before: FigureUpdate, after: FigureUpdate) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
    """By series, and of the layout: paths and new values of what differs. `ValueError` as `redraw` says."""
    series = {
        index: edits
        for index, (old, new) in enumerate(zip(before.data, after.data, strict=True))
        if (edits := {path: _packed(value) for path, value in _changes(old, new)})
    }
    return series, dict(_changes(before.layout, after.layout))


def _names(known: Any, shown: Any) -> Any:
    """The properties of both, with a value that none has: what differs from that is all that is shown."""
    if isinstance(shown, FigureUpdate):
        data = [_names(*pair) for pair in zip(known.data, shown.data, strict=True)]
        return FigureUpdate(data, _names(known.layout, shown.layout))
    if not isinstance(shown, dict):
        return ...
    known = known if isinstance(known, dict) else {}
    return {**known, **{name: _names(known.get(name), value) for name, value in shown.items()}}


@lru_cache(maxsize=1)
def _hearing_script() -> str:
    """Raises `ValueError` where plotly's script does not end as that of the version asked for."""
    before, _, licences = str(go.FigureWidget._esm).rpartition(EXPORT)  # noqa: SLF001  # anywidget's name
    exports, comma, make = before.rpartition(",")
    if not comma:
        raise ValueError(f"plotly's widget exports no '{EXPORT.strip()}'; run make setup for its version")
    hearing = (Path(__file__).parent / "hearing.js").read_text(encoding="utf-8")
    return "".join((exports, LIVE.format(make=make), hearing, licences))


def _with_one_title(update: FigureUpdate) -> FigureUpdate:
    """The subtitle as the title's last lines: plotly.js leaves it in place when a title gets more lines."""
    title = dict(update.layout["title"])
    below = title.pop("subtitle")
    style = f"font-size:{below['font']['size']}px;color:{below['font']['color']}"
    title["text"] = BREAK.join((title["text"], element("span", below["text"], style=style)))
    return FigureUpdate(update.data, {**update.layout, "title": title})


def _packed(value: Any) -> Any:
    """A long list as an array of objects, which plotly takes whole; a list it would check entry by entry."""
    if not isinstance(value, list) or len(value) < LONG_LIST:
        return value
    shape = (len(value), len(value[0])) if isinstance(value[0], list) else (len(value),)
    packed = np.empty(shape, dtype=object)
    packed[:] = value
    return packed


def _packed_all(props: Props) -> dict[str, Any]:
    return {name: _packed(value) for name, value in props.items()}


def _changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths such as "marker.color" and "annotations[2].text", and new values, of what differs.

    What is gone becomes None; a list of objects that has grown or shrunk is one change.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*after, *(name for name in before if name not in after)):
            if name != "type":  # a series keeps its kind
                yield from _changes(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif _is_list_of_objects(before) and _is_list_of_objects(after) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from _changes(*pair, f"{path}[{index}]")
    elif not _is_same(before, after):
        yield path, after


def _at(props: Any, path: str) -> Any:
    """The value at a path without lists, None where there is none."""
    for name in path.split("."):
        props = (props or {}).get(name)
    return props


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _is_same(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return type(old) is type(new) and np.array_equal(old, new, equal_nan=True)
    return type(old) is type(new) and bool(old == new)
