"""Places of semaphores in machine code: a release of cluster scope is the fence of one of GPU scope."""

import re
import subprocess

import pytest

from wavesim_gpu.bench.labs.waiting_places import LOOKS, POSTED, SOURCE, WAYS
from wavesim_gpu.driver.compiler import compile_cubin

INSTANCES = {"cluster_ping_pong": WAYS, "look_again": LOOKS, "tile_posts": POSTED}
NAMES = tuple(f"{name}<{number}>" for name, words in INSTANCES.items() for number in range(len(words)))
FENCE = "MEMBAR.ALL.GPU"


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """Instructions by kernel, such as ("tile_posts", "remote"), without addresses."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    disassembler = pytest.importorskip("wavesim.lint.disassembler")
    path = tmp_path_factory.mktemp("places") / "places.cubin"
    path.write_bytes(compile_cubin(SOURCE, NAMES, "sm_90a").data)
    words = [disassembler.nvdisasm(), "-c", path]
    listing = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = {}
    parts = re.split(r"^\.text\._Z\d+([a-z_]+?)ILi(\d+)E\w+:", listing, flags=re.MULTILINE)[1:]
    for name, number, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found[name, INSTANCES[name][int(number)]] = re.findall(r"/\*[0-9a-f]{4}\*/\s+([^;]+);", body)
    return found


def after_stores(instructions):
    """What stands between a tile's last store and the work behind it: the post."""
    work = next(at for at, text in enumerate(instructions) if "FFMA" in text)
    last = max(at for at in range(work) if "STG.E.128" in instructions[at])
    return instructions[last:work]


@pytest.mark.parametrize(
    ("posted", "is_fenced", "by"),
    [
        ("nothing", False, None),
        ("global", True, "REDG.E.ADD.STRONG.GPU"),
        ("remote", True, "SYNCS.ARRIVE"),
        ("remote, unordered", False, "SYNCS.ARRIVE"),
    ],
)
def test_a_post_waits_for_the_tiles_stores_wherever_the_semaphore_is(code, posted, is_fenced, by):
    found = after_stores(code["tile_posts", posted])
    assert any(FENCE in text for text in found) == is_fenced
    assert by is None or any(by in text for text in found)


def test_a_look_at_the_own_block_is_a_load_from_shared_memory_and_one_at_another_is_not(code):
    looked = {name: " ".join(code["look_again", name]) for name in LOOKS}
    assert re.search(r"\bLDS\b", looked["own"])
    assert not re.search(r"\bLDS\b|\bLDG\b", looked["remote"])
    assert re.search(r"\bLD\.E\.STRONG\.GPU\b", looked["remote"])
    assert re.search(r"\bLDG\.E\.STRONG\.GPU\b", looked["global"])


@pytest.mark.parametrize(
    ("way", "post", "wait"),
    [
        ("global flag", "REDG.E.ADD", "LDG.E.STRONG"),
        ("remote store", "ST.E.STRONG", "LDS"),
        ("remote look", "ST.E.STRONG", "LD.E.STRONG"),
        ("remote add", "ATOM.E.ADD", "LDS"),
        ("remote arrive", "SYNCS.ARRIVE", "SYNCS.PHASECHK"),
        ("async store", "STAS", "SYNCS.PHASECHK"),
        ("cluster barrier", "UCGABAR_ARV", "UCGABAR_WAIT"),
    ],
)
def test_each_way_posts_and_waits_by_its_own_instructions(code, way, post, wait):
    found = " ".join(code["cluster_ping_pong", way])
    assert post in found
    assert wait in found


def test_the_kernels_compile_for_the_next_architecture_too(nvrtc):
    assert b"served_ping_pong" in compile_cubin(SOURCE, ("look_again<2>",), "sm_100").data
