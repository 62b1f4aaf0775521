"""The tests that `make gpu-sanitize` and `make gpu-smoke` name are there."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The ids of the GPU's tests."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gpu", "tests/gpu"]
    plain = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=plain, capture_output=True, text=True, check=True, timeout=120
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_test_that_the_sanitizer_runs_is_there(collected):
    script = (ROOT / "tests" / "gpu" / "sanitize.sh").read_text()
    files = r"(?<!\()\b(attention|hopper|both|prefill|ladder|pixels|rows|heads|layers)=(\S+)"
    names = dict(re.findall(files, script))
    names["edges"] = re.search(r"^edges=\$hopper(\S+)", script, re.MULTILINE)[1]
    names["edges"] = names["hopper"] + names["edges"]
    wanted = re.findall(r'^  \[[\w-]+\]="((?:\$|tests/).+)"$', script, re.MULTILINE)
    listed = script.partition("declare -A tests")[2].partition("\n)")[0]
    assert len(wanted) == listed.count("\n  [") > 30
    functions = {test.split("[", 1)[0] for test in collected}  # all forms of one may run in one process
    files = {test.partition("::")[0] for test in collected}
    for test in wanted:
        whole = re.sub(r"\$(\w+)", lambda match: names[match[1]], test)
        file, _, name = whole.partition("::")
        if file in files:
            assert whole in {*collected, *functions}
        else:  # it needs PyTorch, and nothing of it is collected without
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_kind_of_test_that_the_smoke_run_names_is_there(collected):
    kinds = runpy.run_path(str(ROOT / "tests" / "gpu" / "conftest.py"))["SMOKE"]
    for kind in kinds:
        assert any(test.split("::", 1)[1].startswith(kind) for test in collected), kind
