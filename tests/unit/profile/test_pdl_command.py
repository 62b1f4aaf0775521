"""`wavesim pdl`: what is launched dependent, what its code does about it, and what `advise` then promises."""

import itertools
import json
import sqlite3
import time
import tomllib
from pathlib import Path

import pytest
from kineto_traces import kernel, write_trace
from nsight_exports import export

from wavesim.cli.command_line import main
from wavesim.profile.advice import advise
from wavesim.profile.device_half import DeviceHalf, halves_named
from wavesim.profile.pair_verdicts import verdicts_of
from wavesim.profile.profile_file import load_profile

WAIT, GO = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
CODE = """
.visible .entry {name}(.param .u64 p_0, .param .u64 p_1)
{{
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p_0];
    ld.param.u64 %rd2, [p_1];
    {first}
    ld.global.f32 %f1, [%rd1];
    {then}
    st.global.f32 [%rd2], %f1;
    ret;
}}
"""


def binary(folder: Path, **kernels: tuple[str, str]) -> Path:
    path = folder / "kernels.ptx"
    bodies = (CODE.format(name=name, first=first, then=then) for name, (first, then) in kernels.items())
    path.write_text("\n".join([".version 8.5", ".target sm_90a", ".address_size 64", *bodies]))
    return path


def launches(folder: Path, call: str, second_us: float) -> Path:
    """`up` for 50 us, then `down` from `second_us` on; both launched by `call`."""
    events = [
        kernel("up", 10.5, 50, correlation=1),
        kernel("void ns::down<int>(float*)", second_us, 50, correlation=2),
    ]
    host = {"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 1, "tid": 1, "dur": 1}
    calls = [{**host, "ts": 1.5 + number, "args": {"correlation": number}} for number in (1, 2)]
    return write_trace(folder, [*events, *calls])


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict]:
    status = main(["pdl", *map(str, words), "--json"])
    return status, json.loads(capsys.readouterr().out)


CASES = {
    # call, start of the second, code of the second: status, launched dependent, verdict, change
    "wired, and the device half is missing": (
        ("cudaLaunchKernelExC", 58.5, ("", "")),
        (1, True, "1 of 1 sites seen wired, none waits on the device", "never waits"),
    ),
    "wired on both sides": (
        ("cudaLaunchKernelExC", 58.5, (WAIT, GO)),
        (0, True, "1 of 1 sites seen wired, 1 waits on the device", "nothing: it overlaps"),
    ),
    "the code waits for nothing": (
        ("cudaLaunchKernel", 61.5, (WAIT, GO)),
        (0, False, "1 that would wait are launched without the attribute", "its code waits: launch it"),
    ),
    "not launched and not waiting": (
        ("cuLaunchKernel", 61.5, ("", "")),
        (0, False, "none of 1 sites seen wired", "add cudaGridDependencySynchronize(), then"),
    ),
    "an extended launch may be dependent": (
        ("cudaLaunchKernelExC", 61.5, (WAIT, "")),
        (0, None, "of 1 the profile does not say, 1 waits on the device", "check that its launch asks"),
    ),
}


@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=list(CASES))
def test_an_edge_is_told_by_its_launch_and_by_its_code(given, expected, tmp_path, capsys):
    call, second_us, code = given
    trace = launches(tmp_path, call, second_us)
    status, document = said(capsys, trace, binary(tmp_path, up=("", GO), _ZN2ns4downIiEEvPf=code))
    (edge,) = document["edges"]
    assert (status, edge["launched_dependent"]) == expected[:2]
    assert expected[2] in document["verdict"]
    assert expected[3] in edge["change"]
    assert edge["overlap_measured_ns"] == max(0, round(60_500 - second_us * 1_000))
    assert edge["overlap_possible_simulated_ns"] >= 0


def test_positions_are_shares_of_the_code(tmp_path, capsys):
    trace = launches(tmp_path, "cudaLaunchKernelExC", 58.5)
    code = binary(tmp_path, up=("", GO), _ZN2ns4downIiEEvPf=("", WAIT))
    _, document = said(capsys, trace, code)
    producer, consumer = (document["edges"][0][side] for side in ("producer", "consumer"))
    assert producer["code_after_trigger"] == pytest.approx(2 / 6, abs=1e-3)
    assert consumer["code_before_wait"] == pytest.approx(3 / 6, abs=1e-3)
    assert consumer["faults"] == ["load-above-grid-wait"]


@pytest.mark.parametrize(
    ("call", "expected"), [("cudaLaunchKernelExC_v11060", None), ("cudaLaunchKernel_v7000", False)]
)
def test_an_nsight_export_names_its_calls(call, expected, tmp_path, capsys):
    path = export(tmp_path, names=((1, "my_gemm"), (2, "my_gemm2"), (3, call)))
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN nameId DEFAULT 3")
    connection.close()
    _, document = said(capsys, path)
    assert [edge["launched_dependent"] for edge in document["edges"]] == [expected]


def test_advice_does_not_promise_what_programmatic_launch_has_taken(tmp_path):
    apart, overlapping = (
        advise(load_profile(launches(tmp_path, "cudaLaunchKernelExC", start_us))) for start_us in (61.5, 45.5)
    )
    assert overlapping.recoverable_ns == max(0.0, apart.recoverable_ns - 15_000)
    (verdict,) = verdicts_of(overlapping, 1, 10.0)
    assert verdict.points is None
    assert "overlap by 15.0 us each already" in verdict.reason


def test_long_mangled_names_of_many_kernels_are_told_apart_at_once():
    names = [f"_Z{'9' * 3}{'1a' * 1_900}{number}4down" for number in range(3_000)]
    halves = [DeviceHalf(name, True, False) for name in [*names, "_ZN2ns4downIiEEvPf"]]
    began = time.process_time()
    code = halves_named([f"void ns::down<{number}>(float*)" for number in range(3_000)], halves)
    assert {half.count for half in code.values() if half} == {1}
    assert time.process_time() - began < 10


PROFILES = Path(__file__).parents[2] / "data" / "profiles"
LAUNCHES = tomllib.loads((PROFILES / "pdl-launches.toml").read_text())


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_edge_of_a_profile_made_on_a_gpu_is_what_was_launched(name, capsys):
    launched = [launch.partition(", ") for launch in LAUNCHES[name]]
    pairs = itertools.pairwise(launched)
    dependent = {(first, second): bool(how) for (first, _, _), (second, _, how) in pairs}
    main(["pdl", str(PROFILES / f"pdl-{name}-h200.json.gz"), "--simulate", "0", "--json"])
    edges = json.loads(capsys.readouterr().out)["edges"]
    said = {
        tuple(edge[side]["kernel"].partition(" ")[0] for side in ("producer", "consumer")): edge[
            "launched_dependent"
        ]
        for edge in edges
    }
    assert said == {pair: dependent[pair] for pair in said}
    assert len(said) >= 2
    assert any(dependent.values()) == any(said.values())
