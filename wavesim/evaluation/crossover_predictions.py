"""Crossovers that are registered before they are measured: of a listed family flips, table, gains and sizes.

Example: `registered_family(listed, found)` is what is written down of GPT-3's MLP on one of eight GPUs.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from wavesim.evaluation.crossover_runs import flip_of, sizes_to_measure
from wavesim.model.device import Device
from wavesim.tuning.crossover.crossing import Crossover, crossover_of
from wavesim.tuning.crossover.family import mlp_of
from wavesim.workloads.catalogue import parse_tile


@dataclass(frozen=True)
class ListedFamily:
    """A family as the list has it; `backend` is that of its kernels."""

    model: str
    tp: int
    tile: str
    backend: str

    @property
    def name(self) -> str:
        """What files call it."""
        return f"{self.model} tp{self.tp} {self.tile}"

    def crossover(self, device: Device, m_to: int, executor: Executor | None = None) -> Crossover:
        """What the model says of it today. Raises `DescriptionError`."""
        family = mlp_of(self.model, self.tp, parse_tile(self.tile), self.backend)
        return crossover_of(family, device, (1, m_to), executor=executor)


def registered_family(listed: ListedFamily, found: Crossover) -> dict[str, Any]:
    """What is written down before anything runs: gains, table, flip and the sizes to be measured."""
    gains = [
        {
            "m_from": size.m_from,
            "m_to": size.m_to,
            "points": {way.word: round(gain.points, 2) for way, gain in size.gains.items()},
        }
        for size in found.sizes
    ]
    flip = flip_of({size.m_from: {w.word: g.points for w, g in size.gains.items()} for size in found.sizes})
    return {
        "name": listed.name,
        "model": listed.model,
        "tp": listed.tp,
        "tile": listed.tile,
        "order": found.ways[0].order,
        "flip": flip,
        "table": [{"m_from": row.m_from, "m_to": row.m_to, "plan": row.way.word} for row in found.table],
        "sizes": sizes_to_measure([(size.m_from, size.m_to) for size in found.sizes], flip),
        "gains": gains,
        "basis": found.forecast.basis,
    }
