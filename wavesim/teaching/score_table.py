"""The committed scores as a table: how far predictions have been off, for which kernels, beside simpler ones.

Example: "portable GEMM, one block per SM": 36 cases, median 0.4 points, 90 % within 2.5; no gain 3.2.
"""

from wavesim.predict.score_history import committed_scores
from wavesim.teaching.shown import Shown

# The sets that differ in what a reader can name, of some forty that `wavesim validate` prints.
SETS = {
    "own-1-block": "portable GEMM, one block per SM",
    "own-2-blocks": "portable GEMM, two blocks per SM",
    "own-kernel-times": "portable GEMM, from two kernel times alone",
    "judged-all": "blind run: both GEMMs, all plans with semaphores",
    "hopper-1-block": "of the same run: Hopper GEMM, one block per SM",
    "portable-4-blocks": "of the same run: portable GEMM, four blocks per SM",
    "portable-split-k": "of the same run: portable GEMM, K split",
    "blind-h200-all": "second blind run: chains and model shapes too",
    "foreign-sketch": "throw-away kernels, from two kernel times",
    "published-mlp": "MLPs that cuSync's authors measured",
    "published-resnet": "ResNet's convolutions that they measured",
}
TITLES = (
    "kernels (on an H200; cuSync's on V100 and A100)",
    "cases",
    "median error (points)",
    "90 % within (points)",
    'median of "no gain" (points)',
    "median of ceil(waves) (points)",
    "noise (points)",
    "called",
)


def scores_in_words() -> Shown:
    """The chosen sets, held-out cases only; all figures but the cases are points."""
    found = committed_scores()
    return Shown(
        TITLES,
        tuple(
            (
                words,
                str(found[name].cases),
                _text(found[name].median_abs_error_points),
                _text(found[name].p90_abs_error_points),
                _text(found[name].no_gain_median_points),
                _text(found[name].ceil_formula_median_points),
                _text(found[name].noise_points),
                name,
            )
            for name, words in SETS.items()
        ),
    )


def _text(points: float | None) -> str:
    return "" if points is None else f"{points:.1f}"
