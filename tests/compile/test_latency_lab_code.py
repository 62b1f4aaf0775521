"""The latency lab's loop: all loads of a round are issued before the first one is needed, 16 bytes wide."""

import re
import subprocess

import pytest

from wavesim_gpu.bench.labs.latency import LOADS, SOURCE
from wavesim_gpu.driver.compiler import compile_cubin


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_round_has_all_its_loads_in_flight_at_once(arch, tmp_path, nvdisasm):
    cubin = compile_cubin(SOURCE, tuple(f"load_loop<{count}>" for count in LOADS), arch)
    path = tmp_path / "lab.cubin"
    path.write_bytes(cubin.data)
    listing = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=True).stdout
    bodies = re.split(r"^\.text\._Z9load_loopILi(\d+)E\w+:", listing, flags=re.MULTILINE)[1:]
    assert {int(count) for count in bodies[::2]} == set(LOADS)
    for count, body in zip(bodies[::2], bodies[1::2], strict=True):
        code = body[: body.index("EXIT")]
        loads = [match.end() for match in re.finditer(r"LDG\S*", code)]
        assert len(loads) == int(count)
        assert all(".128" in word for word in re.findall(r"LDG\S*", code))
        assert not re.search(r"LOP3|LDG.*128.*LOP3", code[loads[0] : loads[-1]])
