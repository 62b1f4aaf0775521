"""CUTLASS's GEMMs under row semaphores give the plain ones' bits; waits that nobody ends give NaN.

Needs the library that `python gpu/examples/cutlass_pair.py build` writes: its path in WAVESIM_CUTLASS_PAIR.
"""

import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
LIBRARY = os.environ.get("WAVESIM_CUTLASS_PAIR", "")
SIZES = [(1536, 2048, 4096, 6144), (1000, 512, 1288, 776), (128, 128, 256, 256)]


@pytest.fixture
def pair_of(monkeypatch):
    torch = pytest.importorskip("torch")
    if not LIBRARY:
        pytest.skip("WAVESIM_CUTLASS_PAIR names no library; build it with gpu/examples/cutlass_pair.py")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import cutlass_pair

    def pair(m, k, n1, n2):
        generator = torch.Generator("cuda").manual_seed(m)
        shapes = ((m, k), (k, n1), (n1, n2))
        given = [
            torch.randn(s, device="cuda", generator=generator, dtype=torch.float16) * s[0] ** -0.5
            for s in shapes
        ]
        made = [torch.full((m, n), torch.nan, device="cuda", dtype=torch.float16) for n in (n1, n2)]
        return cutlass_pair.CutlassPair(Path(LIBRARY), (*given, *made))

    yield pair
    sys.modules.pop("cutlass_pair", None)


@pytest.mark.parametrize("sizes", SIZES)
def test_row_semaphores_give_the_plain_pairs_bits_time_after_time(pair_of, sizes):
    import torch

    pair = pair_of(*sizes)
    x, w1, w2, hidden, y = pair.operands
    pair.run_plain()
    wanted = (x.float() @ w1.float()).half().float() @ w2.float()
    assert float((y.float() - wanted).norm() / wanted.norm()) < 2e-3
    bits = y.clone()
    for _ in range(50):
        hidden.fill_(torch.nan)
        y.fill_(torch.nan)
        pair.run_synchronised()
        assert torch.equal(y, bits)
    assert not int(pair.sync[0])


def test_a_wait_that_nobody_ends_gives_nan_and_a_report_and_the_next_run_is_right(pair_of):
    import torch

    pair = pair_of(*SIZES[0])
    pair.run_synchronised()
    bits = pair.operands[-1].clone()
    pair.run_synchronised(50_000_000, leave_out_first=True)
    gave_up, column, row, seen, awaited = pair.sync[:5].tolist()
    assert gave_up == 1
    assert (seen, awaited) == (0, 16)
    assert 0 <= column < 24
    assert 0 <= row < 12
    assert pair.operands[-1].isnan().all()
    pair.run_synchronised()
    assert torch.equal(pair.operands[-1], bits)
