"""The families of kernels there are, by name.

Picture: `family_named("portable")` is the tensor-core GEMM for every GPU from sm_80 on.
"""

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.family import Families, Family
from wavesim_gpu.kernels.gemm import PORTABLE

FAMILIES: Families = {family.name: family for family in (PORTABLE,)}


def family_named(name: str) -> Family:
    """The family of that name. Raises `DescriptionError` that lists them."""
    if name not in FAMILIES:
        raise DescriptionError(f"kernels is {name!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[name]
