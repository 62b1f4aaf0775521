"""Where parameters hold addresses is found out and not assumed; what is launched of them: test_planned.py."""

from wavesim_gpu.kernels.gemm.gemm_backend import AddressField
from wavesim_gpu.layers.prepared_launches import OPERANDS, are_words


def test_parameters_in_which_more_than_addresses_differs_are_not_made_by_storing_words():
    field = AddressField(8, "map", "b", 4)
    addresses = tuple(range(1000, 1000 + len(OPERANDS)))
    right = bytes(8) + (1001 + 4).to_bytes(8, "little") + bytes(8)
    assert are_words(bytes(24), right, [field], addresses)
    assert not are_words(bytes(24), right[:-1] + b"x", [field], addresses)
    assert not are_words(bytes(24), bytes(24), [field], addresses)
