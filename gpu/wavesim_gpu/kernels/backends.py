"""The families of kernels there are, by name.

Example: `family_named("portable")` is the tensor-core GEMM for every GPU from sm_80 on,
`family_named("hopper")` the one that uses all that an sm_90 has.
"""

from collections.abc import Mapping
from dataclasses import replace

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.backend import Families, Family, Joint
from wavesim_gpu.kernels.sm80.gemm import PORTABLE
from wavesim_gpu.kernels.sm90.fused_stages import HOPPER_BOTH
from wavesim_gpu.kernels.sm90.gemm_sm90 import HOPPER, HOPPER_DEPENDENT, HOPPER_PER_TILE, HOPPER_STREAM_K

HOPPER_STREAM_K_DEPENDENT = replace(HOPPER_STREAM_K, name="hopper-stream-k-dependent", is_dependent=True)
HOPPER_PER_TILE_DEPENDENT = replace(HOPPER_PER_TILE, name="hopper-per-tile-dependent", is_dependent=True)
HOPPERS = (
    HOPPER,
    HOPPER_PER_TILE,
    HOPPER_DEPENDENT,
    HOPPER_PER_TILE_DEPENDENT,
    HOPPER_STREAM_K,
    HOPPER_STREAM_K_DEPENDENT,
)
FAMILIES: Families = {family.name: family for family in (PORTABLE, *HOPPERS)}

JOINT: Mapping[str, Joint] = {HOPPER.name: HOPPER_BOTH}


def family_named(name: str) -> Family:
    """The family of that name. Raises `DescriptionError` that lists them."""
    if name not in FAMILIES:
        raise DescriptionError(f"kernels is {name!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def joint_of(family: Family) -> Joint:
    """The family's kernel for a whole pipeline. Raises `DescriptionError` for a family that has none."""
    if family.name not in JOINT:
        raise DescriptionError(
            f"the kernels {family.name!r} compute one stage per launch; Persistent(fused=True) needs "
            f"kernels={' or '.join(map(repr, JOINT))}"
        )
    return JOINT[family.name]
