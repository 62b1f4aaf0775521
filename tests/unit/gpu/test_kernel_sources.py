"""The hash of kernel sources: what a kernel does changes it, how it is written does not."""

import pytest

from wavesim_gpu.bench.timed_sources import timed_hash
from wavesim_gpu.driver import kernel_sources
from wavesim_gpu.driver.kernel_sources import ROOT, source_hash

KERNEL = """// One tile.
#include <b.cuh>
#include <generated.cuh>
__global__ void scale(float* out, const float* in, int count) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;  // of this thread
    if (place < count) out[place] = twice(in[place]);
}
"""
HEADER = """#pragma once
#include <c.cuh>
__device__ float twice(float value) { return value * 2.0f; }
"""


@pytest.fixture
def hash_of(tmp_path, monkeypatch):
    """The hash of the kernel with some text replaced, in whichever of its files it is."""
    monkeypatch.setattr(kernel_sources, "ROOT", tmp_path)
    files = {"a.cu": KERNEL, "b.cuh": HEADER, "c.cuh": 'constexpr int c = 1;\nasm("bar.sync 0;");\n'}

    def found(old="", new="", file_name="b.cuh"):
        for name, text in files.items():
            (tmp_path / name).write_text(text.replace(old, new).replace("b.cuh", file_name) if old else text)
        if file_name != "b.cuh":
            (tmp_path / "b.cuh").rename(tmp_path / file_name)
        source_hash.cache_clear()
        return source_hash(tmp_path / "a.cu")

    yield found
    source_hash.cache_clear()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// One tile.", "/* Another comment */"),
        ("// of this thread", ""),
        ("place", "index"),
        ("twice", "doubled"),
        ("value", "number"),
        (";\n    if", ";\n\n\n        if"),
    ],
)
def test_comments_space_and_names_leave_it(hash_of, old, new):
    before = hash_of()
    assert hash_of(old, new) == before


def test_the_name_of_a_file_leaves_it(hash_of):
    before = hash_of()
    assert hash_of("unused", "unused", file_name="renamed.cuh") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0f", "3.0f"),
        ("value * 2.0f", "value + 2.0f"),
        ("threadIdx.x", "threadIdx.y"),
        ("bar.sync 0;", "bar.sync 1;"),
        ("out[place] = twice(in[place])", "out[place] = twice(out[place])"),
        ("const float* in, int count", "const float* in, unsigned count"),
        ("constexpr int c = 1;", ""),
        ("place < count", "count < place"),
    ],
)
def test_what_a_kernel_does_changes_it(hash_of, old, new):
    before = hash_of()
    assert hash_of(old, new) != before


def test_it_sees_what_the_generator_writes_but_not_its_comments(hash_of, monkeypatch):
    before = hash_of()
    samples = list(kernel_sources.sample_headers())
    for text, is_same in [("// other words", True), ("int more;", False)]:
        monkeypatch.setattr(kernel_sources, "sample_headers", lambda text=text: iter([*samples, text]))
        assert (hash_of() == before) == is_same


def test_another_kernels_file_does_not_count(hash_of, tmp_path):
    before = hash_of()
    (tmp_path / "other.cu").write_text("int other;")
    assert hash_of() == before


def test_all_that_is_timed_has_a_hash_without_a_compiler():
    assert len({timed_hash(name) for name in ("portable", "hopper")}) == 2
    assert source_hash(ROOT / "kernels" / "elementwise" / "copy.cu") != source_hash(
        ROOT / "run" / "control.cu"
    )
