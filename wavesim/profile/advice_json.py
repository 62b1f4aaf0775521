"""The advice as `wavesim advise --json` prints it: every estimate with its interval and what it rests on.

Example: a pair saves 2.1 points of its time, -2.0 to 6.2, never scored: estimated from launches and grids,
and nobody said whether the consumer reads the producer.
"""

from collections.abc import Sequence

from wavesim.predict.forecast import Forecast
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.wave_model import DEFAULT_SHARED_SPEED

KIND = "two launches of a profile"
NOT_SAID = "whether the consumer reads the producer: not said, and the interval reaches down to a loss"


def advice_document(advice: Advice) -> dict[str, object]:
    """One object; times in nanoseconds over the whole profile, points of the profiled or of a pair's time."""
    return {
        "device": advice.profile.device_name,
        "kernels": advice.profile.kernel_count,
        "compute_ns": advice.compute_ns,
        "tail_loss_ns": advice.tail_loss_ns,
        "launch_gap_ns": advice.launch_gap_ns,
        "blind_share": advice.blind_share,
        **total_forecast(advice).as_json(),
        "pairs": [_pair_json(advice, pair) for pair in advice.visible_pairs],
    }


def _pair_json(advice: Advice, pair: Pair) -> dict[str, object]:
    return {
        "producer": pair.producer.shape.name,
        "consumer": pair.consumer.shape.name,
        "count": pair.count,
        "recoverable_ns": round(pair.saving.likely_ns),
        "low_ns": round(pair.saving.low_ns),
        "high_ns": round(pair.saving.high_ns),
        **pair_forecast(advice, pair).as_json(),
    }


def pair_forecast(advice: Advice, pair: Pair) -> Forecast:
    """What tile sync saves of a pair's time, in points of it, with all that has to stand beside it."""
    both_ns = pair.count * (pair.producer.mean_ns + pair.consumer.mean_ns)
    points = [
        _points(time, both_ns) for time in (pair.saving.likely_ns, pair.saving.low_ns, pair.saving.high_ns)
    ]
    said = () if pair.is_dependent is not None else (NOT_SAID,)
    if advice.is_refuted(pair):
        said = (*said, "simulated, no plan gains over stream sync")
    return _forecast(advice, points, (*said, *_defaults(pair)))


def total_forecast(advice: Advice) -> Forecast:
    """The same of all pairs together, in points of the profiled time; pairs that were refuted add nothing."""
    counted = [pair for pair in advice.pairs if not advice.is_refuted(pair)]
    low, high = (sum(getattr(pair.saving, name) for pair in counted) for name in ("low_ns", "high_ns"))
    span = advice.profile.span_ns
    points = [_points(time, span) for time in (advice.recoverable_ns, low, high)]
    return _forecast(
        advice, points, tuple(dict.fromkeys(word for pair in counted for word in _defaults(pair)))
    )


def _points(time_ns: float, of_ns: float) -> float:
    return round(100.0 * time_ns / max(1.0, of_ns), 3)


def _defaults(pair: Pair) -> tuple[str, ...]:
    is_alone = all(
        kernel.waves is None or kernel.waves.blocks_per_sm == 1 for kernel in (pair.producer, pair.consumer)
    )
    return (
        ()
        if is_alone
        else (f"two blocks of an SM at {DEFAULT_SHARED_SPEED} of the speed of one each, a guess",)
    )


def _forecast(advice: Advice, points: Sequence[float], defaults: tuple[str, ...]) -> Forecast:
    likely, low, high = points
    return Forecast(
        likely,
        low,
        high,
        kind=KIND,
        basis=f"launches, grids and resources of {advice.profile.source}; estimated, not simulated",
        defaults=defaults,
        history="the margin covers nine of ten of wavesim's recorded pairs of GEMMs on an H200",
    )
