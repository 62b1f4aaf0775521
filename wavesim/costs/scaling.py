"""Constants of a device that nobody characterised: the default device's, in proportion to the data sheets.

Example: an H200's L2 of 63 MB holds 36 MB of operands, and GEMMs out of step get 4.4 TB/s of the 4.8 on its
data sheet. An H100 has an L2 of 52 MB and 3.35 TB/s: 30 MB and 3.07 TB/s. Each is named as scaled.
"""

from collections.abc import Mapping
from dataclasses import replace

from wavesim.costs.constants import Constant
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device

# Constants by the catalogue's figure that they are in proportion to; "" for what stays as it is.
PROPORTIONAL_TO = {
    "memory.l2_bytes": "l2_bytes",
    "memory.dram_bytes_per_s": "dram_bytes_per_s",
    "memory.scattered_share": "",
    "clock.gain": "",
    "kernel_times.has_memory": "",
}


def scaled_constants(name: str, default_name: str, constants: Mapping[str, Constant]) -> dict[str, Constant]:
    """What `constants` of the default device say of device `name`; nothing where the catalogue lacks it."""
    try:
        ours, theirs = devices.load(name), devices.load(default_name)
    except DescriptionError:
        return {}
    return {
        key: _scaled(constants[key], figure, ours, theirs)
        for key, figure in PROPORTIONAL_TO.items()
        if key in constants
    }


def _scaled(constant: Constant, figure: str, ours: Device, theirs: Device) -> Constant:
    if not figure:
        return constant
    value = constant.value * getattr(ours, figure) / getattr(theirs, figure)
    return replace(constant, value=round(value), scaled_by=figure)
