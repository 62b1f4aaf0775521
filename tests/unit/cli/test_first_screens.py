"""What each command shows first fits on a screen: at most twelve lines of at most a hundred columns.

What the numbers rest on is behind `--verbose`, and in `--json`.
"""

from pathlib import Path

import pytest
from kineto_traces import REAL

from wavesim.cli.command_line import main

PAIR = str(Path(__file__).parents[3] / "docs" / "pair.toml")
DEVICE_FILE = str(Path(__file__).parents[3] / "wavesim" / "costs" / "devices" / "h200.toml")
LINES, COLUMNS = 12, 100
PTX = """.version 7.8
.target sm_90
.address_size 64
.visible .entry consume(.param .u64 a, .param .u64 b)
{
  .reg .u32 %r<3>; .reg .u64 %rd<3>; .reg .pred %p1;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
L:
  ld.acquire.gpu.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra L;
  ld.global.u32 %r2, [%rd2];
  ret;
}
"""


@pytest.mark.parametrize(
    "words",
    [
        ("predict", PAIR),
        ("compare", PAIR),
        ("simulate", "gpt3-mlp"),
        ("simulate", PAIR, "--sync", "pdl+row"),
        ("simulate", "gpt3-mlp", "--device", DEVICE_FILE),
        ("tune", "toy"),
        ("crossover", "--model", "llama-3-8b", "--m", "1:256"),
        ("advise", "REAL h100", "--verdicts", "0"),
        ("advise", "REAL a100", "--verdicts", "0"),
        ("lint", "PTX"),
        ("challenge", "list"),
        ("demo",),
        ("devices",),
        ("gen", "toy", "--out", "toy.cuh"),
    ],
    ids=" ".join,
)
def test_a_first_screen_has_twelve_lines_of_a_hundred_columns(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("right.ptx").write_text(PTX, encoding="utf-8")
    assert main([_filled(word) for word in words]) in (0, 1)
    shown = capsys.readouterr().out.splitlines()
    assert 0 < len(shown) <= LINES, "\n".join(shown)
    assert max(map(len, shown)) <= COLUMNS, max(shown, key=len)


def _filled(word: str) -> str:
    """A word of a command line with a file in the place of its name."""
    if word.startswith("REAL "):
        return str(REAL[word.removeprefix("REAL ")])
    return "right.ptx" if word == "PTX" else word
