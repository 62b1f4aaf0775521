"""The PTX of our own kernels is read in whole: every access has a root, every branch a target."""

import pytest
from own_kernels import OWN

from wavesim.lint.flow import Flow
from wavesim.lint.instruction import Op
from wavesim.lint.ptx import listing_of_ptx

WITH_WAITS = ("portable", "hopper", "foreign", "synchronised", "wait-kernel")


@pytest.mark.parametrize("name", [name for name in OWN if name.startswith(WITH_WAITS)])
def test_every_access_of_our_kernels_comes_from_a_parameter_or_a_variable(nvrtc, name):
    listing = listing_of_ptx(OWN[name].compiled("sm_90a").ptx, name)
    assert listing.notes == ()
    kernels = [kernel for kernel in listing.kernels if kernel.is_entry]
    assert kernels
    for kernel in kernels:
        flow = Flow(kernel)
        assert flow.unknown_branches == ()
        accesses = [
            at
            for at, one in enumerate(kernel.instructions)
            if one.space in ("global", "generic") and one.address and flow.is_reachable(at)
        ]
        unknown = [kernel.instructions[at].text for at in accesses if not flow.roots(at)]
        assert unknown == []
        assert all(one.op is not Op.CALL or one.target == "vprintf" for one in kernel.instructions)
