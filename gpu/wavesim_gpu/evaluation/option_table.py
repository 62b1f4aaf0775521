"""What the options save, measured and predicted side by side: the paper's Table V for our kernels.

Example: `python -m wavesim_gpu options-table` reads the newest measurement and prints, for M = 64, 128 and
256, the time of each variant and its gain over "vanilla", beside the simulator's figures. Needs no GPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from wavesim.errors import RecordingError
from wavesim.evaluation.gpu_results import MAX_BYTES, Fields, newest_results
from wavesim.model.device import load, names
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import read_json
from wavesim.workloads.catalogue import parse_tile
from wavesim.workloads.gpt3 import gpt3_mlp

BASE = "vanilla"
FEWEST_ROUNDS = 2


@dataclass(frozen=True)
class OptionRow:
    """One variant at one size; gains in percent of the vanilla time, the measured one with its quartiles.

    Measured gains are medians over rounds, each against the same round's vanilla. `basis`: what predicts.
    """

    tokens: int
    variant: str
    measured_ns: float
    measured_gain: tuple[float, float, float]
    predicted_ns: int
    predicted_gain: float
    has_wait_kernel: bool
    basis: str


@dataclass(frozen=True)
class _Measured:
    """One case of the file."""

    rounds_ns: tuple[int, ...]
    has_wait_kernel: bool


def option_rows(folder: Path) -> list[OptionRow]:
    """All rows of the newest results. Raises `RecordingError` if there are none, or a result was wrong, or
    the file is not one of such results.
    """
    path = newest_results(folder)
    result = Fields(read_json(path, MAX_BYTES), str(path))
    found: dict[tuple[int, str], dict[str, _Measured]] = {}
    for index, entry in enumerate(result.get("cases", list)):
        case = Fields(entry, f"{path}: cases[{index}]")
        name, tokens, tile = case.get("name", str), case.get("tokens", int), case.get("tile", str)
        if not Fields(case.get("verdict", dict), f"{case.place}.verdict").get("is_good", bool):
            raise RecordingError(f"{path}: {name} at M={tokens} gave wrong results; measure again")
        found.setdefault((tokens, tile), {})[name] = _measured(case)
    for (tokens, tile), cases in found.items():
        if BASE not in cases or len({len(case.rounds_ns) for case in cases.values()}) != 1:
            raise RecordingError(
                f"{path}: at M={tokens}, tile {shown(tile)}, {BASE!r} is missing or rounds differ in number; "
                "measure again"
            )
    device = result.get("device", str)
    return [
        row
        for (tokens, tile), cases in found.items()
        for row in _rows(tokens, parse_tile(tile), cases, device)
    ]


def _measured(case: Fields) -> _Measured:
    rounds = case.numbers("rounds_ns", int)
    if len(rounds) < FEWEST_ROUNDS:
        raise RecordingError(f"{case.place}: {len(rounds)} rounds_ns; quartiles take {FEWEST_ROUNDS} or more")
    return _Measured(rounds, case.get("has_wait_kernel", bool))


def _rows(tokens: int, tile: tuple[int, int], cases: Mapping[str, _Measured], name: str) -> list[OptionRow]:
    # Simulating needs SimPy, which a machine that only measures may lack.
    from wavesim.predict.defaults import default_costs  # noqa: PLC0415  # noqa: PLC0415
    from wavesim.tuning.option_effects import predict_options  # noqa: PLC0415  # noqa: PLC0415

    pipeline, device = gpt3_mlp(tokens, tile), load(_catalogue_name(name))
    costs, basis = default_costs(pipeline, device)
    effects = predict_options(pipeline, device, costs)
    vanilla = cases[BASE].rounds_ns
    return [
        OptionRow(
            tokens,
            effect.variant,
            median(cases[effect.variant].rounds_ns),
            _gains(vanilla, cases[effect.variant].rounds_ns),
            effect.predicted_ns,
            100 * (1 - effect.predicted_ns / effects[0].predicted_ns),
            cases[effect.variant].has_wait_kernel,
            basis,
        )
        for effect in effects
        if effect.variant in cases
    ]


def _gains(before: Sequence[int], after: Sequence[int]) -> tuple[float, float, float]:
    low, middle, high = quantiles(
        [100 * (1 - new / old) for old, new in zip(before, after, strict=True)], n=4
    )
    return low, middle, high


def _catalogue_name(driver_name: str) -> str:
    known = [name for name in names() if name.lower() in driver_name.lower()]
    if not known:
        raise RecordingError(f"device {shown(driver_name)} is not in the catalogue: {', '.join(names())}")
    return max(known, key=len)


def table(rows: Sequence[OptionRow]) -> str:
    """Plain text; gains over vanilla in percent."""
    head = ("measured us", "gain % (quartiles)", "predicted us", "gain %")
    lines = [f"{'M':>5} {'variant':<8}{head[0]:>12}{head[1]:>26}{head[2]:>14}{head[3]:>8}"]
    for row in rows:
        low, middle, high = row.measured_gain
        gain = f"{middle:+.2f} ({low:+.2f} .. {high:+.2f})"
        lines.append(
            f"{row.tokens:>5} {row.variant:<8}{row.measured_ns / 1e3:>12.1f}{gain:>26}"
            f"{row.predicted_ns / 1e3:>14.1f}{row.predicted_gain:>+8.2f}"
        )
    bases = dict.fromkeys(f"M={row.tokens}: {row.basis}" for row in rows)
    return "\n".join([*lines, *(f"predicted for {basis}" for basis in bases)])
