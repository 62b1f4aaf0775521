"""The frame of every explorer: labelled controls, pictures, words around them, an update loop, a still page.

Example: a slider moves; controls that follow it are set, those without effect greyed out, the scene is
computed and drawn. A setting that cannot run says why in a red box over the last picture that could, greyed.
"""

import gc
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import ipywidgets

from wavesim.errors import DeadlockError, DescriptionError, WavesimError
from wavesim.safe_io.annotated import require_type
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.view.export import save_html
from wavesim.widgets.drawn import LIVE_CLASS, DrawnWidget, LeavesPicture, PageWatch
from wavesim.widgets.scripts import style
from wavesim.widgets.words import Words, fold_switch, problem_box, style_sheet

LABEL = {"description_width": "150px"}
FAILED = "wavesim met an error of its own; JupyterLab's log console has the details."


class Explorer(LeavesPicture, ipywidgets.VBox):
    """A subclass names its `kinds` of pictures, makes controls and answers `_scenes`; the rest it may answer.

    `controls` by name, in reading and Tab order, are attributes of the explorer and of its `controls`;
    `beside` are more, which come and go. `above` and `below` are words around the pictures; those below are
    folded behind the words of `fold`.
    """

    kinds: ClassVar[tuple[type[DrawnWidget], ...]] = ()

    def __init__(
        self,
        controls: Mapping[str, Any],
        *,
        beside: Sequence[Any] = (),
        above: Sequence[Any] = (),
        below: Sequence[Any] = (),
        fold: str = "",
    ) -> None:
        self.controls: Any = namedtuple("Controls", controls)(**controls)  # noqa: PYI024  # names as they come
        for name, control in controls.items():
            setattr(self, name, control)
        self._is_following = False
        self._enable()
        self.pictures = [kind(scene=scene) for kind, scene in zip(self.kinds, self._scenes(), strict=True)]
        self.problem = Words()
        self._parts = [
            _box("wavesim-above", above),
            _box("wavesim-picture", self.pictures),
            _box("wavesim-below", below),
        ]
        self._say()
        for control in self.controls:
            control.observe(self._changed, names="value")
        self._beside = tuple(beside)
        grid = ipywidgets.GridBox(self.controls)
        grid.add_class("wavesim-controls")
        used = [part for part in self._parts if part.children]
        if fold:
            used.insert(-1, fold_switch(fold))
        super().__init__([style_sheet(), grid, *beside, self.problem, *used, PageWatch()])
        self.add_class("wavesim")
        self.add_class(LIVE_CLASS)

    @property
    def picture(self) -> DrawnWidget:
        """The first picture."""
        return self.pictures[0]

    @property
    def values(self) -> dict[str, Any]:
        """What each control says."""
        return {name: control.value for name, control in self.controls._asdict().items()}

    def refresh(self) -> None:
        """Shows what the controls say, or why it cannot run beside the last picture that could."""
        self._enable()
        refusal = problem_box("Not simulated", FAILED, self._still())
        try:
            with _collections_deferred():
                scenes = self._scenes()
                for picture, scene in zip(self.pictures, scenes, strict=True):
                    picture.scene = scene
            self._say()
            refusal = Markup("")
        except WavesimError as error:
            refusal = problem_html(error, self._still())
        finally:
            self.problem.value = refusal
            for part in self._parts:
                (part.add_class if refusal else part.remove_class)("wavesim-stale")

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        drawn = [part for part in self._beside if isinstance(part, DrawnWidget)]
        parts = [*drawn, self.problem, *(part for box in self._parts for part in box.children)]
        shown_now = element("div", *(still_part(part) for part in parts), class_="wavesim")
        return Markup("").join([element("style", Markup(style("what_if.css"))), shown_now])

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes what is shown to .html, its pictures to .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    def _scenes(self) -> Sequence[dict[str, Any]]:
        """What the controls say, computed: a scene per picture. Raises `WavesimError`."""
        return ()

    def _enable(self) -> None:
        """Greys out the controls that have no effect now."""

    def _follow(self, change: Any) -> None:
        """Sets the controls that follow the one that has changed."""

    def _say(self) -> None:
        """Fills the words around the pictures."""

    def _setting(self) -> str:
        """What the picture shows, in words; "" if its own title says it."""
        return ""

    def _still(self) -> Markup:
        setting = self._setting()
        words = f"The picture still shows the last setting that ran{setting and ': '}{setting}."
        return BREAK.join(["", element("i", words)])

    def _changed(self, change: Any) -> None:
        """Lets other controls follow, then draws once."""
        if self._is_following:
            return
        self._is_following = True
        try:
            self._follow(change)
        finally:
            self._is_following = False
        self.refresh()


def _box(name: str, children: Sequence[Any]) -> ipywidgets.Box:
    box = ipywidgets.Box(tuple(children))
    box.add_class(name)
    return box


def still_part(part: Any) -> Markup:
    """Words, a picture or an explorer as HTML that needs no kernel."""
    return Markup(part.value) if isinstance(part, Words) else part.html()


@contextmanager
def _collections_deferred() -> Iterator[None]:
    """No garbage collection inside: with a notebook's heap each costs as much as simulating 4,000 tiles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def problem_html(error: WavesimError, still: str = "") -> Markup:
    """Why a setting cannot run, and what the picture still shows."""
    if isinstance(error, DeadlockError):
        return problem_box("Deadlock", deadlock_text(error), still)
    return problem_box("This cannot run", str(error), still)


def deadlock_text(error: DeadlockError) -> str:
    """A deadlock in words: who holds the slots, for what they wait, and who can therefore never run."""
    first = error.waiters[0] if error.waiters else None
    if first is None:
        return str(error)
    stages = sorted({waiter.stage for waiter in error.waiters})
    starved = " ".join(f"Never issued: {fact}." for fact in error.starved)
    x, y, _ = first.tile
    count = len(error.waiters)
    they = f"{count} blocks of {', '.join(stages)} hold SM slots and spin"
    if count == 1:
        they = f"1 block of {stages[0]} holds its SM slot and spins"
    return (
        f"{they} on semaphores that nobody can post. For one, tile ({x}, {y}) of {first.stage} on SM "
        f"{first.sm} waits for {first.semaphore}: it reads {first.seen} and needs {first.awaited}. {starved} "
        "Spinning blocks never leave, so nothing moves again. The wait-kernel keeps consumers off the device "
        "until the producer has started, which rules this out where blocks are issued in launch order."
    )


def menu(label: str, options: Iterable[Any], value: Any, **more: Any) -> ipywidgets.Dropdown:
    """A menu of values, or of (words, value), that shows `value`. Raises `DescriptionError`."""
    options = list(options)
    require_offered(label, value, [entry[1] if isinstance(entry, tuple) else entry for entry in options])
    return ipywidgets.Dropdown(options=options, value=value, **_labelled(label, more))


def stops(label: str, values: Iterable[Any], value: Any, **more: Any) -> ipywidgets.SelectionSlider:
    """A slider over these values, and the one it starts from where it lies between them."""
    return ipywidgets.SelectionSlider(options=numbers(values, value), value=value, **_labelled(label, more))


def slider(
    label: str, value: float, low: float, high: float, kind: Any = ipywidgets.IntSlider, **more: Any
) -> Any:
    """A slider from `low` to `high`, further where it starts beyond."""
    return kind(value=value, min=min(low, value), max=max(high, value), **_labelled(label, more))


def numbers(values: Iterable[Any], value: Any) -> list[tuple[str, Any]]:
    """Options of a slider: numbers in their order with their digits grouped, or words as they come."""
    offered = list(dict.fromkeys([*values, value]))
    if all(isinstance(number, str) for number in offered):
        return [(word, word) for word in offered]
    return [(f"{number:,}", number) for number in sorted(offered)]


def _labelled(label: str, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": label, "style": LABEL, "tooltip": label, **more}


def require_offered(name: str, value: Any, known: Sequence[Any]) -> None:
    """A value is one of those that there are. Raises `DescriptionError`."""
    if value not in known:
        raise DescriptionError(f"{name} is {shown(value)}; {_offered(value, known)}")


def require_start_values(explorer: str, scenario: type, start: Mapping[str, Any]) -> None:
    """Start values of an explorer are fields of its scenario, of their types. Raises `DescriptionError`."""
    known, hints = [field.name for field in fields(scenario)], get_type_hints(scenario)
    for name, value in start.items():
        if name not in known:
            raise DescriptionError(f"{explorer} has no start value {shown(name)}; {_offered(name, known)}")
        require_type(explorer, name, value, hints[name])


def _offered(value: object, known: Sequence[Any]) -> str:
    names = [str(name) for name in known]
    near = (
        get_close_matches(value, names, 1) if isinstance(value, str) else []
    )  # numbers are no typing errors
    hint = f"did you mean {near[0]!r}? There are" if near else "there are"
    return f"{hint} {', '.join(names)}"
