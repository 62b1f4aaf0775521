"""A policy for each edge of a pipeline, as text: what `--edges` takes and the what-if on a layer chooses.

Example: under pdl+row "qkv-attention=tile,attention-out=grid" has attention wait for tiles of the QKV
product, the output product for the whole of attention, which is an edge without overlap, and all other edges
for rows.
"""

from collections.abc import Mapping
from dataclasses import replace

from wavesim.codegen.policies import derive_policies, policy_named
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync, Policy
from wavesim.plan.semaphores import Edge, edges_of
from wavesim.safe_io.bounds import listed, shown

NO_OVERLAP = GridSync().name


def with_edges(plan: Plan, pipeline: Pipeline, text: str) -> Plan:
    """The plan with the policies that a text names. Raises `DescriptionError`."""
    if not text:
        return plan
    if not plan.sync.has_semaphores:
        raise DescriptionError(
            f"edges is {shown(text)}, and {plan.label} has no semaphores to choose; use --sync row, tile or "
            "pdl+row"
        )
    policies: dict[Edge, Policy] = {}
    for name, word in chosen_edges(pipeline, text).items():
        edge = edges_by_name(pipeline)[name]
        policies[edge] = GridSync() if word == NO_OVERLAP else policy_named(pipeline, edge, word)
    return replace(plan, sync=plan.sync.with_policies(policies))


def chosen_edges(pipeline: Pipeline, text: str) -> dict[str, str]:
    """The policies' names by edge, "qkv-attention". Raises `DescriptionError` for other edges."""
    known, chosen = edges_by_name(pipeline), dict[str, str]()
    for entry in listed("edges", text) if text else ():
        name, _, word = entry.partition("=")
        if name not in known:
            raise DescriptionError(
                f"edges has {shown(name)}; {pipeline.name} has {', '.join(known) or 'none'}"
            )
        if name in chosen:
            raise DescriptionError(f"edges has {name!r} twice; name each edge once")
        chosen[name] = word
    return chosen


def edges_text(chosen: Mapping[str, str]) -> str:
    """The text of policies' names by edge; an empty name is left out."""
    return ",".join(f"{edge}={word}" for edge, word in chosen.items() if word)


def edges_by_name(pipeline: Pipeline) -> dict[str, Edge]:
    """(producer, consumer) by "producer-consumer"."""
    return {f"{producer}-{consumer}": (producer, consumer) for producer, consumer in edges_of(pipeline)}


def notable_policies(pipeline: Pipeline, edge: Edge) -> tuple[str, ...]:
    """Names of an edge's policies that one would choose by hand, finest first; the last does not overlap.

    The paper's, what its consumers need together, and the whole grid. Raises as `derive_policies` does.
    """
    derived = derive_policies(pipeline, edge)
    named = [entry.name for entry in derived if entry.paper_name or entry.name == "together"]
    return (*named, NO_OVERLAP)
