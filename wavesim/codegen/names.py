"""C++ names of stages and dependencies: their own, or neutral ones for a header that many pipelines share.

Example: the dependency of gemm2 on gemm1 is `gemm1_to_gemm2`. A stage called `int` is `named_int`, and of
`up-1` and `up.1` one is `up_1` and the other `up_1_2`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, count

from wavesim.codegen.header_text import (
    ARITHMETIC,
    HOST_FUNCTIONS,
    PREPARE_KERNEL,
    PREPARED_GUARD,
    PROLOGUE,
    primitives,
)
from wavesim.model.pipeline import Pipeline
from wavesim.plan.semaphores import Edge, edges_of
from wavesim.safe_io.escaping import identifier, is_global, is_reserved

# What headers declare or use besides their fixed text. A test says which words are missing here.
_OWN = """
Grid Post Run atomicAdd int4 begin blocks columns counter_count counts_started draws_position each_post edge
edges_of_tile first group has_one_poster height input input_count need_count next_position output_count
place position post post_tile reorders_loads rows run run_with semaphore semaphore_count semaphore_of_tile
slice slices started tall tile tile_at tile_of_place value_of_tile wait wait_tile within
"""
# Usual names of stages, which members and parameters hide wherever a header says them of itself.
_HIDDEN = frozenset({"first", "value"})
_OWN_NAME = re.compile(r"(?:from|to|grid_of)_\w*|(?:need|array)_\d+")


@cache
def own_words() -> frozenset[str]:
    """The words that every header uses for itself."""
    fixed = re.sub(
        r"//.*|\"[^\"]*\"",
        "",
        f"{PROLOGUE}{ARITHMETIC}{PREPARE_KERNEL}{PREPARED_GUARD}{HOST_FUNCTIONS}{primitives()}",
    )
    return (frozenset(re.findall(r"[A-Za-z]\w*", fixed)) | frozenset(_OWN.split())) - _HIDDEN


def namespace_of(name: str) -> str:
    """The C++ name of a namespace. Beside other headers' functions it has to be one of its own."""
    return identifier(name, lambda word: _is_taken(word) or is_global(word))


def _is_taken(word: str) -> bool:
    return is_reserved(word) or word in own_words() or _OWN_NAME.fullmatch(word) is not None


@dataclass(frozen=True)
class Names:
    """The C++ names, no two alike, and none that C++, CUDA or the header itself uses."""

    stages: Mapping[str, str]
    edges: Mapping[Edge, str]

    @classmethod
    def of(cls, pipeline: Pipeline) -> "Names":
        """Names as in the description, where they can be."""
        stages, edges = [stage.name for stage in pipeline.stages], edges_of(pipeline)
        words = _distinct([*stages, *(f"{producer}_to_{consumer}" for producer, consumer in edges)])
        count = len(stages)
        return cls(
            dict(zip(stages, words[:count], strict=True)), dict(zip(edges, words[count:], strict=True))
        )

    @classmethod
    def neutral(cls, stages: Mapping[str, str], edges: Iterable[Edge]) -> "Names":
        """Given words for the stages of some dependencies."""
        return cls(stages, {edge: f"{stages[edge[0]]}_to_{stages[edge[1]]}" for edge in edges})

    def stage(self, name: str) -> str:
        """The C++ name of a stage."""
        return self.stages[name]

    def edge(self, edge: Edge) -> str:
        """The C++ name of a dependency, (producer, consumer)."""
        return self.edges[edge]


def _distinct(names: list[str]) -> list[str]:
    words: dict[int, str] = {}
    taken: set[str] = set()
    for i in sorted(range(len(names)), key=lambda i: identifier(names[i], _is_taken) != names[i]):
        base = identifier(names[i], _is_taken)
        # A number may make a word of our own: need_2.
        numbered = (identifier(f"{base}_{number}", _is_taken) for number in count(2))
        word = next(word for word in chain([base], numbered) if word not in taken)
        taken.add(word)
        words[i] = word
    return [words[i] for i in range(len(names))]
