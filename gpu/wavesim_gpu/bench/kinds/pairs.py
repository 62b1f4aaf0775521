"""Pairs of dependent products: every way to synchronise ours, and what a user would run instead.

Example: at each size all kinds of plan are screened in the best few cuts and orders; the fastest of each
kind then runs in turns with cuBLASLt and PyTorch, and so do semaphores and stream sync in the cut where their
difference was largest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim_gpu.bench.contenders import (
    NONE,
    SCREENING_ROUNDS,
    SCREENING_WARM_UP_S,
    SHORTLIST_ROUNDS,
    CheckedCandidate,
    describe_case,
    library_entry,
    program_entry,
    time_and_judge,
)
from wavesim_gpu.bench.kinds.variants import STREAM, PairConfig, TileConfig, Workload, mlp_pair, weight_bytes
from wavesim_gpu.bench.libraries.cublaslt import LtChain
from wavesim_gpu.bench.libraries.torch_chain import TorchChain
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.run.operands import Operands, bind
from wavesim_gpu.run.planned_kernels import kernels_of, wanted_kernels
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, OutputCheck
from wavesim_gpu.run.timing import Rounds

LIBRARIES: Mapping[str, Callable[[Operands, int], Any]] = {"cublaslt": LtChain, "torch": TorchChain}
SAME_CUT = "same-cut"
FOLLOWED = 3  # variants of a kind in which those that follow it are tried
SHORTLIST = 3  # variants of a kind that are screened again


class PairStudy:
    """One workload at one size. Screen as often as wanted, then `finish`.

    Every timed round is `repeats` runs back to back.
    """

    def __init__(
        self,
        runner: CupyRunner,
        workload: Workload,
        tokens: int,
        tile_k: int,
        some: TileConfig,
        repeats: int = 1,
    ) -> None:
        self._repeats = repeats
        self._runner, self._workload, self._tokens, self._tile_k = runner, workload, tokens, tile_k
        pipeline = self._pipeline((some, some))
        self._base = runner.operands(pipeline, seed=tokens)
        self._expected = reference(self._base)
        self._entries: dict[PairConfig, CheckedCandidate] = {}
        self._screened: dict[PairConfig, float] = {}
        self._shortlisted: dict[PairConfig, float] = {}
        self._tags = {"workload": workload, "tokens": tokens, "weight_bytes": weight_bytes(pipeline)}
        self._tags |= {"repeats": repeats}
        self.cases: list[dict[str, Any]] = []

    def screen(self, variants: Iterable[PairConfig]) -> None:
        """A few rounds of those not screened yet; a wrong or stuck one is reported, and no finalist.

        Kernels that lack a cut are left out.
        """
        new = [v for v in dict.fromkeys(variants) if v not in self._entries and self._has_kernels(v)]
        self._compile(new)
        self._entries |= {variant: self._entry(variant) for variant in new}
        self._screened |= self._medians(new, SCREENING_ROUNDS)

    def _medians(self, variants: Sequence[PairConfig], rounds: int) -> dict[PairConfig, float]:
        """In ns, of those that are right; all become cases."""
        entries = {str(variant): self._entries[variant] for variant in variants}
        result, verdicts, sampler = time_and_judge(entries, rounds, SCREENING_WARM_UP_S)
        for variant in variants:
            name = str(variant)
            self._add(variant.kind.name, result.get(name, NONE), verdicts[name], sampler, variant)
        good = [variant for variant in variants if verdicts[str(variant)].is_good]
        return {variant: median(result[str(variant)].times_ns) for variant in good}

    def _shortlist(self) -> None:
        """The fastest few of each kind, screened again."""
        kinds: dict[str, list[PairConfig]] = {}
        for variant in sorted(self._screened, key=self._screened.__getitem__):
            kinds.setdefault(variant.kind.name, []).append(variant)
        few = [variant for those in kinds.values() for variant in those[:SHORTLIST]]
        self._shortlisted = self._medians(few, SHORTLIST_ROUNDS)

    def screen_in_turn(self, variants: Iterable[PairConfig]) -> None:
        """The same in two steps: kinds that follow another one only in the best few variants of that one."""
        variants = list(variants)
        self.screen(variant for variant in variants if not variant.kind.follows)
        self.screen(variant for variant in variants if self._is_worth_it(variant))

    def _is_worth_it(self, variant: PairConfig) -> bool:
        leaders = [v for v in self._screened if v.kind.name == variant.kind.follows]
        best = sorted(leaders, key=self._screened.__getitem__)[:FOLLOWED]
        return not leaders or (variant.cuts, variant.order) in [(v.cuts, v.order) for v in best]

    def pipeline(self, variant: PairConfig) -> Pipeline:
        """The pair in the variant's cuts."""
        return self._pipeline(variant.cuts)

    def best(self, *, has_semaphores: bool) -> PairConfig | None:
        """The fastest screened so far with semaphores, or without."""
        screened = self._shortlisted or self._screened
        those = [variant for variant in screened if variant.has_semaphores == has_semaphores]
        return min(those, key=screened.__getitem__, default=None)

    def finish(self, rounds: int) -> list[dict[str, Any]]:
        """The finalists and the libraries in turns; all cases, screening included."""
        self._shortlist()
        finalists = self._finalists()
        libraries = {n: make(self._base, self._repeats) for n, make in LIBRARIES.items() if _is_there(make)}
        entries = {name: self._entries[variant] for name, variant in finalists.items()}
        entries |= {
            name: library_entry(library, self._base, self._expected, self._repeats)
            for name, library in libraries.items()
        }
        result, verdicts, sampler = time_and_judge(entries, rounds)
        for name, variant in finalists.items():
            roles = [
                role
                for role, holder in self._roles().items()
                if holder == variant and not name.startswith(SAME_CUT)
            ]
            self._add(name, result[name], verdicts[name], sampler, variant, roles)
        for name in libraries:
            self._add(name, result.get(name, NONE), verdicts[name], sampler, None, [])
        return self.cases

    def _roles(self) -> dict[str, PairConfig | None]:
        """Chosen by screening, so that the final rounds judge a choice that was made without them."""
        plain = [v for v in self._shortlisted if v.has_semaphores or v.kind.name == STREAM]
        return {
            "cusync": self.best(has_semaphores=True),
            "tuned": min(plain, key=self._shortlisted.__getitem__, default=None),
        }

    def _finalists(self) -> dict[str, PairConfig]:
        """The fastest of each kind by its name, and both of the cut and order where semaphores gain most."""
        result: dict[str, PairConfig] = {}
        for variant in sorted(self._shortlisted, key=self._shortlisted.__getitem__):
            result.setdefault(variant.kind.name, variant)
        plain = {(v.cuts, v.order): v for v in self._screened if v.kind.name == STREAM}
        gains = {
            v: self._screened[plain[v.cuts, v.order]] / self._screened[v]
            for v in self._screened
            if v.has_semaphores and (v.cuts, v.order) in plain
        }
        if gains:
            most = max(gains, key=gains.__getitem__)
            result |= {SAME_CUT: most, f"{SAME_CUT} {STREAM}": plain[most.cuts, most.order]}
        return result

    def _has_kernels(self, variant: PairConfig) -> bool:
        try:
            kernels_of(self._pipeline(variant.cuts), variant.plan, self._runner.device, variant.kind.backend)
        except DescriptionError:
            return False
        return True

    def _compile(self, variants: Sequence[PairConfig]) -> None:
        compile_all(
            wanted
            for variant in variants
            for wanted in wanted_kernels(
                self._pipeline(variant.cuts), variant.plan, Build(), variant.kind.backend
            )
        )

    def _entry(self, variant: PairConfig) -> CheckedCandidate:
        """The variant over outputs of its own."""
        runner = self._runner
        pipeline = self._pipeline(variant.cuts)
        first = pipeline.stages[0].name
        operands = bind(pipeline, {first: self._base.a[first]}, self._base.b)
        program = runner.program(operands, variant.plan)
        return program_entry(runner, program, runner.contender(program, self._repeats), self._expected)

    def _pipeline(self, cuts: tuple[TileConfig, TileConfig]) -> Pipeline:
        return mlp_pair(self._workload, self._tokens, cuts, self._tile_k)

    def _add(
        self,
        name: str,
        rounds: Rounds,
        verdict: OutputCheck,
        sampler: Any,
        variant: PairConfig | None,
        roles: list[str] | None = None,
    ) -> None:
        """One case; `roles` None for a screened one."""
        words: dict[str, Any] = {"is_final": roles is not None, "roles": roles or []}
        if variant is not None:
            words |= {
                "kernels": variant.kind.stored[0],
                "plan": variant.kind.stored[1],
                "cuts": [str(cut) for cut in variant.cuts],
                "order": variant.order.name,
            }
        self.cases.append(describe_case(name, {**self._tags, **words}, rounds, verdict, sampler))


def _is_there(make: Callable[[Operands, int], Any]) -> bool:
    """PyTorch is optional; cuBLASLt comes with CuPy."""
    return make is not TorchChain or find_spec("torch") is not None
