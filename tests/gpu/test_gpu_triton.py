"""Triton kernels under a plan give the plain kernels' very bits, wait with an acquire, and fail loudly."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.plan.parsing import parse_plan

pytestmark = pytest.mark.gpu
EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
PLANS = ["row", "tile", "pdl+row", "pdl+tile", "streams:no-wait-kernel+row"]


@pytest.fixture(autouse=True)
def torch():
    pytest.importorskip("triton")
    return pytest.importorskip("torch")


def load(name: str, folder: Path, **changes: str):
    """An example as a module of its own, with some of its text replaced."""
    text = (
        (EXAMPLES / f"{name}.py")
        .read_text()
        .replace("M, K, N1, N2 = 1536, 8192, 4096, 6144", "M, K, N1, N2 = 512, 256, 1024, 512")
    )
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / f"{name}_{len(list(folder.iterdir()))}.py"  # Triton reads a kernel's source from its file
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def operands(torch, module):
    generator = torch.Generator("cuda").manual_seed(5)
    shapes = ((module.M, module.K), (module.K, module.N1), (module.N1, module.N2))
    given = [torch.randn(s, device="cuda", generator=generator, dtype=torch.float16) / 16 for s in shapes]
    made = [
        torch.full((module.M, n), torch.nan, device="cuda", dtype=torch.float16)
        for n in (module.N1, module.N2)
    ]
    return (*given, *made)


def synchronised(folder, plan, order="grouped:4", **changes: str):
    changes['parse_plan("pdl+row", "grouped:4")'] = f'parse_plan("{plan}", "{order}")'
    return load("synchronised_triton", folder, **changes)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("order", ["row", "grouped:2", "column"])
def test_every_plan_and_order_gives_the_plain_kernels_bits(torch, tmp_path, plan, order):
    plain, pair = load("plain_triton", tmp_path), synchronised(tmp_path, plan, order)
    wanted = operands(torch, plain)
    plain.run(*wanted)
    for _ in range(3):  # the first run is one kernel after the other
        found = operands(torch, pair)
        pair.run(*found)
        pair.pair.check()
        assert torch.equal(found[-1], wanted[-1])
        assert not found[-1].isnan().any()


def test_the_wait_acquires_in_the_machine_code(torch, tmp_path):
    pair = synchronised(tmp_path, "pdl+row")
    found = operands(torch, pair)
    kernels = []
    launch = pair.down.run
    pair.down.run = lambda *args, **kwargs: kernels.append(launch(*args, **kwargs)) or kernels[-1]
    pair.run(*found)
    sass = kernels[0].asm["sass"]
    # A load of GPU scope that drops the L1's lines: an acquire; a plain volatile load has no CCTL after it.
    assert len(re.findall(r"LDG\.E\.STRONG\.GPU[^\n]*\n[^\n]*CCTL\.IVALL", sass)) >= 2


def test_a_wait_that_nobody_ends_gives_nan_and_names_the_waiter_and_the_next_run_is_right(torch, tmp_path):
    pair = synchronised(tmp_path, "pdl+row")
    module, found = pair.pair, operands(torch, pair)
    pair.run(*found)
    wanted = found[-1].clone()
    module.buffer[0] = 20_000  # looks: some hundredths of a second
    module.run(
        lambda sync, **how: None,
        lambda sync, **how: pair.down[(8,)](
            found[3], found[2], found[4], pair.N2, pair.N1, sync, **pair.TILE, **pair.HOW
        ),
    )
    with pytest.raises(DeadlockError, match=r"down block .* waits for up row\[\d\]: seen 0, awaited 4"):
        module.check()
    assert found[-1].isnan().all()
    module.check()
    pair.run(*found)
    module.check()
    assert torch.equal(found[-1], wanted)


def test_a_launch_that_returns_nothing_is_refused_by_name(torch, tmp_path):
    pair = synchronised(tmp_path, "row")
    source, w1, w2, hidden, out = operands(torch, pair)

    def up(sync):
        return pair.up[(16,)](source, w1, hidden, pair.N1, pair.K, sync, **pair.TILE, **pair.HOW)

    def down(sync):  # the return is forgotten
        pair.down[(8,)](hidden, w2, out, pair.N2, pair.N1, sync, **pair.TILE, **pair.HOW)

    with pytest.raises(DescriptionError, match="the launch of down returned None"):
        pair.pair.run(up, down)
    with pytest.raises(DescriptionError, match="the launch of up returned None"):
        pair.pair.run(lambda sync: None, down)


def test_plans_that_triton_kernels_do_not_run_are_refused(torch, tmp_path):
    from wavesim_gpu.triton import Synchronised

    pair = synchronised(tmp_path, "row")
    with pytest.raises(DescriptionError, match="tile per program"):
        Synchronised(pair.pair.pipeline, parse_plan("persistent:row"))
    with pytest.raises(DescriptionError, match="limit_s"):
        Synchronised(pair.pair.pipeline, parse_plan("row"), limit_s=0)


@pytest.mark.parametrize("plan", ["pdl+row", "row"])
def test_a_captured_run_is_right_at_every_replay_and_may_be_captured_right_after_the_first_run(
    torch, tmp_path, plan
):
    plain, pair = load("plain_triton", tmp_path), synchronised(tmp_path, plan)
    found = operands(torch, pair)
    pair.run(*found)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        pair.run(*found)
    for seed in range(3):
        found[0].copy_(torch.randn_like(found[0]) * (seed + 1))
        wanted = (*found[:3], *(torch.empty_like(made) for made in found[3:]))
        plain.run(*wanted)
        for made in found[3:]:
            made.fill_(torch.nan)
        graph.replay()
        pair.pair.check()
        assert torch.equal(found[-1], wanted[-1])


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")  # nothing was launched into it
def test_a_first_run_inside_a_capture_is_refused_and_torch_goes_on(torch, tmp_path):
    pair = synchronised(tmp_path, "pdl+row")
    found = operands(torch, pair)
    refused = pytest.raises(DescriptionError, match="Run once before the capture")
    with refused, torch.cuda.graph(torch.cuda.CUDAGraph()):
        pair.run(*found)
    pair.run(*found)
    assert not found[-1].isnan().any()


def test_more_programs_than_tiles_write_nothing_outside_and_are_refused(torch, tmp_path):
    pair = synchronised(tmp_path, "pdl+row", **{"N2 // 256),)]": "N2 // 256) + 40,)]"})
    found = operands(torch, pair)
    with pytest.raises(DescriptionError, match=r"stage down has 8 tiles, and its launch 48 programs"):
        pair.run(*found)
    torch.cuda.synchronize()


def test_runs_on_two_streams_in_turn_share_the_buffer_safely(torch, tmp_path):
    pair = synchronised(tmp_path, "pdl+row")
    sets = [operands(torch, pair) for _ in range(2)]
    pair.run(*sets[0])
    wanted = sets[0][-1].clone()
    streams = [torch.cuda.Stream() for _ in sets]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream, own in zip(streams, sets, strict=True):
            with torch.cuda.stream(stream):
                own[-1].fill_(torch.nan)
                pair.run(*own)
    pair.pair.check()
    torch.cuda.synchronize()
    assert all(torch.equal(own[-1], wanted) for own in sets)


def test_a_compiled_program_launches_runs_as_they_are(torch, tmp_path):
    pair = synchronised(tmp_path, "pdl+row")
    found = operands(torch, pair)

    def doubled(x, w1, w2, hidden, out):
        pair.run(2 * x, w1, w2, hidden, out)
        return out + 1

    wanted = doubled(*found).clone()
    found[-1].fill_(torch.nan)
    assert torch.equal(torch.compile(doubled, backend="eager")(*found), wanted)
