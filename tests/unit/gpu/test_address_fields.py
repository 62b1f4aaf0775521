"""Where parameter records hold addresses is all that differs between two calls; no GPU needed."""

import hashlib

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Gemm
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import StreamSync
from wavesim_gpu.kernels.backend import Addresses
from wavesim_gpu.kernels.backends import BACKENDS, backend_named
from wavesim_gpu.kernels.sm90 import tensor_map

# Every operand at an address of its own, all of them different between the two.
FIRST, SECOND = (
    Addresses(
        **{name: base + 4096 * i for i, name in enumerate(("a", "b", "c", "partials", "tickets"))},
        **{name: base + 4096 * i for i, name in enumerate(("b_values", "bias", "values_bias"), 5)},
    )
    for base in (0x10_0000, 0x7F00_0000)
)
TILES = {"portable": (128, 128, 32), "hopper": (128, 192, 64)}


def stand_in(address, *described):
    """128 bytes of a tensor map: the address, and a hash of all else, as there is no driver here."""
    words = [address, *hashlib.sha256(repr(described).encode()).digest()]
    return np.array((words + [0] * 16)[:16], "<u8").view("V128")[0]


def replaced(record, fields, addresses):
    """The record with other addresses, as a launch makes it; the driver writes those of real maps."""
    raw = bytearray(record.tobytes())
    for offset, _, operand, shift in fields:
        raw[offset : offset + 8] = (getattr(addresses, operand) + shift).to_bytes(8, "little")
    return bytes(raw)


@pytest.mark.parametrize("words", ["tile+one-stream+boundary", "stream-k+one-stream+boundary"])
@pytest.mark.parametrize("n", [136, 192, 520])
@pytest.mark.parametrize("name", BACKENDS)
def test_a_record_with_replaced_addresses_is_that_of_the_other_call(monkeypatch, name, n, words):
    monkeypatch.setattr(tensor_map, "_encode", stand_in)
    backend, plan = backend_named(name), parse_plan(words)
    gemm = Gemm("gemm", 300, n, 512, *TILES[name])
    (first,), (second,) = (backend.arguments(gemm, plan, one) for one in (FIRST, SECOND))
    assert replaced(first, backend.address_fields(gemm, plan), SECOND) == second.tobytes()


def test_the_portable_backend_takes_dense_operands_only():
    gemm = Gemm("gemm", 300, 512, 256, *TILES["portable"])
    with pytest.raises(
        DescriptionError, match=r"a_stride is 264 elements; .* dense rows of 256. Use a contig"
    ):
        backend_named("portable").arguments(gemm, StreamSync(), Addresses(0, 0, 0, a_stride=264))
    backend_named("portable").arguments(gemm, StreamSync(), Addresses(0, 0, 0, a_stride=256, c_stride=512))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"b_order": "column"}, "b_order is 'column'; .* has 'row'. Give B row-major .* backend='hopper'"),
        ({"has_bias": True}, "has_bias is True; .* Add it outside, or use backend='hopper'"),
        ({"activation": "silu"}, "activation is 'silu'"),
    ],
)
def test_the_portable_backend_names_the_fix_for_what_it_leaves_out(options, words):
    with pytest.raises(DescriptionError, match=words):
        backend_named("portable").check(Gemm("gemm", 300, 512, 256, *TILES["portable"], **options))
