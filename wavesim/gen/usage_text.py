"""The first comment of a generated header: what it is for, which options it uses, the lines to add.

Picture: a CUTLASS-style kernel gains three lines: one at its top that says which tile it computes, one
wait before it loads a chunk of A, one post after its epilogue.
"""

import textwrap
from collections.abc import Iterator

from wavesim.gen.cuda_text import identifier
from wavesim.gen.options import REORDER_LOADS, Option, is_used
from wavesim.gen.policies import edges_of
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync


def usage_lines(
    pipeline: Pipeline, plan: Plan, device: Device, options: tuple[Option, ...], space: str
) -> list[str]:
    """The comment block."""
    orders = ", ".join(f"{stage.name} {plan.order_of(stage.name).name}" for stage in pipeline.stages)
    words = [
        f"{pipeline.name} on {device.name}: {plan.label}. Orders: {orders}.",
        "Written by wavesim gen; change the description and write it again, not this file.",
        "",
        *_dependency_words(pipeline),
        "",
        *_option_words(options),
        *_kernel_words(pipeline, plan, options, space),
    ]
    return [f"// {line}".rstrip() for text in words for line in _wrapped(text)] + [""]


def _wrapped(text: str) -> list[str]:
    if text.startswith("    "):
        return [text]
    return textwrap.wrap(text, 104, subsequent_indent="  " if text.startswith("- ") else "") or [""]


def _dependency_words(pipeline: Pipeline) -> list[str]:
    return ["What reads what:", *(f"- {dependency}" for dependency in pipeline.dependencies)]


def _option_words(options: tuple[Option, ...]) -> Iterator[str]:
    if options:
        yield "Options:"
        for option in options:
            yield f"- {option.name}, {option.subject}: {'yes' if option.is_used else 'no'}, {option.why}."
        yield ""


def _kernel_words(pipeline: Pipeline, plan: Plan, options: tuple[Option, ...], space: str) -> Iterator[str]:
    consumers = {consumer for _, consumer in edges_of(pipeline)}
    yield "Lines to add. Launch each kernel as a one-dimensional grid of STAGE::blocks blocks; `counters` is"
    yield f"unsigned[{space}::counter_count] in global memory, zeroed on the first stream before every run."
    if not isinstance(plan, SemaphoreSync):
        yield "Stream sync: launch the kernels one after another on one stream; nobody waits or posts."
    for stage in pipeline.stages:
        name = f"{space}::{identifier(stage.name)}"
        yield ""
        yield f"In the kernel of {stage.name}:"
        yield f"    const {space}::Tile tile = {name}::begin(counters);  // in place of blockIdx"
        if stage.name in consumers and isinstance(plan, SemaphoreSync):
            yield from _wait_words(pipeline, stage.name, options, space)
        else:
            yield "    ... main loop ..."
        yield "    ... epilogue: store the tile ..."
        if pipeline.consumers_of(stage.name) and isinstance(plan, SemaphoreSync):
            slices = " (split-K: only the block that stores the sum)" if stage.grid.z > 1 else ""
            yield f"    {name}::post(counters, tile);  // after the last store{slices}"
    yield from _wait_kernel_words(pipeline, plan, space)


def _wait_words(pipeline: Pipeline, consumer: str, options: tuple[Option, ...], space: str) -> Iterator[str]:
    is_gemm = isinstance(pipeline.stage(consumer).work, Gemm)
    yield "    for (each chunk of the main loop) {"
    if is_used(options, REORDER_LOADS, consumer):
        yield "        ... load the chunk of B: nobody has to be waited for ..."
    for producer, reader in edges_of(pipeline):
        if reader == consumer:
            edge = f"{space}::{identifier(f'{producer}_to_{consumer}')}"
            what = "the chunk's columns of A" if is_gemm else f"tile (column, row) of {producer}"
            yield f"        {edge}::wait(counters, column, row);  // before the first load of {what}"
    yield "        ... load the rest and compute ..."
    yield "    }"


def _wait_kernel_words(pipeline: Pipeline, plan: Plan, space: str) -> Iterator[str]:
    if not isinstance(plan, SemaphoreSync):
        return
    yield ""
    yield "On the host: a stream per kernel, producers launched first."
    if not plan.wait_kernel:
        yield "No wait-kernel: see its option above for why that is safe on this device, and only there."
        return
    yield "Before each consumer, on its stream, one thread that ends once its producers have started:"
    yield "    __global__ void wait_for_start(unsigned* counters, int started) {"
    yield f"        {space}::wait_for(counters, started, 1);"
    yield "    }"
    for producer, consumer in edges_of(pipeline):
        name = f"{space}::{identifier(producer)}"
        yield f"    wait_for_start<<<1, 32, 0, {identifier(consumer)}_stream>>>(counters, {name}::started);"
