"""C++ names of stages and dependencies: their own, or neutral ones for a header that many pipelines share.

Example: `Names()` calls the dependency of gemm2 on gemm1 `gemm1_to_gemm2`; `Names({"gemm1": "stage", "gemm2":
"consumer_0"})` calls it `stage_to_consumer_0`, so that two layers with the same grids give the same text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavesim.guard.escaping import identifier


@dataclass(frozen=True)
class Names:
    """`renamed`: the words for stages that are not called by their own names."""

    renamed: Mapping[str, str] = field(default_factory=dict)

    def stage(self, name: str) -> str:
        """The C++ name of a stage."""
        return identifier(self.renamed.get(name, name))

    def edge(self, edge: tuple[str, str]) -> str:
        """The C++ name of a dependency, (producer, consumer)."""
        producer, consumer = (self.renamed.get(name, name) for name in edge)
        return identifier(f"{producer}_to_{consumer}")
