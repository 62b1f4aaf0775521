"""The advice as a widget: choose a pair, mark it, and see both plans of it simulated one over the other.

Example: a list of ranked pairs; below it what tile sync could win and why, a switch "the second reads the
first: unknown, yes, no", the plan to run, and the pair on one stream above the same pair under the plan that
gains most. A button opens the pair in the what-if explorer.
"""

from collections.abc import Callable
from typing import Any

import ipywidgets

from wavesim.costs.calibration_text import assumed_text, kernel_times_defaults
from wavesim.errors import WavesimError
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.recommendation import verdict_on
from wavesim.predict.recommendation_text import answer_lines
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.advice_card import card_html
from wavesim.profile.advice_text import findings, interval_text, milliseconds, pair_label, share_text
from wavesim.profile.pair_file import pair_description
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup, element
from wavesim.sim.simulation import simulate
from wavesim.view.timeline_data import timeline_parts
from wavesim.widgets.drawn import PlansPicture
from wavesim.widgets.explorer import Explorer, menu, still_part
from wavesim.widgets.scenario import GivenKernels
from wavesim.widgets.what_if import WhatIf
from wavesim.widgets.words import Words

MARKS = {"unknown": None, "yes": True, "no": False}
MOST_BLOCKS = 40_000  # of a pair that is simulated; more would take over a second
MOST_RANKED = 2_000  # of a pair that is simulated under every plan, for the same reason
MOST_PAIRS = 40
NOT_RANKED = "Drawn with tile semaphores. For the plan to run write the pair out for `wavesim predict`."
ASSUMED = "Which tile reads which is assumed: a profile does not tell."


class AdviceBrowser(Explorer):
    """Browses an advice; `advice` follows the marks."""

    @typed
    def __init__(self, advice: Advice) -> None:
        self.advice = advice
        self._given: dict[int, GivenKernels] = {}  # by pair: to find tile times takes half of what is shown
        listed = element("ol", *(element("li", text) for text in findings(advice)))
        self.findings = Words(Markup("").join([card_html(advice), listed]))
        self.words, self._drawn = Words(), ipywidgets.VBox()
        self.open_button = ipywidgets.Button(
            description="Open in the what-if explorer", layout={"width": "260px"}, tooltip=ASSUMED
        )
        self.open_button.on_click(lambda _: self._explore())
        pairs = [(f"{pair.number}: {pair_label(pair)}", pair.number) for pair in advice.pairs[:MOST_PAIRS]]
        first = pairs[0][1] if pairs else None
        mark = ipywidgets.ToggleButtons(
            description="The second reads the first:",
            options=list(MARKS),
            value=_word(None if first is None else advice.pair(first)),
            style={"description_width": "initial", "button_width": "80px"},
        )
        # A drop-down of nothing has no value to offer.
        choice = menu("Pair", pairs, first) if pairs else ipywidgets.Dropdown(description="Pair")
        shown_parts = [self.findings, self.words, self.open_button, self._drawn]
        super().__init__({"choice": choice, "mark": mark}, above=shown_parts)
        self._draw()

    @property
    def pair(self) -> Pair | None:
        """The chosen pair."""
        return None if self.choice.value is None else self.advice.pair(self.choice.value)

    @property
    def picture(self) -> ipywidgets.VBox:
        """The pair's timelines, the explorer, or why there is none."""
        return self._drawn

    def html(self) -> Markup:
        """Findings, the chosen pair and its picture, for a page that has no kernel."""
        name = "" if self.pair is None else element("p", element("b", pair_label(self.pair)))
        drawn = (still_part(child) for child in self._drawn.children)
        return Markup("").join((self.findings.value, name, self.words.value, *drawn))

    def _follow(self, change: Any) -> None:
        pair = self.pair
        if pair is None:
            return
        if change.owner is self.choice:
            self.mark.value = _word(pair)
            self._draw()
            return
        # A mark that is taken back is a mark as well: the advice as it was read knows no marks.
        known = {p.number: p.is_dependent for p in self.advice.pairs if p.is_dependent is not None}
        blank, word = self.advice.unmarked(), MARKS[self.mark.value]
        known.pop(pair.number, None)
        self.advice = blank.marked(known if word is None else {**known, pair.number: word})

    def _say(self) -> None:
        pair = self.pair
        if pair is None:
            self.words.value = "No pair of kernels runs back to back in this profile."
            self.open_button.disabled = True
            return
        saving = pair.saving
        self.words.value = element(
            "p",
            f"{pair.count:,} times. Tile sync: ",
            element("b", milliseconds(saving.likely_ns)),
            f" ({interval_text(saving)}), {share_text(self.advice, saving.likely_ns)} of the profiled time. "
            f"Launch gaps: {milliseconds(pair.gap_ns)}, of which a CUDA graph could win "
            f"{milliseconds(pair.gap_saving.likely_ns)}.",
        )

    def _draw(self) -> None:
        """The chosen pair's timelines; another pair replaces the explorer."""
        if self.pair is not None:
            self._drawn.children = self._or_reason(self._timeline, self.pair)

    def _explore(self) -> None:
        """Puts the explorer in the picture's place; another pair brings the picture back."""
        if self.pair is not None:
            self._drawn.children = self._or_reason(lambda given: (WhatIf(given=given),), self.pair)

    def _timeline(self, given: GivenKernels) -> tuple[ipywidgets.Widget, ...]:
        """What to run, above the pair on one stream and under the plan that gains most.

        Of a pair with too many blocks to try every plan at once it is tile semaphores, and the words say so.
        """
        pipeline, device = given.pipeline, given.device
        if sum(stage.grid.size for stage in pipeline.stages) > MOST_RANKED:
            plans = (StreamSync(), SemaphoreSync(TileSync()))
            traces = [simulate(pipeline, plan, device, given.costs.model) for plan in plans]
            return (Words(element("p", NOT_RANKED)), PlansPicture.of(timeline_parts(traces)))
        verdict = verdict_on(pipeline, device, given.kernel_ns)
        words = Words(element("pre", "\n".join(answer_lines(verdict, device.name))))
        traces = [option.trace for option in (verdict.tried[0], verdict.runner_up)]
        return (words, PlansPicture.of(timeline_parts(traces)))

    def _or_reason(
        self, draw: Callable[[GivenKernels], tuple[ipywidgets.Widget, ...]], pair: Pair
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
        return drawn


@typed
def given_kernels(pair: Pair) -> GivenKernels:
    """A pair for the explorer, with the profile's times. Raises `DescriptionError` for one it cannot see."""
    found = pair_description(pair)
    pipeline, device = found.pipeline, found.device
    costs = costs_from_kernel_times(pipeline, device, found.kernel_ns)
    defaults = kernel_times_defaults(device, costs)
    source = f"From the profile's kernel times. {ASSUMED}{assumed_text(defaults)}"
    known = KnownCosts(costs, source, defaults=tuple(map(str, defaults)))
    return GivenKernels(pipeline, device, known, found.kernel_ns)


def _word(pair: Pair | None) -> str:
    """The mark that a pair has."""
    known = None if pair is None else pair.is_dependent
    return next(word for word, meaning in MARKS.items() if meaning is known)
