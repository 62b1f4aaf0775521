"""The commands of docs/in-your-model.md run as they stand, and its reasons are those that are given."""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="pip install torch")

from torch_mlps import GatedMlp, Model  # noqa: E402

from wavesim_gpu.torch import modules  # noqa: E402

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "in-your-model.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)


def test_the_pages_commands_run(capsys):
    names = {"model": Model(GatedMlp(), GatedMlp())}
    swap, undo, own = BLOCKS
    exec(swap, names)  # noqa: S102  # the page's own commands
    assert "2 swapped, 0 kept" in capsys.readouterr().out
    assert isinstance(names["model"].blocks[0], modules.FastForward)
    exec(undo, names)  # noqa: S102  # the page's own commands
    assert type(names["model"].blocks[0]) is GatedMlp
    exec(own, names)  # noqa: S102  # the page's own commands
    assert names["y"].shape == (8, 512)
    with torch.no_grad():
        assert names["mlp"].eval()(names["x"]).dtype == torch.bfloat16


def test_every_reason_on_the_page_is_in_the_code():
    table = PAGE.partition("## What is kept")[2].partition("What changes")[0]
    reasons = re.findall(r"\| `([^`]+)` \|$", table, re.MULTILINE)
    code = "".join(path.read_text("utf-8") for path in (ROOT / "gpu/wavesim_gpu/torch").glob("*.py"))
    assert len(reasons) == 7
    for reason in reasons:
        for part in re.split(r"gate_proj is a Linear4bit|DTensor|float32, |0\.1", reason):
            assert part in code, reason
