"""The kernels of libraries: a GEMM and its collective, one after the other or in chunks of rows.

Example: under "chunks:4" GPU 0 has four GEMMs on one stream and four all-reduces on another, each after the
GEMM of its rows; under "sequence" one of each on one stream.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.sim.peers.program import (
    COMMUNICATE,
    COMPUTE,
    PeerItem,
    PeerKernel,
    PeerProgram,
    PeerSemaphores,
    PeerTimes,
    dram_bytes_per_s,
)
from wavesim.sim.peers.way import PeerWay
from wavesim.work.collective import ELEMENT_BYTES
from wavesim.work.collective.host import Host

# More registers than a GEMM's block leaves: a library's collective shares its SMs with nobody.
LIBRARY_BLOCK = Block(threads=640, registers=96)


def library_program(pipeline: Pipeline, host: Host, way: PeerWay, times: PeerTimes) -> PeerProgram:
    """GEMMs of equal chunks of rows and the collective of each; uncut, any chain of stages, one by one."""
    if way.chunks > 1 and (len(pipeline.stages) != 1 or len(host.collectives) != 1):
        raise DescriptionError(
            f"way {way.word} is simulated of one GEMM with one collective; pipeline {pipeline.name} has "
            f"{len(pipeline.stages)} stages and {len(host.collectives)} collectives. Use sequence or stores"
        )
    for name, given in host.collectives.items():
        if way.shots is not None and given.kind != "all-reduce":
            raise DescriptionError(
                f"way {way.method} is an all-reduce, and stage {name} has a collective of kind {given.kind}. "
                "Use sequence or stores"
            )
    kernels: list[PeerKernel] = []
    semaphores = PeerSemaphores()
    for stage in pipeline.stages:
        collective = host.collectives.get(stage.name)
        for chunk in range(way.chunks):
            if collective is not None:
                name = f"{stage.name} {collective.kind} {chunk}: blocks of all ranks"
                met = (semaphores.add(name, 0, times.costs.library_sms * host.gpus),)
            for rank in range(host.gpus):
                own = _library_kernel(stage, rank, chunk, way, times)
                if collective is None:
                    kernels.append(own)
                    continue
                shared = _library_collective(stage, collective.kind, rank, chunk, way, host, times)
                items = [replace(item, arrives=met, waits=met) for item in shared.items]
                shared = replace(shared, items=items)
                pair = (shared, own) if collective.kind == "all-gather" else (own, shared)
                kernels += [pair[0], replace(pair[1], after=(len(kernels),))]
    if way.chunks > 1:
        kernels = _by_stream(kernels)
    return PeerProgram(pipeline, host, way, kernels, semaphores)


def _by_stream(kernels: Sequence[PeerKernel]) -> list[PeerKernel]:
    """Of what comes ready at once the computing stream's first: a chunk's collective waits for an event of
    that stream, whose next GEMM has the SMs before.
    """
    order = sorted(range(len(kernels)), key=lambda number: (kernels[number].stream, number))
    place = {number: at for at, number in enumerate(order)}
    moved = [kernels[number] for number in order]
    return [replace(kernel, after=tuple(place[number] for number in kernel.after)) for kernel in moved]


def _library_collective(
    stage: Stage, kind: str, rank: int, chunk: int, way: PeerWay, host: Host, times: PeerTimes
) -> PeerKernel:
    """One rank's kernel of a collective, of a chunk's rows; its blocks meet those of all ranks first."""
    gemm, blocks = stage.gemm, times.costs.library_sms
    width = gemm.k if kind == "all-gather" else gemm.columns
    size = ELEMENT_BYTES * ceil(gemm.m / way.chunks) * width
    taken = times.costs.time_ns(kind, size, host.gpus, times.link_factor)
    if way.shots is not None:
        taken = times.costs.direct_ns(way.shots, size, host.gpus, host.link)
    name = f"{stage.name}.{kind}.{chunk}@{rank}"
    own = Stage(name, Kernel(name, Grid(blocks), LIBRARY_BLOCK), device=rank)
    # In chunks on a stream of its own, else on that of what comes before and after.
    stream = COMMUNICATE if way.chunks > 1 else COMPUTE
    return PeerKernel(own, stream, blocks, [PeerItem((i, 0)) for i in range(blocks)], taken)


def _library_kernel(stage: Stage, rank: int, chunk: int, way: PeerWay, times: PeerTimes) -> PeerKernel:
    """A GEMM whose resident blocks share the work evenly beforehand: each takes as long as all of it.

    Of another stage a block per tile.
    """
    name = f"{stage.name}.{chunk}@{rank}" if way.chunks > 1 else f"{stage.name}@{rank}"
    if not stage.work.is_product:
        items = [PeerItem(tile) for tile in stage.grid]
        own = replace(stage, name=name, device=rank)
        return PeerKernel(own, COMPUTE, len(items), items, times.tile_ns[stage.name])
    part = replace(stage.gemm, name=name, m=ceil(stage.gemm.m / way.chunks))
    taken, blocks = times.library[stage.name]
    own = Stage(name, Kernel(name, Grid(blocks), part.block), device=rank)
    items = [PeerItem((i, 0)) for i in range(blocks)]
    return PeerKernel(own, COMPUTE, blocks, items, taken, bytes_per_s=dram_bytes_per_s(part, taken))
