"""`wavesim gen`: orders, policies and options of a workload, and one plan's CUDA header or Triton module.

Example: `wavesim gen gpt3-mlp --sync row --order grouped:4 --out mlp.cuh` writes a header; with `--json` it
lists what could be generated. With `--file pair.toml --sync pdl+row --triton --out tiles.py` it writes Triton
functions for a pair of one's own.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavesim.cli.printing import print_result
from wavesim.cli.shared_options import add_shared
from wavesim.cli.subject import add_workload_options, described
from wavesim.codegen.cuda import SizesWord, generate
from wavesim.codegen.edge_policies import with_edges
from wavesim.codegen.options import options_for
from wavesim.codegen.orders import order_sets, orders_backward
from wavesim.codegen.policies import derive_policies, policy_named
from wavesim.codegen.triton_text import generate_triton
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Order, parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.semaphores import edges_of
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.writing import write_text
from wavesim.safety.deadlock import safety_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_workload_options(parser)
    parser.add_argument(
        "--sync",
        default="row",
        help="stream, or a policy's name: row, tile, block:6x1 ...; pdl+row is row by dependent launch",
    )
    add_shared(parser, "--edges")
    parser.add_argument("--no-wait-kernel", action="store_true", help="leave the wait-kernel out")
    parser.add_argument(
        "--runtime-sizes", action="store_true", help="leave the grids to run time: one header for every size"
    )
    parser.add_argument("--triton", action="store_true", help="Triton functions in place of a CUDA header")
    parser.add_argument("--out", type=Path, help="write it to this file instead of printing it")


def run(options: argparse.Namespace) -> int:
    """Prints or writes the header or the module, or lists what could be generated."""
    subject = described(options)
    pipeline, device = subject.pipeline, subject.device
    options.order = subject.order(options.order)
    plan = with_edges(_plan(pipeline, options), pipeline, options.edges)
    if options.json:
        _require_no_header(options)
        return print_result(options, generated_json(pipeline, plan, device), "")
    if options.triton:
        if options.runtime_sizes:
            raise DescriptionError(
                "--runtime-sizes is of the CUDA header; Triton compiles per size. Leave it or --triton out"
            )
        text = generate_triton(pipeline, plan)
        return print_result(options, {}, _written(text, pipeline, plan, device, options.out))
    sizes: SizesWord = "runtime" if options.runtime_sizes else "constant"
    return print_result(options, {}, write_header(pipeline, plan, device, options.out, sizes))


def _plan(pipeline: Pipeline, options: argparse.Namespace) -> Plan:
    """As `described_plan`; also words that say how kernels are launched, such as "pdl+row"."""
    if "+" in options.sync:
        if options.no_wait_kernel:
            raise DescriptionError(
                f"sync is {shown(options.sync)}, which says how its kernels are launched; leave "
                "--no-wait-kernel out, or write streams:no-wait-kernel+row"
            )
        return replace(parse_plan(options.sync), orders=_orders_named(pipeline, options.order))
    return described_plan(pipeline, options.sync, options.order, wait_kernel=not options.no_wait_kernel)


def _require_no_header(options: argparse.Namespace) -> None:
    for name in ("out", "runtime_sizes", "triton"):
        if getattr(options, name):
            raise DescriptionError(
                f"--{name.replace('_', '-')} is of what is written, --json lists what could be generated; "
                "leave one of them out"
            )


def described_plan(pipeline: Pipeline, sync: str, order: str, *, wait_kernel: bool = True) -> Plan:
    """The plan of a policy's and an order's names, as `wavesim gen --json` lists them; "stream" for none.

    "derived" is the order worked back from the dependencies. Raises `DescriptionError`.
    """
    orders = _orders_named(pipeline, order)
    if sync == "stream":
        if not wait_kernel:
            raise DescriptionError("sync is 'stream', which has no wait-kernel; leave --no-wait-kernel out")
        return StreamSync(orders=orders)
    try:
        policies = {edge: policy_named(pipeline, edge, sync) for edge in edges_of(pipeline)}
    except DescriptionError as error:
        raise _why_not(sync, error) from None
    if not policies:
        raise DescriptionError(f"pipeline {pipeline.name} has no dependencies to synchronise; use stream")
    first = next(iter(policies.values()))
    others = {edge: policy for edge, policy in policies.items() if policy != first}
    return SemaphoreSync(first, policies=others, orders=orders, wait_kernel=wait_kernel)


def _why_not(sync: str, error: DescriptionError) -> DescriptionError:
    """A word of another plan is no misspelt policy: what to write of it is a kernel and not a header."""
    try:
        parse_plan(sync)
    except DescriptionError:
        return error
    return DescriptionError(
        f"sync is {shown(sync)}, a plan whose kernels a library or you must bring: gen writes none. "
        "It writes row, tile and what --json lists, for two streams or behind pdl+"
    )


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
    return {
        "dependencies": dependencies,
        "policies": policies,
        "orders": orders,
        "options": options,
        "safety": safety_of(pipeline, plan, device, carveout="full").as_json(),
    }


def write_header(
    pipeline: Pipeline, plan: Plan, device: Device, out: Path | None, sizes: SizesWord = "constant"
) -> str:
    """The header's text, or where it was written. Raises `OutputError` if it cannot be."""
    return _written(generate(pipeline, plan, device, sizes=sizes), pipeline, plan, device, out)


def _written(text: str, pipeline: Pipeline, plan: Plan, device: Device, out: Path | None) -> str:
    if out is None:
        return text.rstrip("\n")
    write_text(out, text)
    safety = safety_of(pipeline, plan, device, carveout="full")
    return f"{out}: {len(text.splitlines())} lines, {plan.label} of {pipeline.name}\n{safety.line}"
