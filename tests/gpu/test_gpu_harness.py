"""The harness on a tiny list of each kind: every way right and timed, libraries beside, traces if blind."""

from importlib.util import find_spec

import pytest

from wavesim.bench import results
from wavesim.bench.case_list import load_list
from wavesim_gpu.bench.harness import ROWS, measure

pytestmark = pytest.mark.gpu
GEMMS = """
kind = "gemms"
rounds = 3
plans = ["row", "pdl"]
orders = ["grouped:4"]
[[case]]
kernels = "hopper"
workload = "gpt3-mlp"
tiles = [[128, 256], [128, 256]]
tokens = [256]
rivals = ["cublaslt"]
"""
LAYERS = """
kind = "layers"
rounds = 3
plans = ["pdl", "pdl+row"]
[[case]]
part = "into"
model = "qwen2.5-0.5b"
tokens = [256]
tile = [128, 128, 1]
[[case]]
part = "decode"
model = "qwen2.5-0.5b"
tokens = [1]
repeats = 4
sets = 2
"""
CONVOLUTIONS = """
kind = "convolutions"
rounds = 3
plans = ["pdl+row"]
[[case]]
part = "pair"
size = 28
channels = 128
tile = [128, 128, 1]
images = [1]
"""
CROSSOVER = """
kind = "crossover"
rounds = 3
plans = ["pdl", "stream-k"]
[[case]]
model = "qwen2.5-0.5b"
tp = 1
tile = "128x256"
m = [256]
orders = ["row"]
backend = "hopper"
"""
FOREIGN = """
kind = "foreign"
[[case]]
m = 512
k = 256
n1 = 512
n2 = 512
tile = [128, 128, 32]
pipeline_depth = 3
wait_place = "block-barrier"
blocks_per_sm = 1
order = "row"
plans = ["row", "tile"]
"""
LAB = """
kind = "lab"
[[case]]
name = "primitives"
lab = "primitives"
"""
WITH_TORCH = {
    "layers": LAYERS.replace("sets = 2", 'sets = 2\nrivals = ["torch layer"]'),
    "convolutions": CONVOLUTIONS + 'rivals = ["cudnn"]\nrepeats = 2\n',
    "gemms": GEMMS.replace('["cublaslt"]', '["cublaslt", "torch"]'),
}


def run_of(text, folder, **words):
    (folder / "mine.toml").write_text(text)
    cases = load_list(folder / "mine.toml")
    run = measure(cases, folder / "run", commit="test", **words)
    return run, results.read(folder / "run" / ROWS)[1] if (folder / "run" / ROWS).exists() else []


@pytest.mark.parametrize(
    "text",
    [GEMMS, LAYERS, CONVOLUTIONS, CROSSOVER, FOREIGN],
    ids=["gemms", "layers", "convolutions", "crossover", "foreign"],
)
def test_every_way_of_a_list_is_right_and_timed(text, tmp_path):
    run, rows = run_of(text, tmp_path)
    assert run.failures == {}
    assert rows
    assert all(row.correct and row.ns for row in rows)


@pytest.mark.parametrize("kind", WITH_TORCH)
def test_libraries_of_pytorch_are_right_and_timed_beside(kind, tmp_path):
    if find_spec("torch") is None:
        pytest.skip("pip install torch")
    run, rows = run_of(WITH_TORCH[kind], tmp_path)
    assert run.failures == {}
    assert {"torch", "torch layer", "cudnn"} & {row.way for row in rows if row.ns}


def test_a_lab_writes_its_document(tmp_path):
    run, _ = run_of(LAB, tmp_path)
    assert run.failures == {}
    assert (tmp_path / "run" / "primitives.json").stat().st_size > 1000


@pytest.mark.parametrize("text", [CONVOLUTIONS, FOREIGN], ids=["convolutions", "foreign"])
def test_a_blind_run_leaves_predictions_and_traces(text, tmp_path):
    pytest.importorskip("simpy")
    run, _ = run_of(text, tmp_path, is_blind=True)
    assert run.failures == {}
    assert list((tmp_path / "run").glob("*.sha256"))
    assert len(list((tmp_path / "run").glob("*.npz"))) >= 2
