"""The whole example for nvcc builds under both plans; lint calls nothing wrong, wide loads stay wide."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.lint.disassembler import disassembly

EXAMPLE = Path(__file__).parents[2] / "gpu" / "examples" / "whole_pair.cu"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize(("sync", "macros"), [("pdl+row", ["-DPDL"]), ("row", [])])
def test_the_example_for_nvcc_builds_and_its_synchronisation_is_in_order(sync, macros, tmp_path, capsys):
    header, cubin = tmp_path / "sync.cuh", tmp_path / "pair.cubin"
    assert main(["gen", str(EXAMPLE.with_suffix(".toml")), "--sync", sync, "--out", str(header)]) == 0
    flags = ["-std=c++17", "-O3", "-arch=sm_90", f"-I{tmp_path}", *macros]
    for output in (["-o", tmp_path / "pair"], ["-cubin", "-o", cubin]):
        command = ["nvcc", *flags, EXAMPLE, *output]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    capsys.readouterr()
    assert main(["lint", str(cubin), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    judged = {finding["verdict"] for finding in findings if finding["kernel"].find("waiting") > 0}
    assert judged == {"right"}
    assert "unbounded-spin" not in {
        finding["rule"] for finding in findings
    }  # the header's waits end after 30 s
    wide = wide_loads(disassembly(cubin.read_bytes(), str(cubin)))
    assert wide["matmul_posting"] == wide["matmul"] > 0


def wide_loads(text):
    """128-bit loads of shared memory by kernel; a word of the header could move arrays off 16 bytes."""
    kernels = re.split(r"(?m)^\.text\._Z\d+(\w+?)P", text)[1:]
    return {name: code.count("LDS.128") for name, code in zip(kernels[::2], kernels[1::2], strict=True)}
