"""Pairs of dependent products: every way to synchronise ours, and what a user would run instead.

Picture: at each size all kinds of plan are screened in the best few cuts and orders; the fastest of each
kind then runs in turns with cuBLASLt, with PyTorch, and with stream sync in the cut of the best semaphores.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any

from wavesim.model.order import Order
from wavesim.model.plan import Plan, SemaphorePlan, parse_plan
from wavesim_gpu.baselines.cublaslt import LtChain
from wavesim_gpu.baselines.torch_chain import TorchChain
from wavesim_gpu.operands import Operands, bind, reference
from wavesim_gpu.runner import CupyRunner, Verdict
from wavesim_gpu.studies.case import describe_case, judge, time_together
from wavesim_gpu.studies.products import SCREENING_ROUNDS, SCREENING_WARM_UP_S
from wavesim_gpu.studies.shapes import Cut, Workload, mlp_pair, weight_bytes
from wavesim_gpu.timing import Contender

LIBRARIES: Mapping[str, Callable[[Operands], Any]] = {"cublaslt": LtChain, "torch": TorchChain}


@dataclass(frozen=True)
class Variant:
    """One thing to run: a kind of plan in a cut of each stage, in one tile order."""

    kind: str
    cuts: tuple[Cut, Cut]
    order: Order

    @property
    def plan(self) -> Plan:
        """The plan."""
        return parse_plan(self.kind, self.order.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.cuts[0]} {self.cuts[1]} {self.order.name}"


@dataclass(frozen=True)
class Ready:
    """A variant's program and how to start it."""

    program: Any
    contender: Contender


def variants_of(
    kinds: Iterable[str], cuts: Sequence[tuple[Cut, Cut]], orders: Iterable[Order]
) -> list[Variant]:
    """All kinds in all cuts and orders."""
    return [Variant(kind, cut, order) for kind in kinds for cut in cuts for order in orders]


def pair_cases(
    runner: CupyRunner,
    workload: Workload,
    tokens: int,
    variants: Sequence[Variant],
    rounds: int,
) -> list[dict[str, Any]]:
    """The fastest of each kind, the same-cut stream sync and the libraries; screening rounds come along."""
    base = runner.operands(mlp_pair(workload, tokens, variants[0].cuts, runner.family.tile_k), seed=tokens)
    expected = reference(base)
    ready = {variant: _ready(runner, base, variant) for variant in variants}
    verdicts = {v: runner.verdict(r.program, r.contender.launch, expected) for v, r in ready.items()}
    good = {variant: one for variant, one in ready.items() if verdicts[variant].is_good}
    screened, sampler = time_together(
        {str(variant): one.contender for variant, one in good.items()}, SCREENING_ROUNDS, SCREENING_WARM_UP_S
    )
    tags = {
        "workload": workload,
        "tokens": tokens,
        "kernels": runner.family.name,
        "weight_bytes": weight_bytes(base.pipeline),
    }
    cases = [
        describe_case(
            variant.kind, {**tags, **_words(variant), "is_screening": True}, screened[str(variant)],
            verdicts[variant], sampler,
        )
        for variant in good
    ]  # fmt: skip
    cases += [_refused(variant, tags, verdicts[variant]) for variant in ready if variant not in good]
    finalists = _finalists(list(good), lambda variant: median(screened[str(variant)].times_ns))
    return cases + _final(base, expected, good, verdicts, finalists, rounds, tags)


def _final(
    base: Operands,
    expected: Mapping[str, Any],
    ready: Mapping[Variant, Ready],
    verdicts: Mapping[Variant, Verdict],
    finalists: Mapping[str, Variant],
    rounds: int,
    tags: Mapping[str, Any],
) -> list[dict[str, Any]]:
    libraries = {name: make(base) for name, make in LIBRARIES.items() if _is_there(make)}
    judged = {name: _judged(library, base, expected) for name, library in libraries.items()}
    contenders = {name: ready[variant].contender for name, variant in finalists.items()}
    contenders |= {n: Contender(library.launch, library.stream) for n, library in libraries.items()}
    found, sampler = time_together(contenders, rounds)
    for variant in finalists.values():
        ready[variant].program.sync.check()
    rows = {name: (_words(variant), verdicts[variant]) for name, variant in finalists.items()}
    rows |= {name: ({}, verdict) for name, verdict in judged.items()}
    return [
        describe_case(name, {**tags, **words, "is_screening": False}, found[name], verdict, sampler)
        for name, (words, verdict) in rows.items()
    ]


def _finalists(variants: Sequence[Variant], time_of: Callable[[Variant], float]) -> dict[str, Variant]:
    """The fastest of each kind by its name; "same-cut stream" has the best semaphores' cuts and order."""
    best: dict[str, Variant] = {}
    for variant in sorted(variants, key=time_of):
        best.setdefault(variant.kind, variant)
    semaphores = [variant for variant in best.values() if isinstance(variant.plan, SemaphorePlan)]
    if semaphores:
        fastest = min(semaphores, key=time_of)
        same = Variant("stream", fastest.cuts, fastest.order)
        if same in variants:
            best["same-cut stream"] = same
    return best


def _ready(runner: CupyRunner, base: Operands, variant: Variant) -> Ready:
    workload, tokens = base.pipeline.name, base.pipeline.stages[0].gemm.m
    pipeline = mlp_pair(workload, tokens, variant.cuts, runner.family.tile_k)  # type: ignore[arg-type]
    inputs = {pipeline.stages[0].name: base.a[pipeline.stages[0].name]}
    program = runner.program(bind(pipeline, inputs, base.b), variant.plan)
    return Ready(program, Contender(runner.launcher(program), program.streams[0]))


def _judged(library: Any, base: Operands, expected: Mapping[str, Any]) -> Verdict:
    library.launch()
    library.stream.synchronize()
    return judge(base, library.outputs, expected)


def _is_there(make: Callable[[Operands], Any]) -> bool:
    """PyTorch is optional; cuBLASLt comes with CuPy."""
    return make is not TorchChain or find_spec("torch") is not None


def _words(variant: Variant) -> dict[str, Any]:
    return {"cuts": [str(cut) for cut in variant.cuts], "order": variant.order.name, "plan": variant.kind}


def _refused(variant: Variant, tags: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    """A wrong result: reported, never timed."""
    judged = {"errors": dict(verdict.errors), "is_good": False}
    return {"name": variant.kind, **tags, **_words(variant), "is_screening": True, "rounds_ns": [],
            "clocks_ghz": [], "verdict": judged}  # fmt: skip
