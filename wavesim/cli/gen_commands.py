"""What `wavesim gen` and `wavesim tune` print and write.

Example: `wavesim gen gpt3-mlp --sync row --order grouped:4 --out mlp.cuh` writes a header; with `--json` it
lists what could be generated. `wavesim tune gpt3-mlp --tokens 2048` prints a ranked table.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavesim.codegen.cuda import SizesWord, generate
from wavesim.codegen.options import options_for
from wavesim.codegen.orders import order_sets, orders_backward
from wavesim.codegen.policies import derive_policies, policy_named
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Order, parse_order
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.semaphores import edges_of
from wavesim.tuning.search import Tuning, tune
from wavesim.tuning.sweep import Progress


def run_gen(options: argparse.Namespace, pipeline: Pipeline, device: Device) -> tuple[dict[str, Any], str]:
    """(JSON, words) of `wavesim gen`."""
    plan = described_plan(pipeline, options.sync, options.order, wait_kernel=not options.no_wait_kernel)
    if options.json:
        return generated_json(pipeline, plan, device), ""
    sizes: SizesWord = "runtime" if options.runtime_sizes else "constant"
    return {}, write_header(pipeline, plan, device, options.out, sizes)


def run_tune(
    options: argparse.Namespace,
    pipeline: Pipeline,
    device: Device,
    other_tile: Callable[[str], Pipeline],
    progress: Progress,
) -> tuple[Tuning, dict[str, Any], str]:
    """(ranking, JSON, words) of `wavesim tune`; `other_tile("128x128")` is the workload with such tiles."""
    variants = {tile: other_tile(tile) for tile in _listed(options.tiles)}
    for word in _listed(options.split_k):
        if not word.isdigit() or int(word) < 1:
            raise DescriptionError(f"split-k is {word!r}; write numbers separated by commas, such as 2,4")
        for name, base in {"": pipeline, **variants}.items():
            if int(word) > 1 and "split-k" not in name:
                variants |= {f"{name} split-k:{word}".strip(): with_split_k(base, int(word))}
    tuning = tune(pipeline, device, variants=variants, progress=progress, results=options.results)
    words = f"{pipeline.name} on {device.name}\n{tuning.table(options.rows)}\nrun: {tuning.best.text}"
    return tuning, tuning_json(tuning), words


def _listed(text: str) -> Iterator[str]:
    return (word for word in text.split(",") if word)


def described_plan(pipeline: Pipeline, sync: str, order: str, *, wait_kernel: bool = True) -> Plan:
    """The plan of a policy's and an order's names, as `wavesim gen --json` lists them; "stream" for none.

    "derived" is the order worked back from the dependencies. Raises `DescriptionError`.
    """
    orders = _orders_named(pipeline, order)
    if sync == "stream":
        return StreamSync(orders=orders)
    policies = {edge: policy_named(pipeline, edge, sync) for edge in edges_of(pipeline)}
    if not policies:
        raise DescriptionError(f"pipeline {pipeline.name} has no dependencies to synchronise; use stream")
    first = next(iter(policies.values()))
    others = {edge: policy for edge, policy in policies.items() if policy != first}
    return SemaphoreSync(first, policies=others, orders=orders, wait_kernel=wait_kernel)


def _orders_named(pipeline: Pipeline, name: str) -> Mapping[str, Order]:
    if name == "derived":
        return orders_backward(pipeline)
    sets = order_sets(pipeline)
    if name in sets:
        return sets[name]
    try:
        return dict.fromkeys((stage.name for stage in pipeline.stages), parse_order(name))
    except DescriptionError as error:
        raise DescriptionError(f"{error}; derived for this pipeline are derived, {', '.join(sets)}") from None


def generated_json(pipeline: Pipeline, plan: Plan, device: Device) -> dict[str, Any]:
    """All that can be generated for a pipeline, and the options of one plan."""
    policies = [
        {
            "dependency": f"{producer} -> {consumer}",
            "name": derived.name,
            "paper_name": derived.paper_name,
            "semaphores": derived.table.count,
            "values": list(derived.values),
            "is_formula": derived.formula is not None,
        }
        for producer, consumer in edges_of(pipeline)
        for derived in derive_policies(pipeline, (producer, consumer))
    ]
    orders = [
        {"name": name, "stages": {stage: order.name for stage, order in orders.items()}}
        for name, orders in order_sets(pipeline).items()
    ]
    options = [
        {"name": option.name, "subject": option.subject, "used": option.is_used, "why": option.why}
        for option in options_for(pipeline, plan, device)
    ]
    dependencies = [str(dependency) for dependency in pipeline.dependencies]
    return {"dependencies": dependencies, "policies": policies, "orders": orders, "options": options}


def write_header(
    pipeline: Pipeline, plan: Plan, device: Device, out: Path | None, sizes: SizesWord = "constant"
) -> str:
    """The header's text, or where it was written. Raises `DescriptionError` if it cannot be."""
    text = generate(pipeline, plan, device, sizes=sizes)
    if out is None:
        return text.rstrip("\n")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DescriptionError(f"{out}: cannot be written ({error.strerror}); give another path") from error
    return f"{out}: {len(text.splitlines())} lines, {plan.label} of {pipeline.name}"


def tuning_json(tuning: Tuning) -> dict[str, Any]:
    """The ranking, best first; `run` names the plan to run."""
    plans = [
        {
            "plan": row.name,
            "predicted_ns": row.predicted_ns,
            "improvement_points": row.improvement_points,
            "semaphores": row.semaphores,
        }
        for row in tuning.plans
    ]
    return {
        "plans": plans,
        "seconds": tuning.seconds,
        "run": tuning.best.name,
        "margin_points": tuning.margin_points,
        "left_out": dict(tuning.left_out),
        "is_complete": tuning.is_complete,
        "basis": tuning.basis,
        "defaults": list(tuning.defaults),
        "low": tuning.interval[0],
        "high": tuning.interval[1],
        "scored": tuning.margin_points is not None,
    }


def with_split_k(pipeline: Pipeline, count: int) -> Pipeline:
    """The same computation with every GEMM's k split `count` ways; dependencies name the new stages."""
    stages = {
        stage.name: replace(stage, work=replace(stage.gemm, split_k=count)) for stage in pipeline.stages
    }
    dependencies = []
    for dependency in pipeline.dependencies:
        consumer = replace(dependency.consumer, stage=stages[dependency.consumer.stage.name])
        needs = [replace(need, stage=stages[need.stage.name]) for need in dependency.needs]
        dependencies.append(replace(dependency, consumer=consumer, needs=needs))
    parameters = {**pipeline.parameters, "split_k": count}
    return replace(pipeline, stages=list(stages.values()), dependencies=dependencies, parameters=parameters)
