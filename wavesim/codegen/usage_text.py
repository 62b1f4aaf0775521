"""The first comment of a generated header: what it is for, which options it uses, the lines to add.

Example: a CUTLASS-style kernel gains three lines: one at its top that says which tile it computes, one
wait before it loads a chunk of A, one post after its epilogue.
"""

import textwrap
from collections.abc import Iterator

from wavesim.codegen.cuda_text import HeaderFacts
from wavesim.codegen.host_text import has_streams
from wavesim.codegen.options import AVOID_WAIT_KERNEL, REORDER_LOADS, Option
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.resolved import ResolvedPlan
from wavesim.safe_io.escaping import cuda_comment, one_line
from wavesim.safety.verdict import SafetyVerdict

LONGEST_PARAGRAPH = 4_000  # letters


def usage_lines(header: HeaderFacts, device: str, safety: SafetyVerdict) -> list[str]:
    """The comment block, of a plan with this verdict on a device."""
    pipeline, plan = header.resolved.pipeline, header.resolved.plan
    orders = ", ".join(f"{name} {plan.order_of(name).name}" for name in header.resolved.names)
    words = [
        f"{pipeline.name} on {device}: {plan.label}. Orders: {orders}.",
        "Written by wavesim gen; change the description and write it again, not this file.",
        "",
        *_dependency_words(pipeline),
        "",
        _safety_words(safety, is_constant=header.sizes.is_constant),
        "",
        *(_option_words(header.options) if header.sizes.is_constant else _size_words(header)),
        *_kernel_words(header),
    ]
    return [f"// {cuda_comment(line)}".rstrip() for text in words for line in _wrapped(text)] + [""]


def _wrapped(text: str) -> list[str]:
    if text.startswith("    "):
        return [text]
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(one_line(text, LONGEST_PARAGRAPH), 104, subsequent_indent=indent) or [""]


def _dependency_words(pipeline: Pipeline) -> list[str]:
    return ["What reads what:", *(f"- {dependency}" for dependency in pipeline.dependencies)]


def _safety_words(safety: SafetyVerdict, *, is_constant: bool) -> str:
    """Whether the plan can deadlock; of a header for every size what is true at all of them."""
    if is_constant or safety.basis == "cuda":
        return safety.text[0].upper() + safety.text[1:] + "."
    return (
        "Safety: rests on more than CUDA promises, on what depends on the sizes; wavesim gen says it of each."
    )


def _option_words(options: tuple[Option, ...]) -> Iterator[str]:
    if options:
        yield "Options:"
        for option in options:
            yield f"- {option.name}, {option.subject}: {'yes' if option.is_used else 'no'}, {option.why}."
        yield ""


def _size_words(header: HeaderFacts) -> Iterator[str]:
    """What a header that leaves its sizes to run time promises, word for word the same at every size."""
    yield (
        "Sizes are known at run time: fill the grids in on the host, pass each kernel its own stage as a "
        "parameter, and call its members on that."
    )
    stages, space = map(header.names.stage, header.resolved.names), header.space
    grids = ", ".join(f"{{{stage} columns, rows, slices}}" for stage in stages)
    yield f"    const {space}::Run run = {space}::run_with({grids});"
    yield (
        "What is read is written as described, with the description's own constants: this header serves all "
        "sizes for which wavesim gen writes the very same text. Whether the wait-kernel may go depends on "
        "them."
    )
    yield ""
    if header.options:
        yield "Options:"
        for option in header.options:
            if option.name != AVOID_WAIT_KERNEL:
                yield f"- {option.name}, {option.subject}: {'yes' if option.is_used else 'no'}."
        yield ""


def _kernel_words(header: HeaderFacts) -> Iterator[str]:
    plan, space, is_constant = header.resolved.plan, header.space, header.sizes.is_constant
    stage_word, count = ("STAGE::", f"{space}::") if is_constant else ("stage.", "run.")
    at_most = "as many blocks as fit at once, at most " if plan.schedule.fetches_tiles else ""
    yield (
        f"Lines to add. Launch each kernel as a one-dimensional grid of {at_most}{stage_word}blocks() "
        f"blocks; `counters` is unsigned[{count}counter_count] in global memory, zeroed when it is made."
    )
    if plan.runs_one_after_another and not plan.sync.has_semaphores:
        yield "Stream sync: launch the kernels one after another on one stream; nobody waits or posts."
    for stage in header.resolved.pipeline.stages:
        yield from _stage_words(header, stage)
    yield ""
    yield (
        "begin, wait and post are called by all threads of a block. Kernels whose warps have roles of their "
        "own, or whose blocks compute tile after tile, use what they are made of from one thread each: "
        "next_position, tile_at, wait_tile and post_tile."
    )
    run = "" if is_constant else "run, "
    if plan.sync.has_semaphores:
        yield from _check_lines(space, run, header.resolved)
    elif plan.schedule.fetches_tiles:
        yield f"On the host, before every run: {space}::prepare_run({run}counters, stream)."
    yield from _host_lines(header)


def _stage_words(header: HeaderFacts, stage: Stage) -> Iterator[str]:
    resolved, space, is_constant = header.resolved, header.space, header.sizes.is_constant
    fetches, name = resolved.plan.schedule.fetches_tiles, header.names.stage(stage.name)
    word = f"{space}::{name}"
    at = f"{word}::" if is_constant else "stage."
    yield ""
    yield f"In the kernel of {name}:"
    if not is_constant:
        yield f"    ... (const __grid_constant__ {word} stage, unsigned* counters, ...) {{"
    if fetches:
        yield f"    for (each position = {at}next_position(counters) below {at}blocks()) {{"
        yield f"    const {space}::Tile tile = {at}tile_at(position);"
    else:
        yield f"    const {space}::Tile tile = {at}begin(counters);  // in place of blockIdx"
    if resolved.inputs(stage.name):
        yield from _wait_lines(header, stage)
    else:
        yield "    ... main loop ..."
    yield "    ... epilogue: store the tile ..."
    if resolved.outputs(stage.name):
        slices = " (split-K: only the block that stores the sum)" if stage.grid.z > 1 else ""
        yield f"    {at}post(counters, tile);  // after the last store{slices}"
    if fetches:
        yield "    }"


def _check_lines(space: str, run: str, resolved: ResolvedPlan) -> Iterator[str]:
    """What the host does around a run; `run`: the argument before `counters`, if there is one."""
    is_on_streams = resolved.plan.launch.is_multi_stream
    stream = "first_stream" if is_on_streams else "stream"
    yield ""
    if has_streams(resolved):
        start = ", wait_for_start too," if resolved.plan.launch.wait_kernel else ""
        yield (
            f"On the host, once for each kernel{start} with the stream of its launches, of the default "
            "priority. It loads the kernel and asks for the largest shared-memory carve-out: without both "
            "the plan can deadlock, and prepare_run returns cudaErrorInvalidConfiguration. Clusters: refused."
        )
        yield f"    if ({space}::prepare_kernel(kernel, its_stream) != cudaSuccess) ... fail ..."
    yield (
        "On the host, around every run. A wait that sees no post for WAVESIM_WAIT_LIMIT_NS gives up: wait "
        "returns false, the block returns without a post, and so do all that wait for it. Nothing else says "
        "so: outputs then hold what they held before."
    )
    yield "    const char* missing;"
    yield f"    if ({space}::prepare_run({run}counters, {stream}) != cudaSuccess) ... fail ..."
    if is_on_streams:
        yield "    ... every other stream waits for first_stream (cudaStreamWaitEvent): for its zeros ..."
    yield "    ... the launches ..."
    if is_on_streams:
        yield "    ... first_stream waits for every other stream: the next run zeroes what this one polls ..."
    yield f"    if ({space}::check_run({run}counters, missing) != cudaSuccess) ... fail: missing says why ..."
    yield (
        f"A host without CUDA's runtime API reads counters[{space}::gave_up] itself: zero, or what a call of "
        "missing_tile turns into words. It zeroes gave_up after having read it, never before."
    )


def _wait_lines(header: HeaderFacts, stage: Stage) -> Iterator[str]:
    names, is_gemm = header.names, stage.work.is_product
    yield "    for (each chunk of the main loop) {"
    if header.is_used(REORDER_LOADS, stage.name):
        yield "        ... load the chunk of B: nobody has to be waited for ..."
    for producer in (edge[0] for edge in header.resolved.edges if edge[1] == stage.name):
        edge, word = names.edge((producer, stage.name)), names.stage(producer)
        at = header.sizes.reach(f"{header.space}::{edge}", f"stage.from_{word}")
        what = "the chunk's columns of A" if is_gemm else f"tile (column, row) of {word}"
        yield f"        if (!{at}wait(counters, column, row)) return;  // before loading {what}"
    yield "        ... load the rest and compute ..."
    yield "    }"


def _one_stream_lines(resolved: ResolvedPlan) -> Iterator[str]:
    yield "On the host: all kernels on one stream, producers launched first."
    early = [name for name, turn in zip(resolved.names, resolved.turns, strict=True) if turn.is_early]
    if not early:
        return
    names = ", ".join(early)
    yield (
        f"Launch {names} with the attribute programmaticStreamSerialization, any other without. The first "
        "instruction of each kernel is griddepcontrol.launch_dependents: the next one starts once every "
        "block before it has."
    )
    if resolved.plan.waits_for_grids:
        yield (
            f"Every block of {names} executes griddepcontrol.wait before it first reads a producer's tile: "
            "it returns when the whole kernel before has ended."
        )
    else:
        yield (
            f"Every block of {names} executes griddepcontrol.wait before it ends, also where wait returned "
            "false: else it can end before the kernel that it reads, and what the stream does next, such as "
            "the next prepare_run, need not wait for both."
        )


def _no_wait_kernel_text(header: HeaderFacts) -> str:
    if not header.sizes.is_constant:
        return "No wait-kernel: at some sizes that can deadlock; wavesim gen says it of each."
    if header.is_used(AVOID_WAIT_KERNEL, header.resolved.pipeline.name):
        return "No wait-kernel: see its option above for why that is safe on this device, and only there."
    return "No wait-kernel: see its option above for how these kernels can deadlock. Add it, or change them."


def _host_lines(header: HeaderFacts) -> Iterator[str]:
    resolved, plan, names, space = header.resolved, header.resolved.plan, header.names, header.space
    if not plan.sync.has_semaphores and not plan.waits_for_grids:
        return
    yield ""
    if plan.schedule.is_fused:
        yield "On the host: one launch of as many blocks as fit at once, each fetching tiles to the end."
        return
    if not plan.launch.is_multi_stream:
        yield from _one_stream_lines(resolved)
        return
    yield "On the host: a stream per kernel, producers launched first."
    if not plan.launch.wait_kernel:
        yield _no_wait_kernel_text(header)
        return
    yield "Before each consumer, on its stream, one thread that ends once its producers have started:"
    yield "    __global__ void wait_for_start(unsigned* counters, int started) {"
    yield f"        {space}::wait_for(counters, started, 1);"
    yield "    }"
    for producer, consumer in resolved.edges:
        name = f"{space}::{names.stage(producer)}"
        yield f"    wait_for_start<<<1, 32, 0, {names.stage(consumer)}_stream>>>(counters, {name}::started);"
