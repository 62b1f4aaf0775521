"""The safety rule against brute force on clusters, split-K, Stream-K and two copies: `make safety-cases`.

Example: `python tests/support/safety_kinds.py --cases 5000 --state build/kinds.json` decides 5,000 cases of
each kind and says how many plans called safe deadlock, and how many that cannot were refused. It goes on
where it was interrupted. Of a case everything is tried that the device may do; what has more states than
`--states` is not counted.
"""

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from exhaustive_search import Launch, Rules, Search, State, TooLargeError
from safety_cases import BLOCKS, Case, case_of

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Grid, Kernel
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch, OneStream
from wavesim.plan.plan import Plan
from wavesim.plan.stream_k import StreamK
from wavesim.safe_io.writing import write_text
from wavesim.safety.deadlock import safety_of
from wavesim.sim.placement import footprint

MOST_STATES = 1_500
# (deadlock found, called safe)
OUTCOMES = {
    (False, True): "safe, accepted",
    (False, False): "safe, refused",
    (True, False): "unsafe, refused",
    (True, True): "unsafe, accepted",
}
Sm = tuple[int, tuple[int, ...]]
Pairs = tuple[tuple[Sm, ...], ...]
IDLE: Sm = (0, ())


class GroupSearch(Search):
    """SMs in groups of 2 or 4; a cluster's blocks go to one group at once, to any two SMs or both to one.

    CUDA says neither, so a state is a deadlock where there is no SM for each, whatever one SM would hold.
    `clusters`: blocks of a launch that are issued together, 1 or 2. States have groups where others have SMs.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan, device, clusters: dict[str, int], group: int) -> None:
        super().__init__(pipeline, plan, device)
        self.group = group
        names = [stage.name for stage in pipeline.stages]
        self.clusters = [clusters.get(name, 1) for name in names]
        self.clusters += [1] * (len(self.launches) - len(names))  # wait-kernels

    def start(self) -> State:
        whole, rest = divmod(self.device.sm_count, self.group)
        sizes = [self.group] * whole + [rest // 2 * 2, rest % 2]  # a last SM without a neighbour is alone
        return (0,) * self.own, tuple(sorted((IDLE,) * size for size in sizes if size))

    def is_deadlock(self, state: State) -> bool:
        flat = _flat(state)
        if self.ready(flat):
            return False
        heads, is_busy = self.heads(flat), any(kinds for _, kinds in flat[1])
        return any(not list(self._placed(state[1], launch)) for launch in heads) or (is_busy and not heads)

    def moves(self, state: State) -> Iterator[State]:
        issued, pairs = state
        ready = self.ready(_flat(state))
        for p, pair in enumerate(pairs):
            for i, (carveout, kinds) in enumerate(pair):
                for kind in ready.intersection(kinds):
                    left = tuple(sorted(set(range(len(kinds))) - {kinds.index(kind)}))
                    rest = tuple(kinds[place] for place in left)
                    yield issued, _put(pairs, p, {i: (carveout if rest else 0, rest)})
        for launch in self.heads(_flat(state)):
            begun = self.issued_of(launch, issued)
            kinds = self.launches[launch].kinds[begun : begun + self.clusters[launch]]
            counts = tuple(issued[kind] + kinds.count(kind) for kind in range(self.own))
            yield from ((counts, after) for after in self._issued(pairs, launch, kinds))

    def _issued(self, pairs: Pairs, launch: int, kinds: tuple[int, ...]) -> Iterator[Pairs]:
        for p, places in self._placed(pairs, launch):
            for order in set(itertools.permutations(kinds)):
                sms = dict(zip(places, order, strict=True))
                yield _put(pairs, p, {i: self._with(pairs[p][i], launch, kind) for i, kind in sms.items()})
        if len(kinds) == 1:
            return
        for p, pair in enumerate(pairs):
            for i, sm in enumerate(pair):
                half = self._with(sm, launch, kinds[0])
                if self.fits(sm, launch) and self.fits(half, launch):
                    yield _put(pairs, p, {i: self._with(half, launch, kinds[1])})

    def _with(self, sm: Sm, launch: int, kind: int) -> Sm:
        carveout = sm[0] if sm[1] else self.launches[launch].footprint.carveout_bytes
        return carveout, tuple(sorted((*sm[1], kind)))

    def _placed(self, pairs: Pairs, launch: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Pairs, and SMs of them, that take the launch's next blocks."""
        for p, pair in enumerate(pairs):
            fitting = [i for i, sm in enumerate(pair) if self.fits(sm, launch)]
            if self.clusters[launch] == 1:
                yield from ((p, (i,)) for i in fitting)
            else:
                yield from ((p, both) for both in itertools.combinations(fitting, 2))


def _flat(state: State) -> State:
    issued, pairs = state
    return issued, tuple(sm for pair in pairs for sm in pair)


def _put(pairs: Pairs, place: int, new: dict[int, Sm]) -> Pairs:
    pair = tuple(sorted(new.get(i, sm) for i, sm in enumerate(pairs[place])))
    return tuple(sorted((*pairs[:place], pair, *pairs[place + 1 :])))


class StreamKSearch(Search):
    """Kernels with as many blocks as fit; those of an early one end after the grid before."""

    def __init__(self, pipeline: Pipeline, plan: Plan, device) -> None:
        super().__init__(pipeline, replace(plan, schedule=Plan().schedule), device)
        rules = Rules(any_block_order=True, may_decline=True)
        self.rules, self.needs, launches = rules, [], list(self.launches)
        self.launches = []
        for number, stage in enumerate(pipeline.stages):
            slots = occupancy_of(device, stage.kernel.block).blocks_per_sm * device.sm_count
            blocks = plan.schedule.block_count(stage.grid.size, slots)
            is_early = plan.turn_of(pipeline, number).is_early
            self.needs.append(1 << (number - 1) if is_early else 0)
            before = (number - 1,) if number else ()
            turn = {"issued_first" if is_early else "ended_first": before}
            taken = launches[number].footprint
            self.launches.append(Launch((number,) * blocks, taken, **turn))
        self.own = len(self.needs)
        self.launch_of = {i: i for i in range(self.own)}
        self.totals = [launch.size for launch in self.launches]
        self.kinds_of = [(i,) for i in range(self.own)]


def _of_clusters(seed: int) -> tuple[Case, dict[str, int]]:
    """A pair or a chain, some of whose kernels have clusters of two."""
    random = Random(f"clusters {seed}")
    pipeline, plan, device = case_of(seed, 6)
    clusters = {stage.name: random.choice([1, 2, 2]) for stage in pipeline.stages}
    device = device.with_sm_count(random.choice([2, 4, 5, 6, 8, 10]))
    even = [
        replace(stage, work=replace(stage.kernel, grid=Grid(2 * random.randint(1, 2), random.randint(1, 2))))
        if clusters[stage.name] == 2
        else stage
        for stage in pipeline.stages
    ]
    first, *others = even
    needs = [Dependency(other[x, y], [before[:, :]]) for before, other in zip(even, others, strict=False)]
    plan = Plan(launch=plan.launch, sync=replace(plan.sync, policies={}), order=plan.order)
    return (Pipeline(pipeline.name, [first, *others], needs), plan, device), clusters


def clusters(seed: int, most_states: int) -> str:
    """A cluster finds a place on any two open SMs of a group: of neighbours, or of two pairs of them."""
    case, sizes = _of_clusters(seed)
    accepted = safety_of(*case, clusters=sizes).is_safe
    deadlocks = any(GroupSearch(*case, sizes, group).finds_deadlock(most_states) for group in (2, 4))
    return OUTCOMES[deadlocks, accepted]


def split_k(seed: int, most_states: int) -> str:
    """A tile is posted by the last of its slices; the others only take room."""
    random = Random(f"split {seed}")
    pipeline, plan, device = case_of(seed, 4)
    stages = {
        stage.name: replace(
            stage, work=replace(stage.kernel, grid=replace(stage.grid, z=random.choice([2, 2, 3])))
        )
        if stage is pipeline.stages[0] or random.random() < 0.4
        else stage
        for stage in pipeline.stages
    }
    needs = [
        replace(
            need,
            consumer=replace(need.consumer, stage=stages[need.consumer.stage.name]),
            needs=[replace(part, stage=stages[part.stage.name]) for part in need.needs],
        )
        for need in pipeline.dependencies
    ]
    case = Pipeline(pipeline.name, list(stages.values()), needs), plan, device
    return OUTCOMES[Search(*case).finds_deadlock(most_states), safety_of(*case).is_safe]


def stream_k(seed: int, most_states: int) -> str:
    """As many blocks as fit, tiles cut over them, on a device that need not issue a block beside others."""
    random = Random(f"stream-k {seed}")
    pipeline, _, device = case_of(seed, 8)
    launch = random.choice([OneStream(), DependentLaunch(), DependentLaunch()])
    block = random.choice(BLOCKS)
    stages = [
        Stage(s.name, Kernel(s.name, s.grid, random.choice([block, s.kernel.block]))) for s in pipeline.stages
    ]
    needs = [Dependency(b[x, y], [a[:, :]]) for a, b in itertools.pairwise(stages)]
    case = Pipeline(pipeline.name, stages, needs), Plan(StreamK(random.choice([None, 1, 2])), launch), device
    _ = [footprint(device, stage.kernel) for stage in stages]
    return OUTCOMES[StreamKSearch(*case).finds_deadlock(most_states), safety_of(*case).is_safe]


def two_copies(seed: int, most_states: int) -> str:
    """Of a plan that does not ask for an otherwise idle GPU a second copy may run beside it."""
    pipeline, plan, device = case_of(seed, 1 + seed % 4)
    # Without a wait-kernel a verdict says "idle", which is no claim about copies.
    plan = replace(plan, launch=replace(plan.launch, wait_kernel=True))
    verdict = safety_of(pipeline, plan, device)
    found = Search(pipeline, plan, device, Rules(copies=2)).finds_deadlock(most_states)
    return OUTCOMES[found, verdict.basis in ("cuda", "seen")]


KINDS: dict[str, Callable[[int, int], str]] = {
    "clusters": clusters,
    "split-K": split_k,
    "Stream-K": stream_k,
    "two copies": two_copies,
}


def outcome(kind: str, seed: int, most_states: int = MOST_STATES) -> str:
    """One of `OUTCOMES`, or "too large"."""
    try:
        return KINDS[kind](seed, most_states)
    except TooLargeError:
        return "too large"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000, help="decided cases of each kind")
    parser.add_argument("--states", type=int, default=MOST_STATES, help="most states of one case")
    parser.add_argument("--state", type=Path, default=Path("build/safety-kinds.json"), help="to go on from")
    options = parser.parse_args()
    kept = json.loads(options.state.read_text()) if options.state.exists() else {}
    for kind in KINDS:
        counts, seed = Counter(kept.get(kind, {}).get("counts", {})), kept.get(kind, {}).get("next", 0)
        while sum(counts[name] for name in OUTCOMES.values()) < options.cases:
            found = outcome(kind, seed, options.states)
            counts[found] += 1
            if found == "unsafe, accepted":
                sys.stdout.write(f"{kind}: seed {seed} is called safe and deadlocks\n")
            seed += 1
            if seed % 100 == 0:
                write_text(options.state, json.dumps(kept | {kind: {"next": seed, "counts": counts}}))
        kept[kind] = {"next": seed, "counts": dict(counts)}
        write_text(options.state, json.dumps(kept))
        safe = counts["safe, accepted"] + counts["safe, refused"]
        refused = counts["safe, refused"] / max(1, safe)
        sys.stdout.write(f"{kind}: {dict(counts)}, refused of safe {refused:.2%}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
