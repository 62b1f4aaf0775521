"""Headers for names that mean something in C++, CUDA or the header itself compile and are right."""

import random
import subprocess

import pytest
from generated_cuda import expected_numbers, host_compiler, probe, run_on_host
from hostile_names import HOSTILE, INJECTED, chain, plan_named

from wavesim.codegen.cuda import generate, stage_header
from wavesim.codegen.names import Names
from wavesim.errors import CompileError
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.plan.semaphores import edges_of

H200 = load("h200")
# What a source that includes a header may have defined, or a header of C or CUDA declared, before it.
BEFORE = "#define min(a, b) 0\n#define max(a, b) 0\n#define assert(x)\n#define NULL 0\n#define linux 1\n"


def cases():
    """Every hostile name as a stage, a pipeline, a policy and an order, each time beside others."""
    rng = random.Random(5)
    for number in range(len(HOSTILE)):
        stages = tuple(dict.fromkeys([HOSTILE[number], *rng.sample(HOSTILE, 3)]))[:3]
        pipeline = chain(stages, rng.choice(HOSTILE))
        yield pipeline, plan_named(rng.choice(HOSTILE), rng.choice(HOSTILE)), "constant"
        yield pipeline, SemaphoreSync(TileSync()), "runtime"


def header(case, number: int) -> str:
    return generate(*case[:2], H200, namespace=f"case_{number}", sizes=case[2])


def kernels(case, number: int) -> str:
    """A kernel per stage of a header with constant sizes: it begins, waits for each producer and posts."""
    pipeline, space, names = case[0], f"case_{number}", Names.of(case[0])
    if case[2] == "runtime":
        return ""
    lines = []
    for stage in pipeline.stages:
        at = f"{space}::{names.stage(stage.name)}"
        lines.append(f"__global__ void kernel_{number}_{names.stage(stage.name)}(unsigned* counters) {{")
        lines.append(f"  const {space}::Tile tile = {at}::begin(counters);")
        lines += [
            f"  if (!{space}::{names.edge(edge)}::wait(counters, 0, tile.y)) return;"
            for edge in edges_of(pipeline)
            if edge[1] == stage.name
        ]
        lines.append(f"  {at}::post(counters, tile);\n}}")
    return "\n".join(lines)


def compiled(source: str, folder) -> bytes:
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    from wavesim_gpu.driver import compiler

    try:
        compiler._nvrtc()
    except CompileError as error:
        pytest.skip(str(error))
    path = folder / "generated.cu"
    path.write_text(source, encoding="utf-8")
    return compiler.compile_cubin(path, [], "sm_90a").data


def test_headers_with_hostile_names_compile_for_the_device_and_hold_no_code_of_theirs(tmp_path):
    """Two hundred headers, and kernels that use a tenth of them, in one file."""
    found = list(cases())
    texts = [header(case, i) for i, case in enumerate(found)]
    texts += [kernels(case, i) for i, case in enumerate(found) if i % 20 == 0]
    source = BEFORE + "\n".join(texts).replace("#pragma once", "")
    assert INJECTED in source
    assert b".text.injected\0" not in compiled(source, tmp_path)


def test_headers_with_hostile_names_say_on_every_tile_what_python_says(tmp_path):
    found = list(cases())[::3]
    headers = [header(case, i) for i, case in enumerate(found)]
    probes = [probe(*case[:2], f"case_{i}", sizes=case[2]) for i, case in enumerate(found)]
    for case, numbers in zip(found, run_on_host(tmp_path, [BEFORE, *headers], probes), strict=True):
        assert numbers == list(expected_numbers(*case[:2])), case[0].name


def test_namespaces_of_hostile_pipelines_do_not_meet_what_headers_of_c_declare(tmp_path):
    source = tmp_path / "spaces.cpp"
    texts = [
        generate(chain(("a", "b", "c"), name), plan_named("policy", "order"), H200)
        for name in (
            *HOSTILE[:130],
            "exp",
            "sinf",
            "printf",
            "fork",
            "float4",
            "size_t",
            "cudaMalloc",
            "index",
            "wait",
        )
    ]
    spaces = {}
    for text in texts:
        spaces[text[text.index("namespace ") :].split()[1]] = text
    source.write_text(
        "#include <cmath>\n#include <cstdio>\n#include <unistd.h>\n" + "\n".join(spaces.values()),
        encoding="utf-8",
    )
    command = [host_compiler(), "-std=gnu++20", "-fsyntax-only", "-w", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.parametrize("name", ["int", "Tile", "a\n" + INJECTED, "a\\"])
def test_the_header_of_one_stage_compiles_whatever_its_policy_and_order_are_called(name, tmp_path):
    text = stage_header(chain(("a", name, "c"), name), plan_named(name, name), name).text
    assert b".text.injected\0" not in compiled(text.replace("#pragma once", ""), tmp_path)
