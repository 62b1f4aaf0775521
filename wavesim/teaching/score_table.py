"""The committed scores as a table: how far predictions have been off, set by set, beside simpler ones.

Example: "own-1-block: 36 cases, median 0.5 points, 90 % within 2.5; no gain 3.2, noise 0.2".
"""

from wavesim.predict.score_history import committed_scores
from wavesim.teaching.shown import Shown

TITLES = (
    "set",
    "cases",
    "median error (points)",
    "90 % within (points)",
    'median of "no gain" (points)',
    "median of ceil(waves) (points)",
    "noise (points)",
)


def all_scores() -> Shown:
    """Every set, held-out cases only; all figures but the cases are points."""
    return Shown(
        TITLES,
        tuple(
            (
                name,
                str(score.cases),
                _text(score.median_abs_error_points),
                _text(score.p90_abs_error_points),
                _text(score.no_gain_median_points),
                _text(score.ceil_formula_median_points),
                _text(score.noise_points),
            )
            for name, score in committed_scores().items()
        ),
    )


def _text(points: float | None) -> str:
    return "" if points is None else f"{points:.1f}"
