"""A situation as JSON that `situation_file` reads: the same fields, to be edited.

Example: the launches of a profile, in which somebody then says which kernels have the largest carve-out.
"""

import json
from typing import Any

from wavesim.safety.hang.situation import BlockWait, Situation
from wavesim.streams.operation import StreamOperation


def situation_json(situation: Situation) -> str:
    """The situation as JSON that `load_situation` reads."""
    return json.dumps(_document(situation), indent=1) + "\n"


def _document(situation: Situation) -> dict[str, Any]:
    return {
        "name": situation.name,
        "source": situation.source,
        "devices": [
            {
                "name": part.name,
                "device": part.device.name,
                "sm_count": part.device.sm_count,
                "limited_by": part.limited_by,
                "held_sms": part.held_sms,
                "mps": part.is_mps,
                "queues": part.queues,
            }
            for part in situation.devices
        ],
        "operations": [_operation_document(one) for one in situation.operations],
        "waits": [_wait_document(one) for one in situation.waits],
        "semaphores": [
            {
                "name": one.name,
                "initial": one.initial,
                "posts": [
                    {"producer": post.producer, "each": post.each, "until": post.until}
                    | ({} if post.blocks is None else {"blocks": post.blocks})
                    for post in one.posts
                ],
            }
            for one in situation.semaphores
        ],
        "notes": list(situation.notes),
        "all_waits": situation.has_all_waits,
    }


def _operation_document(one: StreamOperation) -> dict[str, Any]:
    kernel = {
        "grid": [one.blocks],
        "threads": one.block.threads,
        "registers": one.block.registers,
        "static_shared_bytes": one.block.static_shared_bytes,
        "dynamic_shared_bytes": one.block.dynamic_shared_bytes,
        "carveout": one.carveout,
        "cluster": one.cluster,
        "cooperative": one.is_cooperative,
    }
    return {
        "name": one.name,
        "kind": one.kind,
        "device": one.device,
        "stream": one.stream,
        "blocking": one.is_blocking,
        "process": one.process,
        "priority": one.priority,
        "dependent": one.is_dependent,
        "trigger": one.trigger,
        "after": list(one.after),
        "host_after": list(one.host_after),
        "after_start": list(one.after_start),
    } | (kernel if one.is_kernel else {})


def _wait_document(one: BlockWait) -> dict[str, Any]:
    if one.is_unknown:
        return {"waiter": one.waiter, "unknown": True}
    if one.semaphore:
        return {"waiter": one.waiter, "semaphore": one.semaphore, "value": one.value}
    rows = {"rows": one.rows} if one.blocks == "row" else {}
    return {"waiter": one.waiter, "producer": one.producer, "blocks": one.blocks, "until": one.until} | rows
