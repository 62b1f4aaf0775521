"""The words and figures around the what-if timelines, as HTML: finding, table and costs.

Example: "Row semaphores: 3 waves instead of 4, 25.0 points less time" above, a table of where the SMs'
time went below. The finding is a live region, so that a screen reader speaks it after each change.
"""

from wavesim.predict.forecast import placement_caveat
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.escaping import Markup, element
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.widgets.scenario import Answer
from wavesim.workloads.figure_one import TILE_NS

NO_GAIN_POINTS = 0.5  # smaller changes are not called a gain or a loss


def time_text(trace: Trace) -> str:
    """What the plan takes, as a person reads it: waves on the toy, else microseconds."""
    if trace.header.workload == "toy" and (waves := metrics_of(trace).waves):
        return f"{waves:g} waves"
    return f"{trace.time_ns / 1000:,.1f} µs"


def improvement(answer: Answer) -> float:
    """Points of improvement of the chosen plan over stream sync."""
    return improvement_points(answer.chosen.time_ns, answer.stream.time_ns)


def signed(points: float, unit: str = " points") -> str:
    """A difference with its sign, a true minus."""
    return f"{points:+.1f}{unit}".replace("-", "−")


def finding(answer: Answer) -> Markup:
    """One sentence on what the chosen plan does to the time."""
    points = improvement(answer)
    label, times = answer.chosen.header.plan_label, (time_text(answer.chosen), time_text(answer.stream))
    makespan = element("span", times[0], class_="wavesim-makespan", data_ns=str(answer.chosen.time_ns))
    if abs(points) < NO_GAIN_POINTS:
        no_gain = Markup("{}: {}, no gain over stream sync's {} ({})")
        return no_gain.format(label, makespan, times[1], signed(points))
    speedup = answer.stream.time_ns / answer.chosen.time_ns
    kind, word = ("good", "less") if points > 0 else ("bad", "more")
    change = element("b", f"{abs(points):.1f} points {word} time", class_=f"wavesim-{kind}")
    faster = Markup("{}: {} instead of {}, {} ({:.2f}× as fast)")
    return faster.format(label, makespan, times[1], change, speedup)


def finding_html(answer: Answer) -> Markup:
    """The finding as a live region, which screen readers speak after each change."""
    tiles = str(len(answer.stream) + len(answer.chosen))
    live = {"role": "status", "aria_live": "polite", "data_tiles": tiles}
    return element("div", finding(answer), class_="wavesim-finding", **live)


def table_html(answer: Answer) -> Markup:
    """Where the SMs' time went under both plans."""
    traces = answer.stream, answer.chosen
    titles = (*(trace.header.plan_label for trace in traces), "change")
    columns = (element("th", title, scope="col") for title in titles)
    rows = (_row(*cells) for cells in zip(ROWS, *(_figures(trace) for trace in traces), strict=True))
    head = element("thead", element("tr", element("th"), *columns))
    return element("table", head, *rows, class_="wavesim-table")


# What each row of the table means, in the order of `_figures`.
ROWS = {
    "time": "launches and set-up included",
    "first issue to last end": "from the first block's issue to the last block's end",
    "waves": "that time over the tile time, where all tiles take equally long",
    "busy": "share of the SMs' time in which blocks compute",
    "resident": "share of the SMs' time in which blocks hold a slot",
    "lost in tails": "no block on an SM while a kernel runs, mean per SM",
    "waiting": "blocks spin on semaphores, mean per SM",
    "between kernels": "no block on any SM",
}


def _figures(trace: Trace) -> tuple[str | None, ...]:
    """The cells of one column; None where there is no such figure."""
    figures = metrics_of(trace)
    is_toy = trace.header.workload == "toy"

    def time(nanoseconds: float) -> str:
        return f"{nanoseconds / TILE_NS:.2f} tile times" if is_toy else f"{nanoseconds / 1000:,.1f} µs"

    return (
        time(trace.time_ns),
        None if trace.time_ns == trace.makespan_ns else time(trace.makespan_ns),
        f"{figures.waves:.3g}" if figures.waves else None,
        f"{figures.busy_utilisation:.1%}",
        f"{figures.resident_utilisation:.1%}",
        time(figures.tail_loss_ns),
        time(figures.waiting_ns),
        time(figures.launch_gap_ns),
    )


def _row(name: str, before: str | None, after: str | None) -> Markup:
    if before is None and after is None:
        return Markup("")
    cells = (element("td", text or "–") for text in (before, after, _change(before, after)))
    return element("tr", element("th", name, scope="row", title=ROWS[name]), *cells)


def _change(before: str | None, after: str | None) -> str | None:
    """The difference of two cells, in their unit."""
    if before is None or after is None:
        return None
    one, other = (float(text.split()[0].rstrip("%").replace(",", "")) for text in (before, after))
    difference = other - one
    unit = " points" if after.endswith("%") else after.partition(" ")[2] and f" {after.partition(' ')[2]}"
    digits = 2 if "tile times" in after or not unit else 1
    return "±0" if not round(difference, digits) else f"{difference:+.{digits}f}{unit}".replace("-", "−")


def costs_html(answer: Answer, code: str) -> Markup:
    """Where the costs come from, how far off predictions were there, what safety rests on, and the call."""
    source = answer.costs.source
    words = [element("b", "Costs."), f"{source[0].upper()}{source[1:].removesuffix('.')}."]
    if answer.scenario.workload != "toy" and answer.costs.tile_times:
        words.append(f"Simulated with {answer.costs.tile_times}.")
    measured = answer.costs.measured(answer.scenario.policy)
    whole = answer.scenario.whole_device.sm_count
    if answer.scenario.sm_count != whole and answer.scenario.workload != "toy":
        words.append(f"A tile takes as long on {answer.scenario.sm_count} SMs as on all {whole}.")
    elif measured is not None:
        predicted = improvement(answer)
        words.append(element("b", "Measured there:"))
        words.append(
            f"{signed(measured.median)} (quartiles {signed(measured.low, '')} to "
            f"{signed(measured.high, '')}); predicted {signed(predicted, '')}, "
            f"error {signed(predicted - measured.median, '')}."
        )
    for caveat in placement_caveat(answer.chosen):
        words += [element("b", "Placement:"), f"{caveat.removeprefix('placement: ')}."]
    words += [element("b", "Safety:"), f"{answer.safety.text.removeprefix('safety: ')}."]
    if code:
        words += [element("b", "This setting:"), element("code", code)]
    return element("div", Markup(" ").join(words), class_="wavesim-costs")
