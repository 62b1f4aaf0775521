"""What a page shows as the answer of a command is what the command prints."""

import re
import shutil
from pathlib import Path

import pytest

from wavesim.cli.command_line import main

ROOT = Path(__file__).parents[2]
TIME = re.compile(r"\d+\.\d+ s\b")
CASES = [  # the page, the command, and how many of its first lines the page has; None: all
    ("quickstart", "predict pair.toml", None),
    ("the-model", "predict h100.toml", 3),
    ("the-model", "devices", 3),
    ("lint", "lint tests/fuzz/corpus/lint/pair.cubin", None),
    ("synchronise-your-kernel", "gen pair.toml --sync pdl+row --out pair.cuh", None),
    ("why-hang", "why-hang wavesim/safety/hang/cases/mpk-775.toml", None),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the pages' commands are typed: a clone, with the pages' own files in it."""
    for name in ("docs", "gpu", "tests", "wavesim"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "docs" / "pair.toml", tmp_path)
    pair = (tmp_path / "pair.toml").read_text(encoding="utf-8")
    (tmp_path / "h100.toml").write_text(pair.replace('"h200"', '"h100"'))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "command", "count"), CASES, ids=[case[1] for case in CASES])
def test_a_page_shows_what_its_command_prints(folder, capsys, page, command, count):
    if command.startswith("lint"):
        pytest.importorskip("cuda.bindings", reason="pip install '.[nvrtc]'")
    main(command.split())
    text = (folder / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = TIME.sub("T", text).splitlines()
    printed = TIME.sub("T", capsys.readouterr().out).splitlines()[:count]
    assert [line for line in printed if line not in shown] == []
