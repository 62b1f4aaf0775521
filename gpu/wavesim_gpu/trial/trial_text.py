"""A trial in words: the swapped MLPs, the whole step, what a profile says, and the verdict in the last line.

Example: "gains 6.2 % (5.9 to 6.4)". Every number says whether it was simulated or measured.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from wavesim.safe_io.columns import in_columns
from wavesim.safe_io.escaping import lines, one_line
from wavesim_gpu.trial.mlps import MlpGroup
from wavesim_gpu.trial.model_trial import AFTER, BEFORE, TrialResult
from wavesim_gpu.trial.step_times import StepTimes, saved_percent

GROUP_COLUMNS = (
    "MLPs",
    "rows",
    "simulated, us",
    "cuBLASLt simulated, us",
    "as it is, us",
    "swapped, us",
    "saved %",
    "way",
)
SIMULATED_COLUMNS = 4
STEP_COLUMNS = ("program", "ms", "quartiles", "speed over as it is")
LONGEST_NAME = 48
LONGEST_WAY = 72  # plan, tile order and two tiles


def report_text(result: TrialResult) -> str:
    """The whole report for a terminal."""
    parts = [headline(result), about(result)]
    if result.groups:
        parts.append(f"{groups_caption(result)}\n{aligned(group_columns(result), group_rows(result))}")
    if result.kept:
        parts.append("\n".join(["Kept as they are:", *(f"  {one_line(kept, 300)}" for kept in result.kept)]))
    if result.difference is not None:
        parts.append(difference_text(result))
    if result.programs:
        parts.append(f"{step_caption(result)}\n{aligned(STEP_COLUMNS, step_rows(result.programs))}")
        parts.append(saving_text(result))
    if result.advice:
        parts.append(
            "\n".join(
                ["A profile of one step as it is; what could be won is estimated from it:", *numbered(result)]
            )
        )
    parts += result.notes
    parts.append(last_line(result))
    return lines("\n\n".join(parts))


def headline(result: TrialResult) -> str:
    """What was tried, where and when."""
    place = result.device if result.is_measured else f"no GPU here; simulated for {result.device}"
    return f"{one_line(result.place)}: {place}, {result.date[:10]}"


def about(result: TrialResult) -> str:
    """The versions, in a line."""
    return ", ".join(f"{name} {version}" for name, version in result.versions.items())


def numbered(result: TrialResult) -> list[str]:
    """What a profile says, a line each."""
    return [f"  {place}. {finding}" for place, finding in enumerate(result.advice, start=1)]


def difference_text(result: TrialResult) -> str:
    """How far the outputs of the two models differ."""
    difference = result.difference
    assert difference is not None
    agreement = (
        ""
        if difference.agreement is None
        else f"; the largest logit is the same in {difference.agreement:.2%} of rows"
    )
    return (
        f"Outputs, measured: relative error {difference.relative_error:.2g} at most in "
        f"{_tensors(difference.tensors)} (bound {difference.bound:g}){agreement}."
    )


def _tensors(count: int) -> str:
    return f"{count} tensor{'s' if count != 1 else ''}"


def step_caption(result: TrialResult) -> str:
    """What the table of the whole step holds."""
    rounds = len(result.programs[0].times_ns)
    return f"The whole step, measured in {result.how}, in turns, {rounds} rounds: medians and quartiles."


def saving_text(result: TrialResult) -> str:
    """What the simulator expected of the whole step, and what was measured of it."""
    before, after = (median_of(result, label) for label in (BEFORE, AFTER))
    return (
        f"Simulated: the MLPs save {_us(result.predicted_saving_ns)} us of a step over cuBLASLt. Measured: "
        f"the step takes {_us(abs(before - after))} us {'less' if after <= before else 'more'} than as it is."
    )


def median_of(result: TrialResult, label: str) -> float:
    """The median time of one program of the whole step."""
    return next(times.median_ns for times in result.programs if times.label == label)


def groups_caption(result: TrialResult) -> str:
    """What the table of the MLPs holds."""
    text = (
        "The MLPs that can be swapped, and the time of one of them as simulated: by the way that it takes "
        "(kernels, plan, tile order, both products' tiles, or cuBLASLt), and by cuBLASLt."
    )
    if not _has_measured_groups(result):
        return text
    return f"{text} Measured: one of them alone, as it is and swapped, in CUDA graphs, in turns."


def group_columns(result: TrialResult) -> tuple[str, ...]:
    """The table's columns: the simulated ones, and the measured ones where there are any."""
    if _has_measured_groups(result):
        return GROUP_COLUMNS
    return (*GROUP_COLUMNS[:SIMULATED_COLUMNS], GROUP_COLUMNS[-1])


def group_rows(result: TrialResult) -> list[list[str]]:
    """A row for each group of MLPs."""
    is_measured = _has_measured_groups(result)
    rows = [_group_row(group) for group in result.groups]
    return rows if is_measured else [[*row[:SIMULATED_COLUMNS], row[-1]] for row in rows]


def _has_measured_groups(result: TrialResult) -> bool:
    return any(group.before is not None for group in result.groups)


def _group_row(group: MlpGroup) -> list[str]:
    count = f"{len(group.names)} x " if len(group.names) > 1 else ""
    known = group.choice.library_ns > 0
    cells = [
        f"{count}{one_line(group.names[0], LONGEST_NAME)}",
        f"{group.shape.m:,}",
    ]
    way = one_line(group.way, LONGEST_WAY)
    cells += [_us(group.choice.predicted_ns), _us(group.choice.library_ns)] if known else ["-", "-"]
    if group.before is None or group.after is None:
        return [*cells, "-", "-", "-", way]
    saved, low, high = saved_percent(group.before, group.after)
    said = f"{saved:+.1f} ({low:+.1f} to {high:+.1f})"
    return [*cells, _us(group.before.median_ns), _us(group.after.median_ns), said, way]


def step_rows(programs: Sequence[StepTimes]) -> list[list[str]]:
    """A row for each program of the whole step; speeds are of the same rounds."""
    rows = []
    for times in programs:
        low, high = np.percentile(times.times_ns, [25, 75])
        speed, slow, fast = times.speed_over(programs[0])
        said = "" if times is programs[0] else f"{speed:.3f} ({slow:.3f} to {fast:.3f})"
        rows.append(
            [times.label, f"{times.median_ns / 1e6:.3f}", f"{low / 1e6:.3f} to {high / 1e6:.3f}", said]
        )
    return rows


def last_line(result: TrialResult) -> str:
    """The verdict, with what to do about it."""
    if result.gain is None or not result.gain.is_real:
        return f"Verdict: {result.verdict}"
    return (
        f"Verdict: {result.verdict}. To have it: import wavesim_gpu.torch; "
        "wavesim_gpu.torch.optimize(model). The model tried here is as it was"
    )


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in columns: words to the left, numbers to the right."""
    words = [place for place in range(len(columns)) if not all(_is_number(row[place]) for row in rows)]
    return "\n".join(f"  {line}".rstrip() for line in in_columns([columns, *rows], left=words))


def _is_number(text: str) -> bool:
    return not text or (text[0] in "+-0123456789" and " x " not in text)


def _us(time_ns: float) -> str:
    return f"{time_ns / 1e3:,.1f}"


def json_object(result: TrialResult) -> dict[str, Any]:
    """What --json writes: everything above, and every round."""
    return {
        "place": result.place,
        "device": result.device,
        "date": result.date,
        "versions": result.versions,
        "is_measured": result.is_measured,
        "verdict": result.verdict,
        "mlps": [_group_object(group) for group in result.groups],
        "kept": list(result.kept),
        "outputs": None if result.difference is None else asdict(result.difference),
        "how": result.how,
        "programs": [asdict(times) for times in result.programs],
        "gain": None if result.gain is None else asdict(result.gain),
        "advice": list(result.advice),
        "notes": list(result.notes),
    }


def _group_object(group: MlpGroup) -> dict[str, Any]:
    choice = group.choice
    return {
        "names": list(group.names),
        "way": group.way,
        "shape": asdict(group.shape),
        "simulated": {
            "label": choice.label,
            "predicted_ns": choice.predicted_ns,
            "library_ns": choice.library_ns,
            "basis": choice.basis,
        },
        "measured_before": None if group.before is None else asdict(group.before),
        "measured_after": None if group.after is None else asdict(group.after),
        "note": group.note,
    }
