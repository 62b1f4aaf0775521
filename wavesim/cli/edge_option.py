"""`--edges`: how each edge of a pipeline is synchronised, where it is otherwise than the rest.

Example: `--sync pdl+row --edges qkv-attention=tile,attention-out=grid` has attention wait for tiles of the
QKV product, the output product for the whole of attention, which is an edge without overlap, and all other
edges for rows.
"""

import argparse
from dataclasses import replace

from wavesim.codegen.policies import policy_named
from wavesim.errors import DescriptionError
from wavesim.guard.bounds import listed, shown
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync, Policy
from wavesim.plan.semaphores import Edge, edges_of

EXAMPLE = "qkv-attention=row,attention-out=grid"


def add_edges_option(parser: argparse.ArgumentParser) -> None:
    """`--edges` for commands that take one plan with semaphores."""
    parser.add_argument(
        "--edges",
        default="",
        metavar="PRODUCER-CONSUMER=POLICY,...",
        help=f"edges with a policy of their own, as in {EXAMPLE}; grid: this edge does not overlap",
    )


def with_edges(plan: Plan, pipeline: Pipeline, text: str) -> Plan:
    """The plan with the policies that `--edges` names. Raises `DescriptionError`."""
    if not text:
        return plan
    if not plan.sync.has_semaphores:
        raise DescriptionError(
            f"edges is {shown(text)}, and {plan.label} has no semaphores to choose; use --sync row, tile or "
            "pdl+row"
        )
    policies: dict[Edge, Policy] = {}
    for entry in listed("edges", text):
        name, _, word = entry.partition("=")
        edge = _edge_named(pipeline, name)
        if edge in policies:
            raise DescriptionError(f"edges has {name!r} twice; name each edge once")
        policies[edge] = GridSync() if word == "grid" else policy_named(pipeline, edge, word)
    return replace(plan, sync=plan.sync.with_policies(policies))


def _edge_named(pipeline: Pipeline, name: str) -> Edge:
    known = {f"{producer}-{consumer}": (producer, consumer) for producer, consumer in edges_of(pipeline)}
    if name not in known:
        raise DescriptionError(f"edges has {shown(name)}; {pipeline.name} has {', '.join(known) or 'none'}")
    return known[name]
