"""What linear layers need of the Hopper GEMM is right, against float32 references on poisoned outputs: B by
columns, biases, activations, gates in halves, ragged sizes and strides, under the plans that run them."""

import math
from itertools import cycle, product

import numpy as np
import pytest

from wavesim.errors import DeadlockError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import ACTIVATIONS, GATED, Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS

pytestmark = pytest.mark.gpu

WIDE = (128, 256, 64)
TILES = [(m, n, 64) for m, n in TILE_CONFIGS]
EVERY_TILE = [*((tile, 2 * tile[0] + 3) for tile in TILES), ((64, 192, 64), 125)]  # the last in clusters
PLACES = (*((name, "interleaved") for name in (None, *ACTIVATIONS)), *((name, "halves") for name in GATED))
VARIANTS = (
    ("row", True, "fp16"),
    ("column", False, "bf16"),
    ("column", True, "fp16"),
    ("row", False, "bf16"),
)
# m, n and k: columns off the tile, in halves off the panel, k off the k-block and less than one.
SIZES = ((1, 272, 200), (7, 784, 72), (129, 528, 56), (333, 1040, 136))
# Every activation and place of gates in every variant, the sizes in turn, and another turn for each place.
FORMS = [
    (place, variant, SIZES[(i + j) % len(SIZES)])
    for (i, place), (j, variant) in product(enumerate(PLACES), enumerate(VARIANTS))
]
COLUMN, BIAS = {"b_order": "column"}, {"has_bias": True}
LAYERS = {
    "llama": (COLUMN | {"activation": "swiglu", "gates": "halves"}, COLUMN),
    "gpt2": (BIAS | {"activation": "gelu"}, BIAS),
    "vit": (COLUMN | BIAS | {"activation": "gelu-exact"}, COLUMN | BIAS),
    "packed-rows": (BIAS | {"activation": "geglu", "gates": "halves"}, COLUMN | BIAS),
}
PLANS = ("stream", "pdl+row", "persistent+pdl+tile", "fused+row")
ROWS = (1, 7, 129, 333, 64)
CASES = [
    (layer, words, m)
    for (layer, words, _), m in zip(product(LAYERS, PLANS, range(2)), cycle(ROWS), strict=False)
]


@pytest.fixture(scope="module")
def hopper(runner):
    from wavesim_gpu.run.runner import CupyRunner

    if runner.device.compute_capability != (9, 0):
        pytest.skip("not a Hopper GPU")
    return CupyRunner(limit_s=5.0, commit="test", backend="hopper")


def layers(m, forms, tile=WIDE, k=264, hidden=680, n=392, splits=(1, 1), dtype="fp16"):
    """An MLP; `hidden` counts what is left of gates and values."""
    wide = hidden * (2 if forms[0].get("activation") in GATED else 1)
    first = Stage("gemm1", Gemm("gemm1", m, wide, k, *tile, split_k=splits[0], dtype=dtype, **forms[0]))
    second = Stage("gemm2", Gemm("gemm2", m, n, hidden, *tile, split_k=splits[1], dtype=dtype, **forms[1]))
    return Pipeline("mlp", [first, second], [gemm_rows(first, second)])


def verdict_of(runner, pipeline, plan, build=None, seed=3, runs=2):
    """Of the last of so many runs, or of the first bad one: what a run leaves behind shows in the next."""
    from wavesim_gpu.run.references import reference

    operands = runner.operands(pipeline, seed=seed)
    program = runner.program(operands, plan, build or Build(), is_self_resetting=False)
    launch, expected = runner.launcher(program), reference(operands)
    verdicts = [runner.verdict(program, launch, expected) for _ in range(runs)]
    return next((verdict for verdict in verdicts if not verdict.is_good), verdicts[-1])


@pytest.mark.parametrize(("place", "variant", "size"), FORMS, ids=str)
def test_every_form_is_right_and_nan_stays_nan(hopper, cupy, place, variant, size):
    """One row of A has a NaN: all of that row's outputs are NaN, whatever the activation, and no others."""
    from wavesim_gpu.driver.element_types import to_float32
    from wavesim_gpu.run.references import reference

    (activation, gates), (order, has_bias, dtype), (m, n, k) = place, variant, size
    form = {"activation": activation, "gates": gates, "b_order": order, "has_bias": has_bias}
    gemm = Gemm("gemm", m, n, k, *WIDE, dtype=dtype, **form)
    pipeline = Pipeline("one", [Stage("gemm", gemm)], [])
    operands = hopper.operands(pipeline, seed=m)
    program = hopper.program(operands, parse_plan("persistent+one-stream+boundary"))
    verdict = hopper.verdict(program, program.enqueue, reference(operands))
    assert verdict.is_right, verdict
    operands.a["gemm"][m // 2, k - 1] = 0x7FFF if dtype == "bf16" else np.nan
    cupy.cuda.Device().synchronize()
    operands.poison(program.streams[0])
    program.enqueue()
    program.synchronize()
    is_nan = np.isnan(to_float32(operands.c["gemm"], dtype).get())
    assert is_nan[m // 2].all()
    assert is_nan.sum() == gemm.columns


@pytest.mark.parametrize(("layer", "words", "m"), CASES)
def test_layers_are_right_under_every_plan(hopper, layer, words, m):
    dtype = "bf16" if layer == "llama" else "fp16"
    verdict = verdict_of(hopper, layers(m, LAYERS[layer], dtype=dtype), parse_plan(words))
    assert verdict.is_good, verdict


@pytest.mark.parametrize(("tile", "m"), EVERY_TILE, ids=str)
def test_every_tile_waits_for_every_chunk_of_gated_outputs(hopper, tile, m):
    """Columns come late one by one; half a tile's columns are no multiple of a panel or a k-block."""
    plan = parse_plan("persistent+streams+tile", "grouped:2")
    pipeline = layers(m, LAYERS["llama"], tile, dtype="bf16")
    verdict = verdict_of(hopper, pipeline, plan, Build(delay_ns=100_000), runs=1)
    assert verdict.is_good, verdict


@pytest.mark.parametrize(("tile", "m"), EVERY_TILE, ids=str)
def test_every_tile_adds_the_bias(hopper, tile, m):
    verdict = verdict_of(hopper, layers(m, LAYERS["vit"], tile), parse_plan("tile+pdl+row"))
    assert verdict.is_good, verdict


@pytest.mark.parametrize("m", [5, 200])
@pytest.mark.parametrize(
    ("layer", "tile"),
    [
        *product(["vit"], [(64, 64, 64), (64, 128, 64), (64, 256, 64), WIDE]),
        *product(["packed-rows"], [(64, 128, 64), WIDE]),
    ],
    ids=str,
)
def test_splits_of_k_add_the_bias_once(hopper, layer, tile, m):
    pipeline = layers(m, LAYERS[layer], tile, splits=(3, 4))
    verdict = verdict_of(hopper, pipeline, parse_plan("persistent+pdl+row"), runs=3)
    assert verdict.is_good, verdict


@pytest.mark.parametrize("words", ["stream-k+one-stream+boundary", "stream-k+pdl+boundary"])
@pytest.mark.parametrize("layer", LAYERS)
def test_stream_k_adds_the_bias_once(hopper, layer, words):
    pipeline = layers(700, LAYERS[layer], k=776, hidden=1096, n=904)
    verdict = verdict_of(hopper, pipeline, parse_plan(words), runs=3)
    assert verdict.is_good, verdict


@pytest.mark.parametrize("words", ["pdl+row", "fused+row"])
@pytest.mark.parametrize("layer", ["llama", "vit"])
def test_a_dropped_post_leaves_nan_behind_every_form(hopper, cupy, layer, words):
    from wavesim_gpu.run.runner import CupyRunner

    impatient = CupyRunner(limit_s=0.05, commit="test", backend="hopper")
    operands = impatient.operands(layers(200, LAYERS[layer]), seed=1)
    program = impatient.program(operands, parse_plan(words), Build(mutant="no_post"))
    for array in operands.c.values():
        array.fill(0)
    cupy.cuda.Device().synchronize()
    program.enqueue()
    with pytest.raises(DeadlockError):
        program.synchronize()
    found = {name: float(np.isnan(out.get()).mean()) for name, out in operands.outputs().items()}
    assert found == {"gemm1": 0.0, "gemm2": 1.0}


@pytest.mark.parametrize("order", ["row", "column"])
def test_operands_with_strides_are_read_and_written_in_place(hopper, cupy, order):
    """Gates and values lie in one array, x and the output in wider ones, whose other columns stay."""
    from wavesim_gpu.driver.element_types import from_float32
    from wavesim_gpu.run.operands import Operands
    from wavesim_gpu.run.references import reference

    m, k, n, hidden = 77, 136, 392, 328
    random = cupy.random.RandomState(1)

    def matrix(rows, columns, scale=1.0):
        values = random.standard_normal((rows, columns), dtype="float32") * cupy.float32(scale)
        return from_float32(values, "fp16")

    if order == "row":
        packed, second = matrix(k, 2 * hidden, k**-0.5), matrix(hidden, n, hidden**-0.5)
        gates, values = packed[:, :hidden], packed[:, hidden:]
    else:
        packed, second = matrix(2 * hidden, k, k**-0.5), matrix(n, hidden, hidden**-0.5)
        gates, values = packed[:hidden], packed[hidden:]
    wide_x, wide_out, middle = matrix(m, k + 64), matrix(m, n + 40), cupy.empty((m, hidden), "float16")
    x, out, before = wide_x[:, 8 : k + 8], wide_out[:, 16 : n + 16], wide_out.copy()
    forms = {"activation": "swiglu", "gates": "halves", "b_order": order}, {"b_order": order}
    places = {
        "gemm1": {"a": x, "b": gates, "b_values": values, "c": middle},
        "gemm2": {"a": middle, "b": second, "c": out},
    }
    arrays = {(stage, name): array for stage, own in places.items() for name, array in own.items()}
    operands = Operands(layers(m, forms, k=k, hidden=hidden, n=n), arrays)
    program = hopper.program(operands, parse_plan("pdl+row"))
    out.fill(np.nan)
    cupy.cuda.Device().synchronize()
    program.enqueue()
    verdict = hopper.verdict_on_last(program, reference(operands))
    assert verdict.is_right, verdict
    for columns in (slice(0, 16), slice(n + 16, None)):
        assert bool((wide_out[:, columns] == before[:, columns]).all())


EXACT = {
    "gelu-exact": lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
}
ERROR = 3e-6  # of what an activation approximates, beside the rounding of the output


@pytest.mark.parametrize("activation", EXACT)
def test_activations_are_right_at_every_size_of_their_input(hopper, cupy, activation):
    """A is the identity, so that the sums are B's elements, from where an activation fades away on."""
    from wavesim_gpu.run.operands import bind

    values = np.linspace(-9, 9, 64 * 256, dtype=np.float32).astype(np.float16).reshape(64, 256)
    gemm = Gemm("gemm", 64, 256, 64, 64, 256, 64, activation=activation)
    pipeline = Pipeline("one", [Stage("gemm", gemm)], [])
    identity = cupy.asarray(np.eye(64, dtype=np.float16))
    operands = bind(pipeline, {"gemm": identity}, {"gemm": cupy.asarray(values)})
    program = hopper.program(operands, parse_plan("stream"))
    operands.poison(program.streams[0])
    program.enqueue()
    program.synchronize()
    expected = np.vectorize(EXACT[activation], otypes=[float])(values.astype(np.float64))
    found = operands.c["gemm"].get().astype(np.float64)
    assert (np.abs(found - expected) <= np.abs(expected) * 2**-10 + ERROR).all()


@pytest.mark.parametrize("activation", EXACT)
def test_infinity_goes_through_activations(hopper, cupy, activation):
    from wavesim_gpu.run.operands import bind

    gemm = Gemm("gemm", 8, 64, 64, 64, 64, 64, activation=activation)
    pipeline = Pipeline("one", [Stage("gemm", gemm)], [])
    endless, ones = cupy.full((64, 64), np.inf, "float16"), cupy.ones((8, 64), "float16")
    program = hopper.program(bind(pipeline, {"gemm": ones}, {"gemm": endless}), parse_plan("stream"))
    program.enqueue()
    program.synchronize()
    assert np.isposinf(program.operands.c["gemm"].get()).all()


def replaced(record, fields, addresses):
    """The record with other addresses, tensor maps by the driver."""
    from cuda.bindings import driver

    raw = bytearray(record.tobytes())
    for offset, kind, operand, shift in fields:
        address = getattr(addresses, operand) + shift
        if kind == "pointer":
            raw[offset : offset + 8] = address.to_bytes(8, "little")
            continue
        words, tensor_map = np.frombuffer(raw, "<u8", 16, offset).tolist(), driver.CUtensorMap()
        tensor_map.opaque = [driver.cuuint64_t(word) for word in words]
        (status,) = driver.cuTensorMapReplaceAddress(tensor_map, address)
        assert int(status) == 0
        raw[offset : offset + 128] = np.array([int(word) for word in tensor_map.opaque], "<u8").tobytes()
    return bytes(raw)


@pytest.mark.parametrize("words", ["tile+one-stream+boundary", "stream-k+one-stream+boundary"])
@pytest.mark.parametrize("layer", LAYERS)
def test_the_driver_replaces_addresses_where_the_backend_says_they_are(hopper, layer, words):
    names = ("a", "b", "c", "partials", "tickets", "b_values", "bias", "values_bias")
    first, second = (
        Addresses(**{name: base + (i << 24) for i, name in enumerate(names)})
        for base in (0x7F00_0000_0000, 0x7E00_0000_0000)
    )
    backend, plan = backend_named("hopper"), parse_plan(words)
    for stage in layers(300, LAYERS[layer]).stages:
        (record,), (wanted,) = (backend.arguments(stage.gemm, plan, one) for one in (first, second))
        fields = backend.address_fields(stage.gemm, plan)
        assert replaced(record, fields, second) == wanted.tobytes()


def test_grouped_orders_of_gated_tiles_are_right(hopper):
    pipeline = layers(600, LAYERS["packed-rows"], hidden=1096, n=904)
    assert verdict_of(hopper, pipeline, parse_plan("persistent+pdl+row", "grouped:2")).is_good
