"""What tuning found, on disk: read whole or not at all, by nobody else's key, by two processes at once."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from wavesim.model.device import load
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.layers import tuning_cache as kept
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.choose import LIBRARY, Choice
from wavesim_gpu.layers.description import MlpShape

SHAPE, H200 = MlpShape(512, 4096, 11008, 4096, "bf16", "swiglu", "separate"), load("h200")
SOFTWARE = {"driver": "580.1", "kernels": "0123456789abcdef"}
WORD = "hopper persistent+pdl+row grouped:8 128x256 192x192/2"
OURS = Choice(WORD, 90_000.0, 100_000.0, "measured", MlpCandidate.read(WORD))
BY_LIBRARY = Choice(LIBRARY, 100.0, 100.0, "measured", algorithms=(("second", "gemm-ex"), ("version", "1")))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cubin_cache, "_chosen", tmp_path / "cache")
    return tmp_path / "cache" / "mlp"


def the_file(folder):
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("choice", [OURS, BY_LIBRARY])
def test_what_was_kept_is_read(choice):
    assert not kept.is_any()
    assert kept.read(SHAPE, H200, SOFTWARE) is None
    kept.keep(choice, SHAPE, H200, SOFTWARE)
    assert kept.is_any()
    assert kept.read(SHAPE, H200, SOFTWARE) == choice


@pytest.mark.parametrize(
    "other",
    [
        (replace(SHAPE, m=513), H200, SOFTWARE),
        (replace(SHAPE, w2_order="column"), H200, SOFTWARE),
        (SHAPE, replace(H200, sm_count=66), SOFTWARE),
        (SHAPE, replace(H200, name="another"), SOFTWARE),
        (SHAPE, H200, SOFTWARE | {"driver": "590"}),
        (SHAPE, H200, SOFTWARE | {"kernels": "changed"}),
    ],
    ids=["rows", "order", "SMs", "GPU", "driver", "kernels"],
)
def test_another_shape_gpu_driver_or_kernel_is_another_key(other):
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    assert kept.read(*other) is None


def test_a_file_cut_off_anywhere_is_not_read_and_is_replaced(folder):
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    whole = the_file(folder).read_bytes()
    for end in range(len(whole.rstrip())):
        the_file(folder).write_bytes(whole[:end])
        assert kept.read(SHAPE, H200, SOFTWARE) is None
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    assert kept.read(SHAPE, H200, SOFTWARE) == OURS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("way", 3),
        ("way", None),
        ("way", "hopper persistent+pdl+row grouped:8 128x256"),
        ("way", "hopper persistent+pdl+row grouped:8 128x256 9x9x9"),
        ("way", "nobody persistent+pdl+row grouped:8 128x256 128x256"),
        ("way", "hopper os.system row 128x256 128x256"),
        ("way", "x" * 10**4),
        ("measured_ns", -1),
        ("measured_ns", "1"),
        ("measured_ns", 10**400),
        ("measured_ns", float("nan")),
        ("library_ns", True),
        ("algorithms", []),
        ("algorithms", {"first": 3}),
        ("algorithms", {"first": "x" * 10**4}),
        ("algorithms", {str(number): "" for number in range(100)}),
        ("key", {}),
    ],
)
def test_a_file_that_holds_something_else_is_as_good_as_none(folder, field, value):
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    found = json.loads(the_file(folder).read_text())
    the_file(folder).write_text(json.dumps(found | {field: value}))
    read = kept.read(SHAPE, H200, SOFTWARE)
    if (field, value) == ("measured_ns", "1"):  # a text that is a number is one
        assert read.predicted_ns == 1
    else:
        assert read is None


@pytest.mark.parametrize("text", ["", "[]", "3", "null", "[" * 10**4, "\xff", " " * 10**6])
def test_what_is_no_object_is_as_good_as_none(folder, text):
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    the_file(folder).write_bytes(text.encode("latin-1"))
    assert kept.read(SHAPE, H200, SOFTWARE) is None


def test_a_folder_in_its_place_or_nowhere_to_write_costs_nothing_but_the_tuning(folder, monkeypatch):
    folder.parent.mkdir()
    folder.write_text("no folder")
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    assert kept.read(SHAPE, H200, SOFTWARE) is None
    monkeypatch.setattr(cubin_cache, "folder", lambda: None)
    kept.keep(OURS, SHAPE, H200, SOFTWARE)
    assert not kept.is_any()
    assert kept.read(SHAPE, H200, SOFTWARE) is None


WRITER = """
import sys
from pathlib import Path
from dataclasses import replace
from wavesim.model.device import load
from wavesim_gpu.layers import tuning_cache as kept
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.choose import Choice
from wavesim_gpu.layers.description import MlpShape
from wavesim_gpu.driver import cubin_cache

cubin_cache.use(Path(sys.argv[1]))
shape = MlpShape(512, 4096, 11008, 4096, "bf16", "swiglu", "separate")
ours = Choice(sys.argv[2], 1.0, 2.0, "measured", MlpCandidate.read(sys.argv[2]))
seen = set()
for time in range(1, 200):
    kept.keep(replace(ours, predicted_ns=float(time)), shape, load("h200"), {"driver": "1"})
    found = kept.read(shape, load("h200"), {"driver": "1"})
    assert found is not None and found.candidate == ours.candidate, found
    assert 1 <= found.predicted_ns < 200
print("whole")
"""


def test_two_processes_at_once_always_read_a_whole_file(tmp_path, folder):
    command = [sys.executable, "-c", WRITER, str(folder.parent), WORD]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [writer.communicate(timeout=60)[0].strip() for writer in writers] == ["whole", "whole"]
    assert [path.suffix for path in folder.iterdir()] == [".json"]
