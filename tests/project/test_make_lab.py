"""`make lab` for whoever is root, as in any container: a sentence at once, and a way that works.

Example: the first line of a container's reader is `make lab`; two minutes of installing that end in
Jupyter's refusal would be the last.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lab(tmp_path):
    """Runs `make lab` as the user of that number, in a folder whose Python writes down what it is asked."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "bin").mkdir()

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    def run(user, *words, is_set_up=True):
        write("bin/id", f"echo {user}")
        write("python", f'echo python "$@" >> {tmp_path}/asked; exit 1')
        if is_set_up:
            write(".venv/bin/python", f'echo "$@" >> {tmp_path}/asked')
            words = ("--assume-old=.venv/.has-all", *words)
            (tmp_path / ".venv" / ".has-all").touch()
        made = subprocess.run(
            ["make", "lab", f"PYTHON={tmp_path}/python", *words],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        asked = tmp_path / "asked"
        return made, asked.read_text(encoding="utf-8") if asked.exists() else ""

    return run


def test_root_is_told_what_to_write_before_anything_is_installed(lab):
    made, asked = lab(0, is_set_up=False)
    assert made.returncode != 0
    assert made.stderr.startswith("as root, as in a container: make lab LAB_ARGS=--allow-root\n")
    assert asked == ""


def test_what_root_is_told_opens_the_first_notebook(lab):
    made, asked = lab(0, "LAB_ARGS=--allow-root")
    assert made.returncode == 0, made.stderr
    assert asked.split() == [
        *("-m", "jupyterlab", "--ServerApp.root_dir=.", "--allow-root"),
        "notebooks/01_start_here.ipynb",
    ]


def test_anybody_else_needs_no_word_more(lab):
    made, asked = lab(1000)
    assert made.returncode == 0, made.stderr
    assert asked.startswith("-m jupyterlab")
    assert "--allow-root" not in asked
