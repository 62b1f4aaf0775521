"""A kernel pair that was not written for tile-level synchronisation takes it in 25 lines or fewer."""

import difflib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("kernel_pair", None)


def test_synchronising_the_pair_changes_at_most_25_lines():
    plain, changed = ((EXAMPLES / f"{name}_pair.cu").read_text() for name in ("plain", "synchronised"))
    lines = difflib.unified_diff(plain.splitlines(), changed.splitlines(), n=0, lineterm="")
    assert 0 < sum(line.startswith("+") and line[:3] != "+++" for line in lines) <= 25


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["row", "tile"])
def test_plain_and_synchronised_give_the_same_right_answer(runner, cupy, examples, plan):
    import kernel_pair

    from wavesim.plan.parsing import parse_plan

    generator = cupy.random.RandomState(3)
    a = generator.standard_normal((256, 128), dtype="float32")
    b = generator.standard_normal((128, 192), dtype="float32")
    product = (a.astype("float64") @ b.astype("float64")) ** 2
    expected = product / product.sum(axis=1, keepdims=True)
    plain, synchronised = kernel_pair.run_plain(a, b), kernel_pair.run_synchronised(a, b, parse_plan(plan))
    assert float(abs(plain - expected).max()) < 1e-5
    assert bool((plain == synchronised).all())
