"""The advice as a widget: choose a pair, mark it, and see both plans of it simulated one over the other.

Example: a list of ranked pairs; below it what tile sync could win and why, a switch "the second reads the
first: unknown, yes, no", and the pair on one stream above the same pair with a semaphore per tile. A button
opens the pair in the what-if explorer.
"""

from collections.abc import Callable

import ipywidgets

from wavesim.costs.calibration_text import assumed_text, kernel_times_defaults
from wavesim.errors import WavesimError
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.known_costs import KnownCosts
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.advice_text import findings, interval_text, milliseconds, pair_label, share_text
from wavesim.profile.pair_file import pair_description
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup, element, markup
from wavesim.sim.simulation import simulate
from wavesim.view.timeline_data import timeline_parts
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.plans_picture import PlansPicture
from wavesim.widgets.scenario import GivenKernels
from wavesim.widgets.what_if import WhatIf
from wavesim.widgets.words import Words

MARKS = {"unknown": None, "yes": True, "no": False}
MOST_BLOCKS = 40_000  # of a pair that is simulated; more would take over a second
MOST_PAIRS = 40
ASSUMED = "Which tile reads which is assumed: a profile does not tell."


class AdviceBrowser(ipywidgets.VBox):
    """Browses an advice; `advice` follows the marks."""

    @typed
    def __init__(self, advice: Advice) -> None:
        self.advice = advice
        self._is_setting = False
        self._given: dict[int, GivenKernels] = {}  # by pair: to find tile times takes half of what is shown
        self.findings = Words(element("ol", *(element("li", text) for text in findings(advice))))
        self.choice = ipywidgets.Dropdown(
            description="Pair", options=self._options(), layout={"width": "90%"}
        )
        self.mark = ipywidgets.ToggleButtons(
            description="The second reads the first:",
            options=list(MARKS),
            style={"description_width": "initial", "button_width": "80px"},
        )
        self.words = Words()
        self.open_button = ipywidgets.Button(
            description="Open in the what-if explorer", layout={"width": "260px"}, tooltip=ASSUMED
        )
        self.picture = ipywidgets.VBox()
        self.choice.observe(lambda _: self._show(), names="value")
        self.mark.observe(lambda _: self._marked(), names="value")
        self.open_button.on_click(lambda _: self._explore())
        parts = [self.findings, self.choice, self.mark, self.words, self.open_button, self.picture]
        super().__init__([*parts, PageWatch()])
        self.add_class("wavesim")  # the watch keeps keys pressed inside it from JupyterLab
        self._show()

    @property
    def pair(self) -> Pair | None:
        """The chosen pair."""
        return None if self.choice.value is None else self.advice.pair(self.choice.value)

    def html(self) -> Markup:
        """Findings, the chosen pair and its picture, for a page that has no kernel."""
        name = "" if self.pair is None else element("p", element("b", pair_label(self.pair)))
        parts = (self.findings.value, name, self.words.value, *map(_still, self.picture.children))
        return Markup("").join(parts)

    def _options(self) -> list[tuple[str, int]]:
        return [
            (f"{pair.number}: {pair_label(pair)}", pair.number) for pair in self.advice.pairs[:MOST_PAIRS]
        ]

    def _marked(self) -> None:
        pair = self.pair
        if pair is not None and not self._is_setting:
            # A mark that is taken back is a mark as well: the advice as it was read knows no marks.
            known: dict[int, bool | None] = {
                p.number: p.is_dependent for p in self.advice.pairs if p.is_dependent is not None
            }
            known[pair.number] = MARKS[self.mark.value]
            blank = self.advice.unmarked()
            self.advice = blank.marked({number: word for number, word in known.items() if word is not None})
            self.words.value = self._text(self.advice.pair(pair.number))

    def _show(self) -> None:
        pair = self.pair
        if pair is None:
            self.words.value = "No pair of kernels runs back to back in this profile."
            self.open_button.disabled = True
            return
        self._is_setting = True
        self.mark.value = next(word for word, meaning in MARKS.items() if meaning is pair.is_dependent)
        self._is_setting = False
        self.words.value = self._text(pair)
        self.picture.children = self._figures(pair)

    def _text(self, pair: Pair) -> Markup:
        saving = pair.saving
        return element(
            "p",
            f"{pair.count:,} times. Tile sync: ",
            element("b", milliseconds(saving.likely_ns)),
            f" ({interval_text(saving)}), {share_text(self.advice, saving.likely_ns)} of the profiled time. "
            f"Launch gaps: {milliseconds(pair.gap_ns)}, of which a CUDA graph could win "
            f"{milliseconds(pair.gap_saving.likely_ns)}.",
        )

    def _explore(self) -> None:
        """Puts the explorer in the picture's place; another pair brings the picture back."""
        if self.pair is not None:
            self.picture.children = self._or_reason(lambda given: WhatIf(given=given), self.pair)

    def _figures(self, pair: Pair) -> tuple[ipywidgets.Widget, ...]:
        return self._or_reason(self._timeline, pair)

    def _timeline(self, given: GivenKernels) -> ipywidgets.Widget:
        """The pair simulated on one stream and with tile semaphores."""
        plans = (StreamSync(), SemaphoreSync(TileSync()))
        traces = [simulate(given.pipeline, plan, given.device, given.costs.model) for plan in plans]
        return PlansPicture(timeline_parts(traces))

    def _or_reason(
        self, draw: Callable[[GivenKernels], ipywidgets.Widget], pair: Pair
    ) -> tuple[ipywidgets.Widget, ...]:
        """What is drawn of the pair, or the reason why it is not."""
        self.open_button.disabled = True
        try:
            if pair.number not in self._given:
                self._given[pair.number] = given_kernels(pair)
            given = self._given[pair.number]
            blocks = sum(stage.grid.size for stage in given.pipeline.stages)
            if blocks > MOST_BLOCKS:
                reason = f"Not drawn: {blocks:,} blocks. Write it out for `wavesim predict`."
                return (Words(element("p", reason)),)
            drawn = draw(given)
        except WavesimError as error:
            return (Words(element("p", str(error))),)
        self.open_button.disabled = False
        return (drawn,)


@typed
def given_kernels(pair: Pair) -> GivenKernels:
    """A pair for the explorer, with the profile's times. Raises `DescriptionError` for one it cannot see."""
    found = pair_description(pair)
    pipeline, device = found.pipeline, found.device
    costs = costs_from_kernel_times(pipeline, device, found.kernel_ns)
    defaults = kernel_times_defaults(device, costs)
    source = f"From the profile's kernel times. {ASSUMED}{assumed_text(defaults)}"
    return GivenKernels(pipeline, device, KnownCosts(costs, source, defaults=tuple(map(str, defaults))))


def _still(child: ipywidgets.Widget) -> Markup:
    """What stands in the picture's place, for a page that has no kernel."""
    return child.html() if isinstance(child, WhatIf | PlansPicture) else markup(child.value)
