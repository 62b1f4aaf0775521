"""Names that attack what shows them, and everything of wavesim that shows names.

Example: `fragments(OUTPUTS["timelines"])` are figures in which each of the names is once a stage's, a plan's,
a device's or a workload's. In a page they must be words: none of them runs, loads, links or blanks the page.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kineto_traces import H100, kernel, write_trace

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DeadlockError, DescriptionError, Waiter
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import CustomPolicy, TileSync
from wavesim.predict.known_costs import KnownCosts
from wavesim.profile.advice import Advice, advise
from wavesim.profile.advice_figures import advice_pairs, advice_timeline
from wavesim.profile.profile_file import load_profile
from wavesim.safe_io.escaping import Markup, element
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import Feedback
from wavesim.teaching.prediction import Prediction, Revealed
from wavesim.teaching.readiness import readiness_picture
from wavesim.teaching.shown import Shown
from wavesim.trace.trace import Trace
from wavesim.view.figure import figure_html
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.safety_figure import safety_picture
from wavesim.view.timeline_figure import timeline
from wavesim.widgets import ComparisonView, DependencyExplorer, TunerView, WavePlayer, WhatIf
from wavesim.widgets.advice_browser import AdviceBrowser
from wavesim.widgets.explorer import problem_html
from wavesim.widgets.scenario import GivenKernels
from wavesim.widgets.tuner_view import TunedPoint
from wavesim.widgets.words import problem_box
from wavesim.workloads.figure_one import TILE_NS, toy

NAMES: tuple[str, ...] = tuple(
    json.loads((Path(__file__).parents[1] / "data" / "hostile_names.json").read_text())
)
Take = Callable[[], str]
# A profile with half a surrogate pair, or with a name of more than 4,096 letters, is refused as it is read.
IN_PROFILES = tuple(name for name in NAMES if len(name) <= 4_096 and not re.search("[\ud800-\udfff]", name))


def fragments(show: Callable[[Take], Markup], names: tuple[str, ...] = NAMES) -> Iterator[Markup]:
    """What a function of `OUTPUTS` shows, as often as it takes for each name to be in one of them."""
    names = IN_PROFILES if show is advice_shown else names
    rest, plain = list(reversed(names)), count()
    while rest:
        yield show(lambda: rest.pop() if rest else f"plain {next(plain)}")


def pipeline(take: Take) -> Pipeline:
    """The toy's two stages under other names."""
    first, second = (Stage(take(), stage.kernel) for stage in toy().stages)
    return Pipeline(take(), [first, second], [Dependency(second[x, y], [first[:, y]])])


def traces(take: Take) -> tuple[Trace, Trace]:
    """Stream sync and tile semaphores on the toy, with other names in all that a recording names."""
    names = pipeline(take), replace(load("toy"), name=take())
    found = [
        simulate(names[0], plan, names[1], zero_cost(names[0], TILE_NS))
        for plan in (StreamSync(), SemaphoreSync(TileSync()))
    ]
    return _renamed(found[0], take), _renamed(found[1], take)


def _renamed(trace: Trace, take: Take) -> Trace:
    head = trace.header
    policies = tuple(replace(info, policy=take()) for info in head.dependencies)
    return replace(trace, header=replace(head, plan_label=take(), dependencies=policies))


def measured(trace: Trace, take: Take) -> Trace:
    """The same run as if a GPU had recorded it."""
    return replace(trace, header=replace(trace.header, source="measured", date=take(), commit=take()))


def what_if(take: Take) -> WhatIf:
    """The explorer with kernels that are in no catalogue."""
    kernels, device = pipeline(take), replace(load("toy"), name=take())
    costs = KnownCosts(zero_cost(kernels, TILE_NS), take() or "costs")
    return WhatIf(given=GivenKernels(kernels, device, costs))


def refused(take: Take) -> Markup:
    """The explorer after a choice that deadlocks, or that cannot be simulated."""
    explorer = what_if(take)
    explorer.controls.wait_kernel.value = False
    explorer.controls.head_start.value = 4
    assert "Deadlock" in explorer.problem.value
    return explorer.html()


def problems(take: Take) -> Markup:
    """Boxes of the errors that name something."""
    waiter = Waiter(take(), (0, 0, 0), 0, 0, take(), 0, 1)
    errors = (DescriptionError(take()), DeadlockError((waiter,), (take(),)))
    return Markup("").join([*(problem_html(error) for error in errors), problem_box(take(), take())])


def advice(take: Take, kernels: int = 3) -> Advice:
    """The advice on a profile of a few kernels, and of the stream and the GPU that it names."""
    stream = take()
    events: list[Any] = [
        kernel(take(), 10.0 * place, 9.0, grid=[140 + place, 1, 1], stream=stream) for place in range(kernels)
    ]
    with TemporaryDirectory() as folder:
        return advise(load_profile(write_trace(Path(folder), events, [{**H100, "name": take()}])))


def advice_shown(take: Take) -> Markup:
    """The browser of an advice, its pair in the explorer after a choice that deadlocks, and both figures."""
    found = advice(take)
    browser = AdviceBrowser(found)
    parts = [browser.html(), figure_html(advice_timeline(found)), figure_html(advice_pairs(found))]
    browser.open_button.click()
    (explorer,) = browser.picture.children
    if isinstance(explorer, WhatIf):
        explorer.controls.wait_kernel.value = False
        explorer.controls.head_start.value = 12
    return Markup("").join([*parts, browser.html()])


def tuner(take: Take) -> Markup:
    """The tuner view, with gains of plans that somebody named."""
    both = traces(take)
    points = [
        TunedPoint(1024, Gain(take(), take(), 1.0, 2.0, 0.5, 2.5), take(), lambda: both) for _ in range(2)
    ]
    return TunerView(points, take(), title=take(), size_name=take()).html()


def comparison(take: Take) -> Markup:
    """The comparison view of one run."""
    ours = traces(take)[1]
    theirs = measured(ours, take)
    return ComparisonView([(take(), lambda: (ours, theirs, None))]).html()


def dependencies(take: Take) -> Markup:
    """The explorer of a plan with a policy of the user's own."""
    policy = CustomPolicy(take(), lambda x, y, grid: y, lambda x, y, grid: grid.x)
    return DependencyExplorer(pipeline(take), SemaphoreSync(policy)).html()


def safety(take: Take) -> Markup:
    """The worst case of a plan without wait-kernel."""
    plan = SemaphoreSync(wait_kernel=False)
    return figure_html(safety_picture(pipeline(take), plan, replace(load("toy"), name=take())))


def gains(take: Take) -> Markup:
    """The overview of a sweep."""
    found = [Gain(take(), take(), 1.0, 2.0) for _ in range(8)]
    return figure_html(gain_overview(found, source=take(), size_name=take()))


def timelines(take: Take) -> Markup:
    """The figure of two traces."""
    return figure_html(timeline(traces(take)))


def readiness(take: Take) -> Markup:
    """When tiles could have started."""
    kernels = pipeline(take)
    trace = simulate(kernels, StreamSync(), load("toy"), zero_cost(kernels, TILE_NS))
    return figure_html(readiness_picture(kernels, _renamed(trace, take)))


def reprs(take: Take) -> Markup:
    """What Jupyter shows of values by themselves."""
    revealed = Revealed((take(),), (take(),), (take(),), 0.0)
    asked = Prediction(take(), choices=(take(), take()))._repr_mimebundle_()
    bundle = asked[0] if isinstance(asked, tuple) else asked
    values = (
        pipeline(take),
        *traces(take),
        Shown((take(),), ((take(),),)),
        revealed,
        Feedback(is_right=True, text=take()),
    )
    return Markup("").join([*(Markup(value._repr_html_()) for value in values), Markup(bundle["text/html"])])


def committed(take: Take) -> Markup:
    """A prediction whose answer is none of the choices."""
    question = Prediction(take(), choices=("a", "b"))
    question.fields[0].value = None
    question._commit_fields()
    return Markup("").join([question.words.value, element("p", take(), title=take())])


OUTPUTS: dict[str, Callable[[Take], Markup]] = {
    "values by themselves": reprs,
    "predictions": committed,
    "problems": problems,
    "wave player": lambda take: WavePlayer(traces(take)[1]).html(),
    "what-if": lambda take: what_if(take).html(),
    "what-if refused": refused,
    "advice": advice_shown,
    "tuner": tuner,
    "dependencies": dependencies,
    "comparison": comparison,
    "timelines": timelines,
    "safety": safety,
    "gains": gains,
    "readiness": readiness,
}
