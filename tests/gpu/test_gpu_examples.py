"""A kernel pair that was not written for tile-level synchronisation takes it in 25 lines or fewer."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in ("kernel_pair", "synchronise_page"):
        sys.modules.pop(name, None)


def test_synchronising_the_pair_changes_at_most_25_lines(examples):
    import synchronise_page

    assert 0 < synchronise_page.changed_lines() <= 25


def test_synchronising_the_triton_kernels_changes_at_most_6_lines(examples):
    import synchronise_page

    assert 0 < synchronise_page.changed_lines(synchronise_page.TRITON) <= 6


def test_the_page_shows_the_current_difference(examples):
    import synchronise_page

    assert synchronise_page.PAGE.read_text() == synchronise_page.page(), (
        "run gpu/examples/synchronise_page.py"
    )


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
