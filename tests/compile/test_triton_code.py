"""What Triton's compiler makes of the synchronised kernels for a Hopper GPU; no GPU is needed.

Skipped where Triton or PyTorch is not installed.
"""

import importlib
import re
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="Triton is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")
EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
MODULES = ("plain_triton", "synchronised_triton", "triton_pair", "triton_matmul")
# What the tensor cores and the asynchronous copies wait for, and what starts them.
PIPELINE = re.compile(r"HGMMA|WARPGROUP\.\w+|LDGSTS|LDGDEPBAR|DEPBAR|BAR\.SYNC")
ACQUIRE = re.compile(r"LDG\.E\.STRONG\.GPU[^\n]*\n[^\n]*CCTL\.IVALL")


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def compiled(kernel, constants, **options):
    """The machine code for sm_90, every integer and pointer a multiple of 16 as at these sizes."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    def kind(name):
        return "*i32" if name in {"sync", "semaphores"} else "*fp16" if name.endswith("ptr") else "i32"

    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else kind(name) for name in names}
    aligned = {
        (index,): [["tt.divisibility", 16]] for index, name in enumerate(names) if name not in constants
    }
    source = ASTSource(kernel, signature, constants, aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["sass"]


def code_of(module, stage, **options):
    example = importlib.import_module(module)
    return compiled(getattr(example, stage), example.TILE, **example.HOW, **options)


def main_loop(sass):
    """The instructions of the loop that holds the tensor-core operations."""
    lines = sass.splitlines()
    labels = {line.removesuffix(":"): number for number, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for end, line in enumerate(lines):
        found = re.search(r"\bBRA (\w+);", line)
        start = labels.get(found[1], end) if found else end
        loops += [lines[start:end]] if start < end else []
    with_products = [loop for loop in loops if any("HGMMA" in line for line in loop)]
    return [line for line in min(with_products, key=len) if ";" in line]


@pytest.mark.parametrize("stage", ["up", "down"])
def test_synchronising_leaves_the_loop_over_k_as_it_was(stage):
    plain = main_loop(code_of("plain_triton", stage))
    early = {"launch_pdl": True} if stage == "down" else {}
    synchronised = main_loop(code_of("synchronised_triton", stage, **early))
    assert len(synchronised) == len(plain)
    assert PIPELINE.findall("\n".join(synchronised)) == PIPELINE.findall("\n".join(plain))
    assert sum("HGMMA" in line for line in plain) >= 4


def test_tile_and_wait_called_apart_leave_the_loop_as_it_was_too():
    example = importlib.import_module("triton_matmul")
    tiles = importlib.import_module("synchronised_triton").tiles
    sizes = {"tile_m": 128, "tile_n": 256, "tile_k": 64, "group": 1}

    def loop(tile, wait):
        given = {"tile": tile, "wait": wait, "post": None, **sizes}
        return main_loop(compiled(example.matmul, given, num_warps=8, num_stages=3))

    plain, apart = loop(None, None), loop(tiles.down_tile, tiles.down_wait)
    assert len(apart) == len(plain)
    assert PIPELINE.findall("\n".join(apart)) == PIPELINE.findall("\n".join(plain))


def test_the_second_kernel_acquires_and_the_first_does_not():
    # A load of GPU scope that drops the L1's lines: an acquire.
    assert len(ACQUIRE.findall(code_of("synchronised_triton", "down"))) >= 2
    assert not ACQUIRE.findall(code_of("synchronised_triton", "up"))


def test_the_wait_of_the_recorded_pair_acquires():
    pair = importlib.import_module("triton_pair")
    tile = {"tile_m": 128, "tile_n": 256, "tile_k": 64}
    for is_waiting in (False, True):
        given = {**tile, "is_waiting": is_waiting, "is_posting": False, "recording": None}
        assert bool(ACQUIRE.findall(compiled(pair.matmul, given, num_warps=8, num_stages=3))) == is_waiting
