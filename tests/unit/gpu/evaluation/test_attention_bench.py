"""The comparison of attention: its shapes have kernels, and a line says how fast ours is beside the rival."""

from wavesim.model.attention import Attention
from wavesim.model.stage import Stage
from wavesim_gpu.evaluation.attention_bench import BACKEND, PLANS, STAGE, line_of, shapes
from wavesim_gpu.kernels.backends import backend_of


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
