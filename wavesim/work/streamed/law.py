"""How fast a persistent kernel streams weights through its SMs' rings, by constants of a device's file.

Example: 132 SMs share 4.4 TB/s, 33 GB/s each; one that takes 38 GB/s out of its ring is hardly faster, so
that what it does besides, 2 us at the start of every stage, is hardly ever made up for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from wavesim.work.law import CostLaw


@dataclass(frozen=True)
class MegakernelCosts(CostLaw):
    """What the simulation of a megakernel needs to know of kernel and device.

    - `dram_bytes_per_s`: of all SMs together, through rings; `read_bytes_per_s`: of a kernel that only reads,
      the roof, by default the same.
    - `activation_bytes_per_s`: at which an SM loads what a stage before has made.
    - `latency_ns`: from the issue of a bulk copy to its arrival in the ring, at full load.
    - `consume_bytes_per_s`: what the warps of an SM take out of a full ring.
    - `stage_ns`: of an SM, between its last item of a stage and its first of the next: barriers, activations.
    - `item_ns`: of the warps that compute an item, at its end: sums across lanes, the store.
    - `post_ns`: from a post to the return of a wait for it on another SM.
    - `queue_share`: of the time that a load stands in the memory's queue, what a post is later by.
    - `full_rows`: of weights in a tile; fewer take as long.
    - `copy_ns`: of an SM's loader for each bulk copy, of which a row of weights in a chunk is one, and a
      value of the cache.
    - `setup_ns`: around the kernel.
    """

    section: ClassVar[str] = "megakernel"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "post_ns": "semaphore.latency_ns",
        "setup_ns": "overheads.setup_ns",
        "read_bytes_per_s": "memory.dram_bytes_per_s",
    }

    dram_bytes_per_s: float
    latency_ns: int
    consume_bytes_per_s: float
    stage_ns: int
    item_ns: int
    activation_bytes_per_s: float
    post_ns: int
    setup_ns: int = 0
    queue_share: float = 0.0
    full_rows: int = 1
    copy_ns: int = 0
    read_bytes_per_s: float = 0.0
