"""`from wavesim import Stage` is the real class, for type checkers as at run time."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wavesim
import wavesim.widgets

ROOT = Path(__file__).parents[2]
RIGHT = """
from wavesim import Dependency, Device, Gemm, Pipeline, RowSync, SemaphoreSync, Stage, Trace
from wavesim import default_costs, device, gemm_rows, metrics_of, simulate, x, y

first = Stage("gemm1", Gemm("gemm1", m=1024, n=6144, k=12288, tile_m=128, tile_n=256))
second = Stage("gemm2", Gemm("gemm2", m=1024, n=12288, k=6144, tile_m=128, tile_n=256))
mlp = Pipeline("mlp", [first, second], [Dependency(second[x, y], needs=[first[:, y]])])
same: Dependency = gemm_rows(first, second)
h200: Device = device("h200")
costs, basis = default_costs(mlp, h200)
trace: Trace = simulate(mlp, SemaphoreSync(RowSync()), h200, costs)
words: str = basis
waves: float | None = metrics_of(trace).waves
"""
WRONG = {
    "Stage(1, 2, 3, oops=4)": "call-arg",
    "simulate(1)": "call-arg",
    "device(3)": "arg-type",
    "device('h200').sms": "attr-defined",
    "simulate(mlp, SemaphoreSync(RowSync()), 'h200', costs)": "arg-type",
    "count: int = trace": "assignment",
}


def static_names(package) -> dict[str, str]:
    """What a package's `__init__` imports for type checkers: name to module."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, "only `import A as A` is a public name of a typed package"
            found[alias.name] = str(node.module)
    return found


def test_type_checkers_see_the_names_that_are_served_at_run_time():
    assert static_names(wavesim) == wavesim._HOME
    assert set(wavesim.__all__) == {*static_names(wavesim), "device"}
    assert static_names(wavesim.widgets) == wavesim.widgets._HOME


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """What `mypy --strict` says in a user's project, per line of a script, one run for all."""
    folder = tmp_path_factory.mktemp("project")
    script = folder / "script.py"
    script.write_text(RIGHT + "".join(f"{line}\n" for line in WRONG), encoding="utf-8")
    done = subprocess.run(
        # "silent": of the package, as if it were installed, only the types are read.
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "script.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    return [(int(line.split(":")[1]), line) for line in errors]


def test_a_users_right_calls_pass_strict_type_checks(checked):
    assert [text for line, text in checked if line <= RIGHT.count("\n")] == []


@pytest.mark.parametrize(("call", "kind"), WRONG.items())
def test_a_users_wrong_call_fails_strict_type_checks(checked, call, kind):
    number = RIGHT.count("\n") + 1 + list(WRONG).index(call)
    assert any(text.endswith(f"[{kind}]") for line, text in checked if line == number), checked


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("ipywidgets", "from wavesim.widgets import WhatIf"),
        ("ipywidgets", "from wavesim import WhatIf"),
        ("ipywidgets", "import wavesim.teaching"),
        ("plotly", "from wavesim import timeline"),
    ],
)
def test_what_needs_the_extra_for_notebooks_says_how_to_install_it(missing, line):
    code = f"import sys; sys.modules[{missing!r}] = None\n{line}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.endswith(f"{missing}, which is not installed: pip install {missing}, or 'wavesim-cuda[lab]'")
