"""Devices: the catalogue, its sources, and what a `Device` refuses to be."""

import json
import pickle
from dataclasses import asdict, fields, replace

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import Device, from_attributes, load, names

CATALOGUE = ("toy", "v100", "t4", "a100-40gb", "a100-80gb", "a10", "rtx4090", "h100", "h200", "b200")


def test_the_catalogue_has_the_ten_devices():
    assert names() == CATALOGUE


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_figure_of_every_device_names_its_source(name):
    device = load(name)
    figures = {field.name for field in fields(Device)} - {"name", "sources"}
    assert set(device.sources) == figures
    assert all(len(source) >= len("invented") for source in device.sources.values())


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_source_is_a_link(name):
    assert not [source for source in load(name).sources.values() if "://" in source or "www." in source]


def test_the_toy_has_four_sms_that_hold_1024_threads():
    toy = load("toy")
    assert (toy.sm_count, toy.max_threads_per_sm, toy.clock_hz) == (4, 1024, 1_000_000_000)


def test_the_h200_is_132_sms_of_compute_capability_9_0():
    h200 = load("h200")
    assert (h200.sm_count, h200.compute_capability) == (132, (9, 0))
    assert (h200.shared_bytes_per_sm, h200.shared_bytes_per_block) == (228 * 1024, 227 * 1024)
    assert h200.max_warps_per_sm == 64


@pytest.mark.parametrize(
    ("name", "flops_per_cycle", "tensor_clock_hz"),
    [
        ("t4", 1024, 1.59e9),
        ("v100", 1024, 1.53e9),
        ("a100-40gb", 2048, 1.41e9),
        ("a10", 1024, 1.695e9),
        ("rtx4090", 512, 2.52e9),
        ("h100", 4096, 1.83e9),
    ],
)
def test_the_tensor_peak_is_what_the_sms_multiply_and_add_per_cycle(name, flops_per_cycle, tensor_clock_hz):
    device = load(name)
    peak = device.sm_count * flops_per_cycle * tensor_clock_hz
    assert device.tensor_flops_per_s == pytest.approx(peak, rel=0.005)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DescriptionError, match=r"unknown device 'zx80'; known devices: toy, v100, .* b200"):
        load("zx80")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a100", "a100-40gb or a100-80gb"),
        ("A100-80GB", "a100-80gb"),
        ("A100-SXM4-80GB", "a100-40gb or a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("RTX 4090", "rtx4090"),
        ("h20", "h200"),
    ],
)
def test_an_unknown_name_suggests_the_device_that_is_meant(written, meant):
    with pytest.raises(DescriptionError, match=rf"; did you mean {meant}\? known devices: toy"):
        load(written)


def test_another_sm_count_scales_nothing_else():
    h200 = load("h200")
    half = h200.with_sm_count(66)
    assert half == replace(h200, sm_count=66)
    assert half.sources["sm_count"] == "what-if: 66 instead of 132"
    assert h200.sources["sm_count"] != half.sources["sm_count"]


def test_an_sm_count_of_zero_is_refused():
    with pytest.raises(DescriptionError, match="sm_count is 0"):
        load("h200").with_sm_count(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_blocks_per_sm": -1}, "max_blocks_per_sm is -1"),
        ({"dram_bytes_per_s": 0.0}, "dram_bytes_per_s is 0.0; it must be a number from 1 to 1e\\+21"),
        ({"dram_bytes_per_s": 1e300}, r"dram_bytes_per_s is 1e\+300; it must be a number from 1 to 1e\+21"),
        ({"power_w": 1e-300}, "power_w is 1e-300; it must be a number from 1"),
        ({"sm_count": 1_000_000_000}, "sm_count is 1000000000; it must be at most 65,536"),
        ({"tensor_flops_per_s": float("nan")}, "tensor_flops_per_s is nan"),
        ({"reserved_shared_bytes_per_block": -1}, "reserved_shared_bytes_per_block is -1"),
        ({"compute_capability": (6, 1)}, r"compute_capability is \(6, 1\); it must be .* \(7, 0\) or later"),
        ({"max_threads_per_sm": 1000}, "max_threads_per_sm is 1000 and .* multiples of 32 and 4"),
        ({"max_threads_per_block": 4096}, "max_threads_per_block is 4096; .* max_threads_per_sm=2048"),
        ({"carveouts_bytes": (8_192, 0, 233_472)}, "it must rise"),
        ({"carveouts_bytes": (0, 8_192)}, "end with shared_bytes_per_sm=233472"),
        ({"carveouts_bytes": ()}, r"carveouts_bytes is \(\)"),
        ({"shared_bytes_per_block": 233_472}, "with 1024 reserved bytes it must fit in"),
    ],
)
def test_an_impossible_figure_is_refused_with_its_value_and_bound(change, message):
    with pytest.raises(DescriptionError, match=message):
        replace(load("h200"), **change)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_device_survives_json_and_pickle(name):
    device = load(name)
    assert Device(**json.loads(json.dumps(asdict(device)))) == device
    assert pickle.loads(pickle.dumps(device)) == device  # noqa: S301 - our own bytes, as an executor sends them
    assert hash(pickle.loads(pickle.dumps(device))) == hash(device)  # noqa: S301 - as above


def test_a_driver_that_reports_a_catalogued_product_gets_the_catalogue_for_the_rest():
    device = from_attributes("NVIDIA H200", (9, 0), {"sm_count": 66, "l2_bytes": 31_457_280})
    assert device == replace(load("h200"), name="NVIDIA H200", sm_count=66, l2_bytes=31_457_280)
    assert device.sources["sm_count"] == "as the driver reports"
    assert "datasheet" in device.sources["dram_bytes_per_s"]


def test_an_unlisted_product_gets_a_tensor_peak_scaled_from_one_like_it():
    reported = {
        "sm_count": 66,
        "l2_bytes": 26_214_400,
        "clock_hz": 990_000_000,
        "dram_bytes_per_s": 2e12,
        "power_w": 350,
    }
    device = from_attributes("NVIDIA Something", (9, 0), reported)
    assert device.tensor_flops_per_s == pytest.approx(load("h100").tensor_flops_per_s / 4)
    assert device.sources["tensor_flops_per_s"] == "scaled from h100, per SM and clock"
    assert device.carveouts_bytes == load("h100").carveouts_bytes


def test_an_unlisted_product_without_its_bandwidth_is_refused_by_name():
    reported = {"sm_count": 66, "l2_bytes": 26_214_400, "clock_hz": 990_000_000, "power_w": 350}
    with pytest.raises(DescriptionError, match="NVIDIA Something: dram_bytes_per_s not reported"):
        from_attributes("NVIDIA Something", (9, 0), reported)


def test_a_compute_capability_outside_the_catalogue_is_refused():
    with pytest.raises(
        DescriptionError, match=r"compute capability 6\.1 is not in the catalogue; known: 7\.0"
    ):
        from_attributes("GeForce GTX 1080", (6, 1), {})
