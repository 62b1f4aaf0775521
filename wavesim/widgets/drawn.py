"""Widgets that a browser draws itself on a canvas, from a scene that Python computes.

Example: the kernel sends titles and arrays; the page draws them in its own theme and width, answers
hovering and keys at once, and saves what it shows as PNG or SVG. The same script, written into a page
with the scene beside it, needs no kernel at all.
"""

import base64
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets
from IPython.display import display

from wavesim.safe_io.escaping import Markup, element, script_json
from wavesim.view.export import save_html
from wavesim.view.timeline_data import TimelineParts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.scripts import HEARD, HERE, PLANS_SCRIPTS, script, style

_numbers = count(1)
LIVE_CLASS = "wavesim-live"
# In JupyterLab's pages alone, where outputs can be told apart: either the live widget or what it has left.
LIVE = ":has(.wavesim-live):not(:has(.wavesim.jupyter-widgets-disconnected))"
STILL_STYLE = element(
    "style",
    Markup(
        ".wavesim-still { display: none }\n"
        ".jp-OutputArea-child .wavesim-still { display: block }\n"
        f".jp-OutputArea-child{LIVE} + .jp-OutputArea-child:has(.wavesim-still) {{ display: none }}\n"
        f".jp-OutputArea-child:not({LIVE}):has(+ .jp-OutputArea-child .wavesim-still) {{ display: none }}\n"
    ),
)
# Drawn when it comes into sight, which behind a live widget is never.
STILL_SCRIPT = Markup("""(() => {
  const boxes = [...document.querySelectorAll(".wavesim-still")];
  const box = document.currentScript?.parentElement ?? boxes.at(-1);
  const sight = new IntersectionObserver((seen) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    sight.disconnect();
    const left = box.querySelector("template").content.cloneNode(true);
    for (const script of left.querySelectorAll("script")) {
      const made = document.createElement("script");
      made.textContent = script.textContent;
      script.replaceWith(made);
    }
    box.append(left);
  });
  sight.observe(box);
})();""")


def _script_of(cls: type, name: str = "_esm") -> Any:
    """What a class of ours sets. A page can set its model's own script, which would be written into others.

    The widget's base puts a trait of that name into a class that it derives: what that holds is passed over.
    """
    own = (vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return next(value for value in own if not isinstance(value, traitlets.TraitType))


class LeavesPicture:
    """Shown in a notebook it leaves, behind the live widget, what it draws without a kernel.

    The page shows that once the kernel has restarted or the notebook is opened again.
    """

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()  # type: ignore[attr-defined]  # a widget's
        _publish(bundle[0] if isinstance(bundle, tuple) else bundle)
        still = element("template", self.html())  # type: ignore[attr-defined]  # a widget's
        words = "Shown as it was when this cell ran: the kernel has restarted. Run the cell for its controls."
        parts = (STILL_STYLE, element("p", words), still, element("script", STILL_SCRIPT))
        left = element("div", *parts, class_="wavesim-still")
        _publish({"text/html": left, "text/plain": type(self).__name__})


def _publish(bundle: dict[str, Any]) -> None:
    display(bundle, raw=True)  # type: ignore[no-untyped-call]  # IPython's


class DrawnWidget(LeavesPicture, anywidget.AnyWidget):
    """A canvas widget. A subclass sets `_esm` to its `script` and fills `scene`."""

    _css = style("vscode.css", "drawn.css")
    scene = traitlets.Dict().tag(sync=True)
    # Traits besides the scene that a page without a kernel starts from.
    page_traits: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.add_class(LIVE_CLASS)

    def html(self) -> Markup:
        """A fragment that draws the widget in any page, with no kernel and no network."""
        return self.fragment({name: getattr(self, name) for name in ("scene", *self.page_traits)})

    @classmethod
    def fragment(cls, values: dict[str, Any]) -> Markup:
        """The same of these values, without a widget."""
        data = script_json(values, default=_base64)
        name = f"wavesim-drawn-{next(_numbers)}"
        call = f"render({{ model: new PageModel({data}), el: document.getElementById('{name}') }});"
        source = str(_script_of(cls)).replace(HEARD, call)
        drawing = Markup(f"(() => {{\n{source}\n}})();")
        parts = (
            element("style", Markup(_script_of(cls, "_css"))),
            element("div", id=name),
            element("script", drawing),
        )
        return Markup("").join(parts)

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the picture to .html, .png or .svg; returns the path. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)


class PlansPicture(DrawnWidget):
    """Timelines under each other on one time axis, with the share of busy SMs; 10,000 tiles in 30 ms.

    `strip` is the gain at other sizes, {of, label, values, gains, at}; a click on one of them sets `picked`.
    `ahead` is the scene of one of them, {of, at, scene}, drawn as soon as the `slider` with that model asks
    for it. `of` counts the settings of all else.
    """

    _esm = script(*PLANS_SCRIPTS)
    strip = traitlets.Dict().tag(sync=True)
    picked = traitlets.Any(None, allow_none=True).tag(sync=True)
    ahead = traitlets.Dict().tag(sync=True)
    slider = traitlets.Unicode().tag(sync=True)
    page_traits = ("strip",)

    @classmethod
    def of(cls, parts: TimelineParts) -> "PlansPicture":
        """The picture of these parts."""
        return cls(scene=scene_of_timeline(parts))


class PageWatch(anywidget.AnyWidget):
    """Invisible: names sliders for screen readers, and keeps keys pressed in a widget from JupyterLab."""

    _esm = HERE / "page_watch.js"


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode()
