"""The project without its evaluation room: what users do works, and `validate` says what it lacks."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSING = (
    "wavesim: wavesim.bench is not installed; this command scores the simulator and needs it: "
    "install the whole package\n"
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
USES = """
from wavesim import RowSync, SemaphoreSync, StreamSync, compare, device, gpt3_mlp, simulate, tune
from wavesim.widgets import WhatIf

pipeline, h200 = gpt3_mlp(512), device("h200")
assert simulate(pipeline, StreamSync(), h200).makespan_ns
table = compare(pipeline, [SemaphoreSync(RowSync())], h200, None)
assert "90 % within" in "".join(table.notes)  # the committed scores
assert tune(pipeline, h200, plans=[StreamSync(), SemaphoreSync(RowSync())]).best
WhatIf()
"""


# An editable install finds the checkout's own modules where the copy has none, so that its finder has to go.
NO_CHECKOUT = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "__module__", "").startswith("__editable__")]
"""


def ignored(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("bench", "__pycache__")]


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages but for their evaluation rooms."""
    folder = tmp_path_factory.mktemp("without")
    shutil.copytree(ROOT / "wavesim", folder / "wavesim", ignore=ignored)
    shutil.copytree(ROOT / "gpu" / "wavesim_gpu", folder / "wavesim_gpu", ignore=ignored)
    assert not list(folder.rglob("bench"))
    (folder / "sitecustomize.py").write_text(NO_CHECKOUT)
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def imports_of(path: Path) -> list[str]:
    """The import statements of a notebook's cells, each as one line."""
    cells = json.loads(path.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    trees = [ast.parse("\n".join(s for s in text.split("\n") if s[:1] not in "%!")) for text in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def test_simulate_compare_tune_and_widgets_work(without: Path):
    done = python(without, "-c", USES)
    assert done.returncode == 0, done.stderr


def test_all_that_notebooks_import_is_there(without: Path):
    lines = dict.fromkeys(line for path in NOTEBOOKS for line in imports_of(path) if "wavesim" in line)
    assert len(lines) > len(NOTEBOOKS)
    done = python(without, "-c", "\n".join(lines))
    assert done.returncode == 0, done.stderr


def test_every_remaining_module_of_both_packages_is_imported(without: Path):
    names = [
        ".".join(path.relative_to(without).with_suffix("").parts).removesuffix(".__init__")
        for package in ("wavesim", "wavesim_gpu")
        for path in (without / package).rglob("*.py")
        if path.stem not in ("__main__", "triton", "triton_recorder")  # these two need Triton, which may be
        and path.parent.name != "torch"  # missing, and these need PyTorch, which may be missing too
        and not path.stem.startswith("torch_")
    ]
    done = python(without, "-c", "\n".join(f"import {name}" for name in sorted(names)))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "toy", "--sync", "row"],
        ["predict", str(ROOT / "docs" / "pair.toml")],
        ["advise", "--verdicts", "1", "--seconds", "0", "EXAMPLE"],
        ["gen", "gpt3-mlp"],
    ],
    ids=lambda command: command[0],
)
def test_commands_work(without: Path, command: list[str]):
    if command[-1] == "EXAMPLE":
        command = [*command[:-1], str(next((without / "wavesim" / "recordings" / "profiles").glob("*.gz")))]
    done = python(without, "-m", "wavesim", *command, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("command", ["validate", "bench", "results"])
def test_commands_that_evaluate_say_in_one_line_that_they_cannot(without: Path, command: str):
    done = python(without, "-m", "wavesim", command, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == MISSING


def test_a_benchmark_without_its_room_says_so_in_one_line(without: Path):
    done = python(without, "-m", "wavesim_gpu", "report", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "wavesim_gpu.bench is not installed; this command measures and needs it\n"
