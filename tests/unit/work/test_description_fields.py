"""What an author may say of kernels: sizes, tiles, waits, plans, a device; contradictions are refused."""

from pathlib import Path

import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.description.reader import Description, load_description
from wavesim.work.description.writer import description_text, write_description
from wavesim.work.gemm import Gemm
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp

GEMM = """
device = "h200"
dependencies = []
[[stages]]
name = "gemm"
m = 1000
n = 6144
k = 12288
tile = [128, 256, 64]
threads = 256
registers = 232
shared_bytes = 98304
"""
CHAIN = """
device = "h200"
[[stages]]
name = "first"
m = 1000
n = 6144
k = 512
tile = [128, 256, 64]
element = "bf16"
activation = "gelu"
split_k = 2
threads = 256
registers = 232
shared_bytes = 98304
kernel_us = 20.125
pipeline_depth = 4
wait = "producer-warp"
persistent = true
carveout = "default"
[[stages]]
name = "left"
grid = [48, 4]
threads = 128
registers = 64
shared_bytes = 0
kernel_us = 10
flops = 19200000
bytes = 384000
[[stages]]
name = "right"
grid = [24, 8]
threads = 128
registers = 64
shared_bytes = 0
kernel_us = 30.5
persistent = false
[[dependencies]]
consumer = "left"
needs = ["first[:, 2 * y : min(2 * y + 2, 8)]"]
[[dependencies]]
consumer = "right"
needs = ["first[x, y]", "left[2 * x, y // 2]", "left[max(x - 1, 0), 3 - y // 2]"]
[plans]
sync = ["row", "pdl+row"]
order = "grouped:4"
"""


def read(folder: Path, text: str) -> Description:
    path = folder / "mine.toml"
    path.write_text(text)
    return load_description(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("grid = [24, 8]", "grid = [-24, 8]", r"mine.toml: stages\[2\]: Grid: x is -24"),
        ('device = "h200"', 'device = "H2OO"', r"mine.toml: field 'device': unknown device 'H2OO'"),
    ],
)
def test_what_a_stage_or_device_cannot_be_is_said_with_its_place(
    tmp_path: Path, old: str, new: str, said: str
):
    assert old in CHAIN
    with pytest.raises(DescriptionError, match=said):
        read(tmp_path, CHAIN.replace(old, new))


def test_a_gemm_follows_from_its_sizes_and_tile(tmp_path: Path):
    (stage,) = read(tmp_path, GEMM).pipeline.stages
    assert isinstance(stage.work, Gemm)
    assert (stage.work.m, stage.work.tile_k, stage.work.dtype, str(stage.grid)) == (
        1000,
        64,
        "fp16",
        "24 x 8",
    )
    assert stage.main_loop.unknown == MainLoop().unknown
    same = read(tmp_path, GEMM + "grid = [24, 8]\n").pipeline.stages[0]
    assert same == stage
    split = read(tmp_path, GEMM + "grid = [24, 8, 2]\n").pipeline.stages[0]
    assert split.gemm.split_k == 2


def test_other_elements_and_unknown_tiles_are_bare_kernels_with_what_is_known_of_them(tmp_path: Path):
    (wide,) = read(tmp_path, GEMM.replace("tile = [128, 256, 64]", "grid = [24, 8]")).pipeline.stages
    assert isinstance(wide.work, Kernel)
    assert wide.kernel.flops_per_block == 2 * 1000 * 6144 * 12288 // 192
    (narrow,) = read(tmp_path, GEMM + 'element = "fp8"\n').pipeline.stages
    assert isinstance(narrow.work, Kernel)
    assert (str(narrow.grid), narrow.kernel.flops_per_block) == ("24 x 8", 0)
    moved = 1000 * 12288 + 12288 * 6144 + 2 * 1000 * 6144
    assert narrow.kernel.bytes_per_block == moved // 192


def test_a_chain_with_a_fork_and_a_join_says_all_that_is_known(tmp_path: Path):
    found = read(tmp_path, CHAIN)
    first, left, right = found.pipeline.stages
    assert first.main_loop == MainLoop(4, "producer-warp", is_persistent=True)
    assert (first.kernel.carveout, first.gemm.activation, str(first.grid)) == (
        "default",
        "gelu",
        "24 x 8 x 2",
    )
    assert right.main_loop == MainLoop(is_persistent=False)
    assert (left.kernel.flops_per_block, left.kernel.bytes_per_block) == (100_000, 2_000)
    assert found.kernel_ns == {"first": 20_125, "left": 10_000, "right": 30_500}
    assert (found.syncs, found.order) == (("row", "pdl+row"), "grouped:4")
    second = found.pipeline.dependency_of("left")
    assert second is not None
    assert second.producer_tiles(0, 3)[-1] == ("first", (23, 7))


def test_what_is_written_is_read_back(tmp_path: Path):
    found = read(tmp_path, CHAIN)
    again = load_description(write_description(tmp_path / "again" / "mine.toml", found))
    assert again == found


@pytest.mark.parametrize("pipeline", [gpt3_mlp(1000), llama_mlp(640)], ids=["gpt3", "llama"])
def test_a_workload_of_ours_is_written_and_read_back(tmp_path: Path, pipeline: Pipeline):
    path = tmp_path / f"{pipeline.name}.toml"
    found = load_description(write_description(path, Description(pipeline, load("h200"))))
    assert found.kernel_ns == {}
    for ours, theirs in zip(pipeline.stages, found.pipeline.stages, strict=True):
        assert theirs.grid == ours.grid
        assert theirs.kernel.block.shared_bytes == ours.kernel.block.shared_bytes  # static and dynamic in one
        assert theirs.kernel.bytes_per_block == ours.kernel.bytes_per_block
    for one, other in zip(pipeline.dependencies, found.pipeline.dependencies, strict=True):
        assert [str(need) for need in one.needs] == [str(need) for need in other.needs]


def test_a_description_names_its_own_device_file_or_has_the_table(tmp_path: Path):
    figures = """
compute_capability = [9, 0]
sm_count = 78
l2_bytes = 30000000
dram_bytes_per_s = 2e12
tensor_flops_per_s = 5e14
clock_hz = 1700000000
power_w = 400
"""
    table = read(
        tmp_path, GEMM.replace('device = "h200"', "").replace("[[stages]]", f"[device]{figures}[[stages]]")
    )
    assert table.device.sm_count == 78
    sources = "".join(f'{line.split(" ")[0]} = "mine"\n' for line in figures.strip().splitlines()[1:])
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "card.toml").write_text(f"{figures}[sources]\n{sources}")
    named = read(tmp_path / "named", GEMM.replace('"h200"', '"card.toml"'))
    assert (named.device.sm_count, named.device_file) == (78, tmp_path / "named" / "card.toml")
    for found in (table, named):
        again = load_description(write_description(tmp_path / "again" / "other.toml", found))
        assert again.device.sm_count == 78


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("k = 12288\n", "", r"stages\[0\].k' is missing; write k = 12288; m, n and k are given together"),
        ("m = 1000", "m = 0", "m is 0"),
        ("m = 1000", 'm = "many"', r"stages\[0\].m' is 'many'; expected an integer"),
        ("tile = [128, 256, 64]", "tile = 128", r"tile' is 128; expected a list"),
        ("tile = [128, 256, 64]", "tile = [128]", r"tile' is \[128\]; expected \[rows, columns\] or"),
        ("tile = [128, 256, 64]", "tile = [128, 256, 1.5]", r"tile' is .*expected \[rows, columns\] or"),
        ("tile = [128, 256, 64]", "tile = [128, 0, 64]", "tile_n is 0"),
        ("tile = [128, 256, 64]", "", "grid' is missing; write grid = .*, or m, n, k and tile"),
        ("tile = [128, 256, 64]", "tile = [128, 256, 64]\ngrid = [48, 8]", "make it 24 x 8; correct one"),
        ("tile = [128, 256, 64]", "tile = [128, 256, 64]\nflops = 1e9", "flops' is .*m, n and k say it"),
        (
            "m = 1000\nn = 6144\nk = 12288\n",
            "grid = [24, 8]\n",
            "tile' is .*it says nothing without m, n and k",
        ),
        ("threads = 256", 'threads = 256\nelement = "float16"', "element' is 'float16'; known are fp16"),
        (
            "threads = 256",
            'threads = 256\nwait = "barrier"',
            "known are producer-warp, .* nearest is block-barr",
        ),
        ("threads = 256", "threads = 256\nwait = 3", "wait' is 3; expected a text"),
        ("threads = 256", "threads = 256\npipeline_depth = 0", "pipeline_depth is 0"),
        (
            "threads = 256",
            'threads = 256\npersistent = "yes"',
            "persistent' is 'yes'; expected true or false",
        ),
        ("threads = 256", "threads = 256\npersistent = 1", "persistent' is 1; expected true or false"),
        ("threads = 256", 'threads = 256\ncarveout = "max"', "carveout' is 'max'; known are full, default"),
        ("threads = 256", "threads = 256\nsplit_k = 2\ngrid = [24, 8, 4]", "grid has 4 splits; correct one"),
        ("threads = 256", "threads = 256\nsplit_k = 10000", "split_k is 10000"),
        ("threads = 256", 'threads = 256\nactivation = "tanh"', "known are gelu"),
        (
            "threads = 256",
            "threads = 256\npipeline_dept = 4",
            "known are name, .* The nearest is pipeline_depth",
        ),
        ('device = "h200"', 'device = "h200"\nplans = 3', "field 'plans' is 3; expected a table"),
        (
            'device = "h200"',
            'device = "h200"\nplans = {sync = "row"}',
            "plans.sync' is 'row'; expected a list",
        ),
        ('device = "h200"', 'device = "h200"\nplans = {sync = [3]}', "expected a list of texts"),
        (
            'device = "h200"',
            'device = "h200"\nplans = {policy = 3}',
            "'plans.policy' is unknown; known are sync",
        ),
        ('device = "h200"', 'device = "no.toml"', "no.toml: cannot be read"),
        ('device = "h200"', "device = {sm_count = 3}", "field 'compute_capability' is None"),
        ('device = "h200"', "device = {compute_capability = [9, 0]}", "field 'sm_count' is missing"),
    ],
)
def test_what_contradicts_itself_or_says_nothing_is_refused(tmp_path: Path, old: str, new: str, message: str):
    assert old in GEMM
    with pytest.raises((RecordingError, DescriptionError), match=message) as caught:
        read(tmp_path, GEMM.replace(old, new))
    assert len(str(caught.value)) < 600


def test_a_device_table_is_found_again_by_the_files_name(tmp_path: Path):
    (tmp_path / "mine").write_text("device = {sm_count = 3}\nstages = []\ndependencies = []\n")
    with pytest.raises(RecordingError, match=r"let this one's name end in \.toml"):
        load_description(tmp_path / "mine")


def test_times_are_of_all_stages_or_of_none(tmp_path: Path):
    with pytest.raises(RecordingError, match=r"stages\[1\].kernel_us' is missing; .*as stage first has one"):
        read(tmp_path, CHAIN.replace("kernel_us = 10\n", ""))


def test_what_a_file_cannot_say_is_refused(tmp_path: Path):
    block = Block(128)
    first, second = Stage("a b", Kernel("a", Grid(4, 4), block)), Stage("c", Kernel("c", Grid(2, 4), block))
    from wavesim.model.dependency import Dependency, x, y

    spaced = Pipeline("p", [first, second], [Dependency(second[x, y], [first[:, y]])])
    with pytest.raises(DescriptionError, match="'a b' cannot be named in a description"):
        description_text(Description(spaced, load("h200")))
    other = Stage("a", first.work)
    stepped = Pipeline("p", [other, second], [Dependency(second[x, y], [other[::2, y]])])
    with pytest.raises(DescriptionError, match="has a step, which a description cannot say"):
        description_text(Description(stepped, load("h200")))


def test_comments_stay_comments(tmp_path: Path):
    text = description_text(Description(gpt3_mlp(256), load("h200")), ["one\ndevice = 3 \x1b"])
    assert text.startswith("# one?device = 3 ?\ndevice = ")
    assert read(tmp_path, text).device.name == "h200"
