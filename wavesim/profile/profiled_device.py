"""The device of a profile, from what the profiler wrote of it, or from what can be inferred.

Example: "NVIDIA A100-PG509-200" with 108 SMs is in no catalogue, but its compute capability is; its rates are
taken from the catalogued A100. A trace without any properties still tells the number of SMs, because
Kineto's `blocks per SM` is the grid over it.
"""

from collections.abc import Mapping
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device

# What a driver does not report to a profiler; taken from the nearest catalogued product where the name is
# unknown.
RATES = ("l2_bytes", "dram_bytes_per_s", "tensor_flops_per_s", "clock_hz", "power_w")
AMD_WARP = 64
MOST_SMS = 10_000
PROPERTIES = ("name", "warpSize", "computeMajor", "computeMinor", "numSms", "sharedMemPerMultiprocessor")

DeviceAndNote = tuple[Device | None, str]


def device_from_properties(properties: Mapping[str, Any]) -> DeviceAndNote:
    """The device of one entry of `deviceProperties` (or the like), and a note where something was assumed."""
    name = str(properties.get("name", "unnamed device"))[:100]
    if properties.get("warpSize") == AMD_WARP or "AMD" in name or "gfx" in name or "Radeon" in name:
        return (
            None,
            f"{name}: an AMD device; its profile has no registers, so occupancy and waves are unknown.",
        )
    parts = [properties.get(key) for key in ("computeMajor", "computeMinor", "numSms")]
    if not all(isinstance(part, int) and 0 <= part < MOST_SMS for part in parts) or not parts[2]:
        return None, f"{name}: the profile does not say its compute capability and SM count."
    major, minor, sm_count = (int(part) for part in parts if part is not None)
    return device_like(name, (major, minor), sm_count, properties.get("sharedMemPerMultiprocessor"))


def device_like(
    name: str, capability: tuple[int, int], sm_count: int, shared_bytes: Any = None
) -> DeviceAndNote:
    """A device of that name with this compute capability and number of SMs."""
    alike = _nearest(capability, sm_count, shared_bytes)
    try:
        exact = devices.from_attributes(name, capability, {"sm_count": sm_count})
    except DescriptionError:
        pass
    else:
        return exact, ""
    if alike is None:
        return None, f"{name}: compute capability {capability} is older than any that wavesim knows."
    attributes = {key: getattr(alike, key) for key in RATES} | {"sm_count": sm_count}
    try:
        device = devices.from_attributes(name, alike.compute_capability, attributes)
    except DescriptionError as error:
        return None, f"{name}: {error}."
    if alike.compute_capability != capability:
        mine, theirs = (".".join(map(str, pair)) for pair in (capability, alike.compute_capability))
        return device, f"{name}: limits of compute capability {mine} are not known; taken from {theirs}."
    return device, ""


def device_by_sm_count(sm_count: int) -> DeviceAndNote:
    """The catalogued device with that many SMs, for a profile that says no more."""
    for name in devices.products():
        known = devices.load(name)
        if known.sm_count == sm_count:
            return known, (
                f"No device properties in the profile: its blocks per SM tell {sm_count} SMs, so the "
                "device is taken "
                f"to be a {name}. Say otherwise with --device."
            )
    return None, f"No device properties in the profile, and no known device has {sm_count} SMs: use --device."


def _nearest(capability: tuple[int, int], sm_count: int, shared_bytes: Any) -> Device | None:
    """The catalogued device nearest in compute capability, never a later one; then in memory and SMs."""
    known = [devices.load(name) for name in devices.products()]
    same = [device for device in known if device.compute_capability == capability]
    earlier = same or [device for device in known if device.compute_capability < capability]
    if not earlier:
        return None
    alike = [device for device in earlier if device.shared_bytes_per_sm == shared_bytes] or earlier
    latest = max(device.compute_capability for device in alike)
    return min(
        (device for device in alike if device.compute_capability == latest),
        key=lambda device: abs(device.sm_count - sm_count),
    )
