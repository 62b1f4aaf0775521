"""Launches and mirrors of semaphores, damaged and hostile; `wavesim why-hang FILE`."""

import json
import random
from pathlib import Path
from typing import Any

from harness import Target
from judging import judged_json, require
from mutations import HOSTILE, with_bytes_changed, with_raw_numbers, with_values_changed

from wavesim.safety.hang.mirror import HEAD, MAGIC, mirror_head

USUAL = (
    *("a", "b", "c", "d", "gpu0", "gpu1", "row", "all", "start", "end", "legacy", "copy", "host", "full"),
    *(True, False, 1, 2, 4, 32, 132, 264, 1024, [4], [132, 2], ["a"], ["b", "c"], []),
)


def made(chance: random.Random, data: bytes) -> bytes:
    """Bytes changed; or fields of the situation, or of a mirror's header before the same counters."""
    if chance.random() < 0.2:
        return with_bytes_changed(chance, data)
    if not data.startswith(MAGIC):
        value = json.loads(data)
        if chance.random() < 0.1:
            return with_raw_numbers(chance, value)
        return _text(with_values_changed(chance, value, _values(chance)))
    end = HEAD.size + HEAD.unpack_from(data)[1]
    header = with_values_changed(chance, json.loads(data[HEAD.size : end]), _values(chance))
    return mirror_head(header).ljust(end, b" ") + data[end:]


def _values(chance: random.Random) -> tuple[Any, ...]:
    """Mostly what fields can have, so that much is read; and now and then anything."""
    return USUAL if chance.random() < 0.7 else USUAL + HOSTILE


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", errors="surrogatepass")


def call(path: Path) -> bool:
    """An answer with its parts: a hang has somebody who is there, or whose turn never comes."""
    answer = judged_json(["why-hang", str(path)])
    if answer is None:
        return False
    require(answer["can_deadlock"] in (True, False, None), f"can_deadlock is {answer['can_deadlock']!r}")
    if answer["can_deadlock"]:
        there = [*answer["holders"], *answer["starved"], *answer["late"]]
        require(bool(there), f"it hangs, and nobody is named: {answer['why'][:200]!r}")
    for holder in answer["holders"]:
        require(
            0 < holder["blocks"] <= holder["of"], f"{holder['blocks']} of {holder['of']} blocks are there"
        )
    return True


TARGET = Target(made, call)
