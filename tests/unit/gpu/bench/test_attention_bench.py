"""The comparison of attention: its shapes have kernels, and what is said of it is what was measured."""

import json
from pathlib import Path
from statistics import median

from wavesim.model.attention import Attention
from wavesim.model.stage import Stage
from wavesim_gpu.bench.kinds.attention import BACKEND, PLANS, RIVAL, STAGE, line_of, shapes
from wavesim_gpu.driver.element_types import TOLERANCE
from wavesim_gpu.kernels.backends import backend_of

ROOT = Path(__file__).parents[4]


def test_every_shape_and_plan_has_a_kernel():
    for work in shapes():
        backend = backend_of(Stage(STAGE, work), BACKEND)
        backend.check(work)
        assert [backend.refusal(plan) for plan in PLANS.values()] == [""] * len(PLANS)


def test_a_line_gives_the_fastest_of_our_plans_by_the_medians():
    work = Attention("attention", 2, 1024, 4, 4, dtype="bf16")
    assert work.flops == 4 * 2 * 4 * 128 * (1024 * 1025 // 2)
    slow = [9000, 9000, 9000]
    times = dict.fromkeys(PLANS, slow) | {
        "longest first": [1000, 5000, 4000],
        "cuDNN": [6000, 3000, 5000],
    }
    cases = [{"name": name, "rounds_ns": rounds} for name, rounds in times.items()]
    line = line_of(work, cases)
    assert line.startswith(
        "2 x 1024 tokens, 4/4 heads of 128, causal: 1.250 x cuDNN; longest first 4.0 us 537 TF"
    )


def test_the_changelog_says_what_the_newest_committed_run_measured():
    result = json.loads(max((ROOT / "gpu" / "results" / "attention").glob("*.json")).read_text())
    times = {}
    for case in result["cases"]:
        assert case["relative_error"] <= TOLERANCE[case["shape"]["dtype"]]
        times.setdefault(json.dumps(case["shape"]), {})[case["name"]] = median(case["rounds_ns"])
    shapes_timed = [json.loads(shape) for shape in times]
    chosen = [shape["head_dim"] == 128 and shape["is_causal"] for shape in shapes_timed]
    ratios = [
        one[RIVAL] / min(one[name] for name in PLANS)
        for one, is_chosen in zip(times.values(), chosen, strict=True)
        if is_chosen
    ]
    said = f"{min(ratios):.2f} to {max(ratios):.2f} times as fast as cuDNN"
    assert said in (ROOT / "CHANGELOG.md").read_text()
