"""What semaphores in a cluster's shared memory would win on recorded pairs, and what their placement costs.

Example: GPT-3's MLP at 1,024 tokens under row semaphores: of what waits and posts cost, a part would be won
back if the flags were in shared memory. But then a row of both GEMMs has to stay in one cluster, and with 8
rows only 8 clusters have work: it takes far longer than without any semaphores. All of it is simulated, from
the stream-sync recording alone.
"""

from dataclasses import dataclass, replace

from wavesim.costs.cost_model import CostModel
from wavesim.labs.waiting_places import costs_at, places_on, published, without_waits
from wavesim.model import device as devices
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import parse_policy
from wavesim.plan.tile_groups import groups_of
from wavesim.predict.prediction import calibrate_for, improvement_points
from wavesim.recordings.shipped import RecordedCase
from wavesim.safe_io.bounds import whole
from wavesim.sim.simulation import simulate
from wavesim.workloads.catalogue import parse_tile, workload


@dataclass(frozen=True)
class SemaphorePlaces:
    """One plan of one recorded case, simulated with its semaphores in several places; whole times in ns.

    `cluster_ns` is as if every tile could reach its semaphore in shared memory, wherever it runs: no GPU can.
    `free_ns` is without any cost of waits and posts.
    """

    case: RecordedCase
    policy: str
    stream_ns: int
    global_ns: int
    cluster_ns: int
    server_ns: int
    free_ns: int

    @property
    def loss_points(self) -> float:
        """What semaphores in global memory cost, in points of the stream-sync time."""
        return 100.0 * (self.global_ns - self.free_ns) / self.stream_ns

    @property
    def won_points(self) -> float:
        """What shared memory would win of it, in points."""
        return 100.0 * (self.global_ns - self.cluster_ns) / self.stream_ns

    @property
    def won_share(self) -> float:
        """The same as a share of the loss; 0 where nothing is lost."""
        lost_ns = self.global_ns - self.free_ns
        return (self.global_ns - self.cluster_ns) / lost_ns if lost_ns else 0.0

    def gain_points(self, time_ns: int) -> float:
        """Improvement over stream sync, in points."""
        return improvement_points(time_ns, self.stream_ns)


def semaphore_places(case: RecordedCase, policy: str = "row", hop_ns: int | None = None) -> SemaphorePlaces:
    """The case under a policy. `hop_ns`: from post to wait within a cluster, where not as published."""
    device, pipeline = devices.load(case.device), _pipeline(case, case.tokens)
    costs = calibrate_for(pipeline, device, case.trace("stream"))
    plan = _plan(case, policy)
    everywhere, cluster, server = places_on(device, hop_ns)

    def time_ns(plan: Plan, costs: CostModel) -> int:
        return simulate(pipeline, plan, device, costs).time_ns

    return SemaphorePlaces(
        case,
        policy,
        time_ns(StreamSync(plan.order), costs),
        time_ns(plan, costs_at(costs, everywhere, device)),
        time_ns(plan, costs_at(costs, cluster, device)),
        time_ns(plan, costs_at(costs, server, device)),
        time_ns(plan, without_waits(costs)),
    )


@dataclass(frozen=True)
class ClusterPlacement:
    """Groups of tiles dealt out to clusters. `most_groups`: of the cluster that has most of them."""

    blocks: int
    groups: int
    clusters: int
    sm_count: int

    @property
    def most_groups(self) -> int:
        """Groups that the fullest cluster computes one after the other."""
        return -(-self.groups // self.clusters)

    @property
    def busy_sms(self) -> int:
        """SMs that have any work."""
        return min(self.groups, self.clusters) * self.blocks


def placement_of(pipeline: Pipeline, blocks: int, sm_count: int) -> ClusterPlacement:
    """Whole groups of tiles in clusters of so many blocks, one block per SM.

    As many clusters as fit into the number of SMs: GPCs may hold fewer. Raises `DescriptionError`.
    """
    most = published()["most_blocks"]["value"]
    whole("blocks of a cluster", blocks, 1, most)
    return ClusterPlacement(blocks, len(groups_of(pipeline)), sm_count // blocks, sm_count)


def cluster_time_ns(case: RecordedCase, blocks: int) -> int:
    """The case with whole tile rows in clusters of so many blocks, and semaphores that cost nothing.

    A cluster is simulated as a GPU of its own, with the rows of the fullest one. In its favour: as many
    clusters as fit, all of the memory's bandwidth, one kernel with no launch in between.
    """
    device = devices.load(case.device)
    whole_pipeline = _pipeline(case, case.tokens)
    placement = placement_of(whole_pipeline, blocks, device.sm_count)
    costs = calibrate_for(whole_pipeline, device, case.trace("stream"), per_block=False)
    free = replace(without_waits(costs), wait_kernel_ns=0, multi_stream_ns=0)
    rows = placement.most_groups * parse_tile(case.tile)[0]
    small = _pipeline(case, min(case.tokens, rows))
    return simulate(small, SemaphoreSync(parse_policy("row")), device.with_sm_count(blocks), free).time_ns


def _pipeline(case: RecordedCase, tokens: int) -> Pipeline:
    return workload(case.workload, tokens, parse_tile(case.tile))


def _plan(case: RecordedCase, policy: str) -> Plan:
    return SemaphoreSync(parse_policy(policy), order=parse_order(case.order))
