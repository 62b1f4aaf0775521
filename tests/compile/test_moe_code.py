"""The kernels of a MoE layer compile with no GPU for every tile, and keep their sums in registers."""

import re
import subprocess

import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.kernels.moe.moe_launch import GROUPED_SOURCE, ROUTING_SOURCE, failure_of
from wavesim_gpu.kernels.moe.parameters import GROUPED, ROUTING
from wavesim_gpu.kernels.moe.shape import CONFIGS, TILES, MoeShape

pytestmark = pytest.mark.usefixtures("nvrtc")
KERNELS = ("moe_gate_up", "moe_down", "moe_experts")


def compiled(tile, **build):
    names = [f"{kernel}<{CONFIGS[tile].name}>" for kernel in KERNELS]
    return compile_cubin(GROUPED_SOURCE, names, "sm_90a", Build(**build), {"generated.cuh": ""})


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_grouped_gemms_spill_nothing_and_multiply_without_waiting_for_each_k_block(tile, nvdisasm, tmp_path):
    path = tmp_path / "moe.cubin"
    path.write_bytes(compiled(tile).data)
    code = subprocess.run([nvdisasm, str(path)], capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"\bHGMMA\b", code)) >= 4 * len(KERNELS)
    assert not re.findall(r"\b(?:STL|LDL)\b", code)


@pytest.mark.parametrize("mutant", ["no_wait", "no_post", "no_fence", "early_post"])
def test_mutants_compile(mutant):
    assert compiled(TILES[0], mutant=mutant).data != compiled(TILES[0]).data


def test_routing_compiles_and_host_and_device_agree_on_parameters():
    assert compile_cubin(ROUTING_SOURCE, (), "sm_90a", Build(), {"generated.cuh": ""}).data
    assert (ROUTING.itemsize, GROUPED.itemsize) == (128, 1664)


def test_scratch_holds_whatever_the_router_chooses():
    shape = MoeShape(tokens=33, experts=16, top_k=4, hidden=128, inner=64)
    for counts in ([132], [9] * 14 + [6], [1] * 12 + [30] * 4):
        assert sum(-(-rows // 8) * 8 for rows in counts) <= shape.rows
        assert sum(-(-rows // shape.tile[0]) for rows in counts) <= shape.most_blocks
    places = list(shape.places.values())
    assert places == sorted(places)
    assert all(place % 256 == 0 for place in places)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden": 100}, "hidden is 100; it must be a multiple of 64"),
        ({"experts": 1025}, "experts is 1025; a MoE layer takes 1 to 1024"),
        ({"top_k": 17}, "top_k is 17; a MoE layer takes 1 to 16"),
        ({"tokens": 2**19}, "2097152 rows; a call takes 1048576: split the tokens"),
        ({"tile": (32, 256)}, "a grouped GEMM has 64x128"),
    ],
)
def test_layers_that_do_not_fit_say_value_and_bound(fields, message):
    with pytest.raises(DescriptionError, match=message):
        MoeShape(**{"tokens": 4, "experts": 16, "top_k": 4, "hidden": 128, "inner": 64, **fields})


def test_a_report_of_the_device_is_an_error_that_names_id_or_semaphore():
    wrong = {"kind": 1, "index": 7, "value": -4, "awaited": 128}
    assert "topk_ids: element 7, counted row by row, is -4; the layer has experts 0 to 127" in str(
        failure_of(wrong)
    )
    late = {"kind": 2, "index": 9, "value": 5, "awaited": 6}
    assert "semaphore 9 (saw 5, awaited 6)" in str(failure_of(late))
