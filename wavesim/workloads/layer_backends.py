"""Which kernels compute each kind of work of a layer, where its stages name none.

Example: `with_backends(transformer_layer("llama-3-8b", 1024))` has its products computed by `hopper` and its
attention by `hopper-attention`, whose overheads and waits its predictions take.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.documents import read_toml

FILE = Path(__file__).with_suffix(".toml")


def with_backends(pipeline: Pipeline) -> Pipeline:
    """Each stage with the kernels that compute its kind of work, where it names none."""
    return _with_names(pipeline, _backends())


def with_chained_products(pipeline: Pipeline) -> Pipeline:
    """The same, products by the kernel for chains whose blocks leave their SMs as they end."""
    return _with_names(pipeline, {**_backends(), **_backends()["chained"]})


def is_chained(pipeline: Pipeline) -> bool:
    """Whether a stage names a kernel for chains, which differs from the usual by dependent launch alone."""
    names = set(_backends()["chained"].values())
    return any(stage.backend in names for stage in pipeline.stages)


def is_layer(pipeline: Pipeline) -> bool:
    """Whether kernels of several kinds follow each other, each kind of which has a backend of its own."""
    kinds = {stage.work.word for stage in pipeline.stages}
    return len(kinds) > 1 and kinds <= set(_backends())


def _with_names(pipeline: Pipeline, names: Mapping[str, Any]) -> Pipeline:
    return pipeline.with_stages(
        {
            stage.name: replace(stage, backend=stage.backend or names.get(stage.work.word, ""))
            for stage in pipeline.stages
        }
    )


@cache
def _backends() -> Mapping[str, Any]:
    """By the word of a stage's work; "chained" those of chains, where they are others."""
    return read_toml(FILE)
