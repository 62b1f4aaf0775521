"""The generated CUDA: semaphores, values, orders and needs as in Python; it compiles for every target."""

import random
from functools import cache

import pytest
from generated_cuda import (
    expected_numbers,
    formula_plan,
    probe,
    random_pipeline,
    random_plan,
    resizable_pipeline,
    run_on_host,
)

from wavesim.cli.command_line import main
from wavesim.codegen.cuda import generate, stage_header
from wavesim.codegen.options import (
    AVOID_CUSTOM_ORDER,
    PLAIN_STORE,
    REORDER_LOADS,
    kernel_options,
    without_option,
)
from wavesim.codegen.orders import order_sets
from wavesim.codegen.policies import derive_policies
from wavesim.errors import CompileError, DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import CustomOrder, Grouped
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.plan.semaphores import edges_of
from wavesim.workloads.catalogue import WORKLOADS, workload

H200 = load("h200")
# Other layers of models and other convolutions differ from these in sizes alone.
OF_EACH_KIND = {
    *("llama-3-8b-layer-attention", "qwen2.5-0.5b-decode-layer"),
    *("resnet-34-112", "resnet-34-7", "resnet-50-7", "vgg-19-14", "vgg-19-112"),
    *("resnet-conv-128", "resnet-conv-512", "vgg-conv-256"),
}
ARCHITECTURES = ["sm_80", "sm_90a", "sm_120"]


def workload_cases():
    """Every workload under every policy and every order set that derives, paired off, and stream sync."""
    seen = set()
    for name in WORKLOADS:
        is_of_many = "layer" in name or name.startswith(("resnet", "vgg"))
        if "decode-step" in name or (is_of_many and name not in OF_EACH_KIND):
            continue
        pipeline = workload(name)
        if (key := (pipeline.stages, pipeline.dependencies)) in seen:
            continue  # another name of the same layer
        seen.add(key)
        yield pipeline, StreamSync(Grouped(4))
        edges = edges_of(pipeline)
        derived = {edge: derive_policies(pipeline, edge) for edge in edges}
        orders = list(order_sets(pipeline).values())
        for i in range(max([len(orders), *map(len, derived.values())])):
            policies = {edge: entries[i % len(entries)].policy for edge, entries in derived.items()}
            yield pipeline, SemaphoreSync(RowSync(), policies=policies, orders=orders[i % len(orders)])


def generated(cases, first=0):
    return [generate(*case, H200, namespace=f"case_{i}") for i, case in enumerate(cases, first)]


@cache
def workload_headers():
    """All cases of workloads, and their headers: most of the time goes into judging whether they are safe."""
    cases = list(workload_cases())
    return cases, generated(cases)


def check_on_host(cases, headers, folder):
    probes = [probe(*case, f"case_{i}") for i, case in enumerate(cases)]
    for case, found in zip(cases, run_on_host(folder, headers, probes), strict=True):
        assert found == list(expected_numbers(*case)), f"{case[0].dependencies}, {case[1]}"


def test_generated_code_and_python_agree_on_every_tile_of_every_workload(tmp_path):
    check_on_host(*workload_headers(), tmp_path)


def test_generated_code_and_python_agree_on_a_thousand_random_dependencies(tmp_path):
    rng = random.Random(2024)
    pipelines = [random_pipeline(rng) for _ in range(1_000)]
    cases = [(pipeline, random_plan(rng, pipeline)) for pipeline in pipelines]
    check_on_host(cases, generated(cases), tmp_path)


def test_one_header_with_sizes_at_run_time_agrees_with_python_at_every_size(tmp_path):
    """300 random dependencies, each at four sizes: the same text, and right on every tile of each."""
    rng = random.Random(77)
    headers, probes, expected = [], [], []
    for i in range(300):
        build, plan = resizable_pipeline(rng), formula_plan(rng)
        pipelines = [build(*(rng.randint(1, 8) for _ in range(4))) for _ in range(4)]
        texts = {generate(p, plan, H200, namespace=f"case_{i}", sizes="runtime") for p in pipelines}
        assert len(texts) == 1, f"{pipelines[0].dependencies}, {plan}"
        headers += texts
        probes.append("".join(f"{{ {probe(p, plan, f'case_{i}', sizes='runtime')} }}\n" for p in pipelines))
        expected.append([number for p in pipelines for number in expected_numbers(p, plan)])
    assert run_on_host(tmp_path, headers, probes) == expected


def test_sizes_at_run_time_need_formulas():
    pipeline = workload("gpt3-mlp")
    zigzag = CustomOrder("zigzag", lambda grid: list(grid)[::-1])
    odd = CustomPolicy("odd", lambda tx, ty, grid: (tx + ty) % 2, lambda tx, ty, grid: grid.tiles // 2)
    for plan, words in [
        (SemaphoreSync(order=zigzag), "order zigzag of gemm1 is a table for one grid"),
        (SemaphoreSync(odd), "policy odd is a table for one grid"),
    ]:
        with pytest.raises(DescriptionError, match=words):
            generate(pipeline, plan, H200, sizes="runtime")
    with pytest.raises(DescriptionError, match="it must be 'constant' or 'runtime'"):
        generate(pipeline, SemaphoreSync(), H200, sizes="both")


def test_a_layer_at_every_number_of_tokens_shares_one_header_and_one_stage_header():
    for policy in (RowSync(), TileSync()):
        plan = SemaphoreSync(policy, order=Grouped(8))
        layers = [workload("gpt3-mlp", tokens) for tokens in (256, 1024, 3072)]
        assert len({generate(layer, plan, H200, sizes="runtime") for layer in layers}) == 1
        for stage in ("gemm1", "gemm2"):
            found = [stage_header(layer, plan, stage) for layer in layers]
            assert len({header.text for header in found}) == 1
            assert len({header.sizes for header in found}) == 3


def test_a_stage_header_of_a_table_has_constant_sizes():
    listed = CustomOrder("zigzag", lambda grid: list(grid)[::-1])
    header = stage_header(workload("gpt3-mlp"), SemaphoreSync(order=listed), "gemm2")
    assert header.is_constant
    assert "static constexpr int columns = 48" in header.text
    assert "tile_of_place[" in header.text


def test_the_command_writes_one_header_for_every_size(tmp_path):
    texts = []
    for tokens in ("512", "2048"):
        out = tmp_path / f"{tokens}.cuh"
        arguments = ["gen", "gpt3-mlp", "--tokens", tokens, "--order", "grouped:4", "--runtime-sizes"]
        assert main([*arguments, "--out", str(out)]) == 0
        texts.append(out.read_text())
    assert texts[0] == texts[1]
    assert "run_with(" in texts[0]


def test_options_that_are_switched_off_are_off_in_the_header():
    pipeline, plan = workload("gpt3-mlp"), SemaphoreSync(TileSync())
    options = kernel_options(pipeline, plan)
    assert "reorders_loads = true" in stage_header(pipeline, plan, "gemm2").text
    without = without_option(options, REORDER_LOADS)
    assert "reorders_loads = true" not in stage_header(pipeline, plan, "gemm2", without).text
    assert stage_header(pipeline, plan, "gemm1").text.count("draws_position = false") == 1
    without = without_option(options, AVOID_CUSTOM_ORDER)
    assert stage_header(pipeline, plan, "gemm1", without).text.count("draws_position = true") == 1
    without = without_option(options, PLAIN_STORE)
    assert "store_release(counters + to_" in stage_header(pipeline, plan, "gemm1").text
    assert "store_release(counters + to_" not in stage_header(pipeline, plan, "gemm1", without).text


@pytest.fixture(scope="module")
def device_sources():
    """All headers, which the compiler parses and checks, with machine code of some; and these alone.

    No header has a line for one architecture only: all are parsed for one of them.
    """
    rng = random.Random(7)
    pipelines = [random_pipeline(rng) for _ in range(20)]
    known, headers = workload_headers()
    drawn = [(pipeline, random_plan(rng, pipeline)) for pipeline in pipelines]
    cases, headers = [*known, *drawn], [*headers, *generated(drawn, len(known))]
    for i, policy in enumerate((RowSync(), TileSync())):
        plan = SemaphoreSync(policy, order=Grouped(8))
        headers.append(generate(workload("gpt3-mlp"), plan, H200, namespace=f"any_{i}", sizes="runtime"))
    some = range(0, len(cases), 24)
    kernels = [device_kernel(*cases[i], f"case_{i}") for i in some]
    assert "__CUDA_ARCH__" not in "".join(headers)
    return [
        "\n".join([*texts, *kernels]).replace("#pragma once", "")
        for texts in (headers, [headers[i] for i in some])
    ]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_generated_headers_compile_with_nvrtc_for(arch, device_sources, tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    from wavesim_gpu.driver import compiler

    try:
        compiler._nvrtc()
    except CompileError as error:
        pytest.skip(str(error))
    path = tmp_path / "generated.cu"
    path.write_text(device_sources[arch != "sm_90a"])
    assert compiler.compile_cubin(path, [], arch).data[:4] == b"\x7fELF"


def device_kernel(pipeline, plan, space):
    """A kernel per stage that begins, waits for all it may wait for, and posts."""
    lines = []
    for stage in pipeline.stages:
        lines.append(f'extern "C" __global__ void {space}_{stage.name}(unsigned* counters) {{')
        lines.append(f"  {space}::Tile tile = {space}::{stage.name}::begin(counters);")
        if plan.sync.has_semaphores:
            for producer, consumer in edges_of(pipeline):
                if consumer == stage.name:
                    lines.append(f"  {space}::{producer}_to_{consumer}::wait(counters, 0, tile.y);")
        lines.append(f"  {space}::{stage.name}::post(counters, tile);\n}}")
    return "\n".join(lines)


def test_the_header_says_which_lines_to_add_and_includes_nothing():
    text = generate(workload("gpt3-mlp"), SemaphoreSync(RowSync(), order=Grouped(4)), H200)
    assert "#include" not in text
    for line in (
        "const gpt3_mlp::Tile tile = gpt3_mlp::gemm1::begin(counters);",
        "if (!gpt3_mlp::gemm1_to_gemm2::wait(counters, column, row)) return;",
        "gpt3_mlp::gemm1::post(counters, tile);",
        "wait_for_start<<<1, 32, 0, gemm2_stream>>>(counters, gpt3_mlp::gemm1::started);",
    ):
        assert line in text
    assert text.index("load the chunk of B") < text.index("gemm1_to_gemm2::wait(")


def test_known_maps_become_formulas_and_others_tables():
    pipeline = workload("gpt3-mlp")
    formulas = generate(pipeline, SemaphoreSync(TileSync(), order=Grouped(4)), H200)
    assert "_of_tile[" not in formulas
    assert "_of_place[" not in formulas
    assert "return x + y * columns;" in formulas
    listed = CustomOrder(
        "zigzag", lambda grid: sorted(grid, key=lambda t: (t[1], t[0] if t[1] % 2 else -t[0]))
    )
    odd = CustomPolicy("odd", lambda tx, ty, grid: (tx + ty) % 2, lambda tx, ty, grid: grid.tiles // 2)
    tables = generate(pipeline, SemaphoreSync(odd, order=listed), H200)
    assert "semaphore_of_tile[192]" in tables
    assert "tile_of_place[192]" in tables


def test_a_semaphore_with_one_poster_is_stored_and_others_are_added_to():
    pipeline = workload("gpt3-mlp")
    assert "store_release(counters + gemm1_to_gemm2" in generate(pipeline, SemaphoreSync(TileSync()), H200)
    assert "add_release(counters + gemm1_to_gemm2" in generate(pipeline, SemaphoreSync(RowSync()), H200)


def test_two_consumers_under_one_policy_share_semaphores_and_under_two_do_not():
    block, grid = Block(256, 64), Grid(4, 3)
    a, b, c = (Stage(name, Kernel(name, grid, block)) for name in "abc")
    fork = Pipeline("fork", [a, b, c], [Dependency(b[x, y], [a[:, y]]), Dependency(c[x, y], [a[x, y]])])
    shared = generate(fork, SemaphoreSync(RowSync()), H200)
    assert "struct a_to_c : a_to_b {" in shared
    assert "semaphore_count = 3," in shared
    own = generate(fork, SemaphoreSync(RowSync(), policies={("a", "c"): TileSync()}), H200)
    assert "semaphore_count = 15," in own
    assert own.count("_release(counters + a_to_") == 2


def failing(*_):
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (SemaphoreSync(order=CustomOrder("bad", failing)), "order bad failed on the grid"),
        (
            SemaphoreSync(order=CustomOrder("short", lambda grid: [(0, 0)])),
            "is missing. List every tile once",
        ),
        (SemaphoreSync(CustomPolicy("bad", failing, failing)), "policy bad failed on tile"),
        (SemaphoreSync(CustomPolicy("text", lambda *_: "0", lambda *_: 1)), "it must be an integer"),
        (SemaphoreSync(CustomPolicy("early", lambda *_: 0, lambda *_: 1)), "before it is written"),
        (SemaphoreSync(orders={"gemm9": Grouped(4)}), "orders stage 'gemm9'"),
    ],
)
def test_orders_and_policies_that_raise_or_return_nonsense_are_refused(plan, words):
    with pytest.raises(DescriptionError, match=words):
        generate(workload("gpt3-mlp"), plan, H200)


def test_names_that_are_one_in_cpp_are_numbered():
    block, grid = Block(256, 64), Grid(2, 2)
    a, b = (Stage(name, Kernel(name, grid, block)) for name in ("up-1", "up.1"))
    text = generate(Pipeline("pair", [a, b], [Dependency(b[x, y], [a[x, y]])]), SemaphoreSync(), H200)
    assert "struct up_1 {" in text
    assert "struct up_1_2 {" in text
