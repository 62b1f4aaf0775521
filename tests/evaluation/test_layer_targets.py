"""The table of what was asked of layers: each figure from recorded results, judged as was said beforehand."""

import pytest

from wavesim.evaluation import layer_targets
from wavesim.evaluation.layer_targets import Target, over_cudnn
from wavesim.evaluation.thresholds import Bound

SPEED, TIME = Bound("", 0.9, 1.0, is_least=True), Bound("", 1.4, 1.2)


def test_the_page_has_the_table_that_its_command_writes_of_the_committed_results():
    page = layer_targets.PAGE.read_text(encoding="utf-8")
    block = layer_targets.block(layer_targets.asked_choices())
    marked = f"<!-- layer targets: begin -->\n{block}\n<!-- layer targets: end -->"
    assert marked in page, "run: python -m wavesim.evaluation.layer_targets"


@pytest.mark.parametrize(
    ("judged", "bound", "row"),
    [
        ("least", SPEED, "(least) | ≥0.9 | 1 | 0.800 | **missed** | 3: 0.80 to 1.25 |"),
        ("most", SPEED, "(most) | ≥0.9 | 1 | 1.250 | aim | 3: 0.80 to 1.25 |"),
        (
            "geometric mean",
            SPEED,
            "(geometric mean) | ≥0.9 | 1 | 1.000 | aim | 3: 0.80 to 1.25 |",
        ),
        ("most", TIME, "(most) | ≤1.4 | 1.2 | 1.250 | must | 3: 0.80 to 1.25 |"),
    ],
)
def test_a_figure_is_judged_by_what_was_said_beforehand(judged, bound, row):
    assert Target("a", judged, bound, [0.8, 1.0, 1.25], "c").row == f"| a {row} c |"


def test_what_nobody_measured_is_said_to_be_so():
    assert "| not measured yet |" in Target("a", "least", SPEED, [], "c").row


def attention(name, ns, **changes):
    shape = {"length": 1024, "head_dim": 128, "is_causal": True, **changes}
    return {"shape": shape, "name": name, "rounds_ns": [ns, ns, 9 * ns]}


def test_attention_is_compared_in_the_shapes_that_were_asked():
    asked = [attention("cuDNN", 200), attention("one plan", 160), attention("another", 170)]
    other = [
        attention(name, ns, **{field: value})
        for field, value in (("length", 512), ("head_dim", 64), ("is_causal", False))
        for name, ns in (("cuDNN", 100), ("one plan", 200))
    ]
    assert over_cudnn({"cases": [*asked, *other]}) == [1.25]
