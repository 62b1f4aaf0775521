"""The ladders compile for every target; v5 has its loads in flight in few registers; a step of a sum has as
many instructions as are simulated."""

import re
import subprocess

import pytest

from wavesim.sm.machine import assumed_figures
from wavesim_gpu.driver.compiler import compile_cubin
from wavesim_gpu.kernels.ladder.steps import CONVOLUTION, MATMUL, REDUCTION

FAMILIES = (REDUCTION, CONVOLUTION, MATMUL)
LINE = re.compile(r"^\s*/\*[0-9a-f]{4}\*/\s+(.*?)\s*;", re.MULTILINE)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_every_family_compiles(arch, nvrtc):
    for steps in FAMILIES:
        cubin = compile_cubin(steps[0].source, (), arch)
        assert all(step.kernel.encode() in cubin.data for step in steps)


@pytest.fixture(scope="module")
def listings(tmp_path_factory):
    """Each sum's machine code for Hopper, by kernel."""
    from wavesim.lint import disassembler

    path = tmp_path_factory.mktemp("ladder") / "reduce.cubin"
    path.write_bytes(compile_cubin(REDUCTION[0].source, (), "sm_90a").data)
    words = [disassembler.nvdisasm(), "-c", path]
    listing = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"^\.text\.(\w+):", listing, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def loop_of(body):
    """Instructions of the first loop: from the first label to the branch back to it."""
    label = re.search(r"^(\.L_x_\d+):", body, re.MULTILINE)
    end = re.search(rf"BRA `\({re.escape(label[1])}\)", body)
    before, inside = body[: label.start()], body[label.start() : end.end() + 2]
    return LINE.findall(before), LINE.findall(inside)


def is_counted(instruction):
    return not re.search(r"\b(LDG|LDS|STS|BAR)\b", instruction)


@pytest.mark.parametrize("name", ["v0", "v1", "v2", "v3", "v4"])
def test_a_step_has_as_many_instructions_as_are_simulated(name, listings, nvdisasm):
    figures = assumed_figures()["reduction"]
    before, loop = loop_of(listings[f"reduce_{name}"])
    # The addition itself is simulated apart.
    assert sum(map(is_counted, loop)) - 1 == figures["step"][name]
    assert sum("LDS" in one for one in loop) == 2
    assert sum(map(is_counted, before)) == pytest.approx(figures["begin"], abs=8)


def test_the_last_step_has_four_wide_loads_in_flight_in_32_registers(listings, nvdisasm):
    body = listings["reduce_v5"]
    code = body[body.index("LDG.E.128") :]
    first = code[: code.index("FADD")]
    assert first.count("LDG.E.128") == 4
    assert not re.search(r"\b(LDL|STL)\b", body)
    assert max(int(found) for found in re.findall(r"\bR(\d+)\b", body)) < 32
    loop = LINE.findall(code[: re.search(r"BRA", code).end() + 40])
    assert sum(map(is_counted, loop)) == pytest.approx(assumed_figures()["reduction"]["round"], abs=6)
