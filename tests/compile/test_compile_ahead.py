"""The kernels of the GPU tests can be compiled where there is no GPU, into a folder that can travel."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = "tests/gpu/test_gpu_mutants.py::test_a_dropped_wait_and_an_early_post_give_wrong_numbers"


def test_what_the_selected_tests_load_is_compiled_into_the_folder(tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS, "--compile-ahead"]
    done = subprocess.run(
        [*command, "--cubin-cache", tmp_path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # Two mutants of two stages each under two policies, and the wait-kernel of each mutant.
    kept = list(tmp_path.glob("*.zip"))
    assert f"{len(kept)} kernels compiled" in done.stdout
    assert "stopped early" not in done.stdout
    assert len(kept) >= 2 * 2
