"""The families of kernels there are, by name.

Picture: `family_named("portable")` is the tensor-core GEMM for every GPU from sm_80 on,
`family_named("hopper")` the one that uses all that an sm_90 has.
"""

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.family import Families, Family
from wavesim_gpu.kernels.gemm import PORTABLE
from wavesim_gpu.kernels.gemm_sm90 import HOPPER, HOPPER_DEPENDENT, HOPPER_PER_TILE, HOPPER_STREAM_K

FAMILIES: Families = {
    family.name: family for family in (PORTABLE, HOPPER, HOPPER_PER_TILE, HOPPER_DEPENDENT, HOPPER_STREAM_K)
}


def family_named(name: str) -> Family:
    """The family of that name. Raises `DescriptionError` that lists them."""
    if name not in FAMILIES:
        raise DescriptionError(f"kernels is {name!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[name]
