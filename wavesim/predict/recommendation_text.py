"""A recommendation as people read it: one short block, and what stands behind it for those who ask.

Example: "Run: pdl+row" with its gain and interval, what its safety rests on, why, what to do next, and the
plans that come close.
"""

from textwrap import wrap

from wavesim.predict.forecast import HELPS_POINTS, Forecast
from wavesim.predict.intervals import scored_text
from wavesim.predict.ranking import NO_BETTER_POINTS
from wavesim.predict.recommendation import PlanOption, Recommendation
from wavesim.predict.scenarios import FIELDS
from wavesim.safe_io.escaping import WIDTH

OTHERS = 3  # plans that are named beside the one to run
ASKED_POINTS = 1.0  # an interval widened by less is not worth a question
HINTS = {"tests_each_k_block": ", false if you use the code of `wavesim gen`"}  # of a field, what is usual


def run_line(found: Recommendation) -> str:
    """The plan to run, by its short word and in words."""
    label = found.option.plan.label
    return f"Run: {found.best}" + (f"  ({label[0].lower()}{label[1:]})" if found.best != label else "")


def answer_lines(
    found: Recommendation, device: str, file: str = "the description", *, is_brief: bool = False
) -> list[str]:
    """The block: at most a dozen lines of at most 100 columns. `file` describes the kernels.

    In brief, as beside a table of plans, it leaves out the reason and the other plans.
    """
    is_stream = found.option.plan.is_stream_sync
    rows = {
        "gain": _no_gain_text(found.forecast) if is_stream else gain_text(found.forecast, device),
        "safe": found.option.safety.short,
        "why": "" if is_brief else found.reason,
        "next": next_step(found, file),
        "others": "" if is_brief else ", ".join(_other(found, option) for option in _others(found)),
    }
    lines = [run_line(found)]
    for name, text in rows.items():
        lines += wrap(f"{name:<7}{text}", WIDTH, subsequent_indent=" " * 7) if text else []
    return lines


def gain_text(forecast: Forecast, device: str) -> str:
    """A gain with its interval, and where such predictions were scored."""
    interval = "80 % interval" if forecast.scored else "interval"
    return (
        f"{forecast.points:+.1f} % of stream sync's time, {interval} {forecast.low:+.1f} to "
        f"{forecast.high:+.1f}, {scored_text(forecast.kind, device)}"
    )


def _no_gain_text(forecast: Forecast) -> str:
    most = f"; at most {forecast.high:.1f} % is lost by that" if forecast.high else ""
    return f"no plan tried gains enough over stream sync to be sure of{most}"


def next_step(found: Recommendation, file: str) -> str:
    """What would narrow the interval most, else how to get the code; "" where nothing is to be done."""
    widened: dict[str, float] = {}
    for label, points in found.runner_up.forecast.widened.items():
        name = FIELDS.get(label.split(" ", 1)[1] if label[0].isdigit() else label, "")
        widened[name] = widened.get(name, 0.0) + points
    widest = max(widened, key=lambda name: widened[name], default="")
    if widest and widened[widest] >= ASKED_POINTS:
        by = f"{widened[widest]:.1f} points"
        hint = HINTS.get(widest, "")
        return f"say `{widest}` in {file}{hint}: not knowing it widens the interval by {by}"
    plan = found.option.plan
    if plan.is_stream_sync or not plan.sync.has_semaphores:
        return ""
    order = "" if found.best == plan.name else f" --order {found.best.removeprefix(plan.name).strip()}"
    return f"wavesim gen {file} --sync {plan.name}{order}" if file.endswith(".toml") else ""


def detail_lines(found: Recommendation) -> list[str]:
    """What stands behind the block: how far such predictions were off, what was assumed, all plans tried."""
    forecast = found.forecast
    return [
        f"before: {forecast.history}",
        *forecast.caveats,
        f"costs: {forecast.basis}",
        f"safety: {found.option.safety.rests_on or found.option.safety.reason}",
        "tried, gain in % of stream sync's time: "
        + ", ".join(f"{name} {points:+.1f}" for name, points in found.improvements.items()),
    ]


def _others(found: Recommendation) -> list[PlanOption]:
    """Of each other way to wait the simplest plan that is as good as the best, those that gain most first."""
    ways: dict[str, list[PlanOption]] = {}
    for option in found.tried:
        plan = option.plan
        if plan.name != found.option.plan.name and not plan.is_stream_sync:
            ways.setdefault(plan.sync.word if plan.sync.has_semaphores else plan.name, []).append(option)
    simplest = []
    for options in ways.values():
        enough = max(option.points for option in options) - NO_BETTER_POINTS
        simplest.append(next(option for option in options if option.points >= enough))
    simplest.sort(key=lambda option: -option.points)
    is_stream = found.option.plan.is_stream_sync
    return [option for option in simplest if is_stream or option.points >= HELPS_POINTS][:OTHERS]


def _other(found: Recommendation, option: PlanOption) -> str:
    why = found.why_not(option)
    return f"{option.name} {option.points:+.1f}" + (f" ({why})" if why else "")
