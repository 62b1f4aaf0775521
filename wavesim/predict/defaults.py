"""The best costs known for a pipeline on a device, and where they come from in words.

Example: the toy's tiles take one unit and nothing else costs time; the GPT-3 MLP on an H200 is
calibrated on a stream-sync run that ships with wavesim, of its own size and tile order or, as the words
then say, of another order or (where the caller allows it) of the nearest size; on an A100 nobody measured,
so the catalogue's roofline has to do. Everything that predicts takes its costs from here.
"""

from collections.abc import Mapping
from functools import lru_cache, partial

from wavesim.costs.calibration_text import (
    assumed_text,
    kernel_times_defaults,
    kernel_times_text,
    trace_defaults,
)
from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.costs.data_sheet import roofline
from wavesim.costs.device_costs import costs_of, law_of_stage, own_file
from wavesim.costs.layer_costs import PERSISTENT, costs_of_stages
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import (
    CHAINED_PRODUCTS,
    DATA_SHEET,
    LAYER_CONSTANTS,
    STREAM_TRACE,
    kernel_times_kind,
    known_text,
)
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.prediction import (
    calibrate_for,
)
from wavesim.predict.scenarios import scenarios_of
from wavesim.recordings.shipped import RecordedCase, cases, find_case
from wavesim.safe_io.annotated import require_types
from wavesim.workloads.catalogue import parse_tile, workload
from wavesim.workloads.figure_one import TILE_NS
from wavesim.workloads.layer_backends import is_chained, with_backends

RECORDED_ORDERS = ("row", "grouped:4", "grouped:8")


def default_costs(pipeline: Pipeline, device: Device, order: str = "row") -> tuple[CostModel, str]:
    """(costs, where they come from in words), from a recording of just this size or from none."""
    require_types("default_costs", pipeline=(pipeline, Pipeline), device=(device, Device))
    known = find_costs(pipeline, device, order)
    return known.model, known.source


@lru_cache(maxsize=64)
def find_costs(
    pipeline: Pipeline, device: Device, order: str = "row", *, is_any_size: bool = False
) -> KnownCosts:
    """Costs for a pipeline: the toy's, else a recording's, else the roofline's.

    A recording in another order serves where there is none in this one, with `is_any_size` also that of
    the nearest size. Raises `DescriptionError`.
    """
    if not any(stage.kernel.flops_per_block for stage in pipeline.stages):
        words = "unit tile time, nothing else costs time (the paper's Figure 1)"
        return KnownCosts(zero_cost(pipeline, TILE_NS), words)
    case = _case(pipeline, device, order) or (_nearest_case(pipeline, device, order) if is_any_size else None)
    if case is not None:
        return _recorded(case, int(pipeline.parameters["tokens"]), order)
    return _by_work(pipeline, device) or _from_data_sheet(pipeline, device)


def _by_work(pipeline: Pipeline, device: Device) -> KnownCosts | None:
    """Of a layer's stages by what each computes; None of products alone, and where some are unknown."""
    if all(stage.work.is_product for stage in pipeline.stages):
        return None
    try:
        model = costs_of_stages(with_backends(pipeline), device)
    except DescriptionError:
        return None
    source = f"tiles of each kind of kernel as recorded on {device.name}, at the clock that their load leaves"
    laws = (law_of_stage(stage, device) for stage in pipeline.stages)
    own = next((law for law in laws if law is not None and law.scored_as), None)
    if own is not None and own.fitted_to:
        staying = costs_of_stages(with_backends(pipeline), device, schedule=PERSISTENT)
        source = f"{source}; {own.fitted_to}"
        return KnownCosts(model, source, kind=own.scored_as, by_schedule={PERSISTENT: staying})
    layer = f"{LAYER_CONSTANTS}, {CHAINED_PRODUCTS}" if is_chained(pipeline) else LAYER_CONSTANTS
    return KnownCosts(model, source, kind=own.scored_as if own is not None else layer)


def described_costs(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> KnownCosts:
    """Costs of kernels that a user described: from each one's measured time alone, else from the roofline.

    Raises `DescriptionError` for a stage without a time whose work is not given either.
    """
    if kernel_ns:
        return _from_kernel_times(pipeline, device, kernel_ns)
    by_work = _by_work(pipeline, device) if are_times_known(pipeline, device) else None
    if by_work is not None:
        return by_work
    for stage in pipeline.stages:
        if not stage.kernel.flops_per_block:
            raise DescriptionError(
                f"stage {stage.name!r} has no time, and what it computes is not given either; write "
                "kernel_us = the kernel alone, measured, or m, n, k and tile for a roofline"
            )
    return _from_data_sheet(pipeline, device)


def are_times_known(pipeline: Pipeline, device: Device) -> bool:
    """Whether kinds of work say how long their tiles take, so that no kernel needs to be timed first."""
    laws = [law_of_stage(stage, device) for stage in pipeline.stages]
    return None not in laws and any(law is not None and law.times_descriptions for law in laws)


def _from_kernel_times(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> KnownCosts:
    known = costs_of(device.name)
    model = costs_from_kernel_times(pipeline, device, kernel_ns, known)
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    return KnownCosts(
        model,
        kernel_times_text(device, model),
        defaults=tuple(map(str, kernel_times_defaults(device, model))),
        kind=kernel_times_kind(pipeline, device, most),
        clock_share=known.clock_share,
        scenarios=tuple((one.label, one.costs) for one in scenarios_of(pipeline, device, model)[1:]),
    )


def _from_data_sheet(pipeline: Pipeline, device: Device) -> KnownCosts:
    assumed = costs_of(device.name).defaults_in("overheads")
    sheet = f"a roofline from {device.name}'s data sheet"
    trust = "compare plans by it, not devices, and take gains as a rough guess"
    text = f"{sheet}, never measured: {trust}{assumed_text(assumed)}"
    if any(not constant.is_fitted for constant in own_file(device.name).constants.values()):  # characterised
        text = (
            f"tile times from {sheet}, no GEMM was timed there: real kernels are 1.1 to 2.5 times as slow; "
            f"give kernel_us; launches, semaphores, memory and clock as measured{assumed_text(assumed)}"
        )
    defaults = (f"tile_ns: {sheet}", *map(str, assumed))
    return KnownCosts(roofline(pipeline, device), text, defaults=defaults, kind=DATA_SHEET)


def _recorded(case: RecordedCase, tokens: int, order: str) -> KnownCosts:
    """Costs of a case's stream-sync run. In clock cycles a tile costs nearly the same at every size.

    At its own size each block takes its own time, as in the predictions that are scored; the blocks of
    another grid take the mean, with what DRAM and clock had in it there: such costs are a stand-in, and a
    slider's picture cannot wait until tiles and traffic settle.
    """
    stream = case.trace("stream")
    head = stream.header
    is_own_size = case.tokens == tokens
    size = "" if is_own_size else f" at {case.tokens:,} tokens, the nearest size, DRAM and clock as there"
    under = "" if case.order == order else f" in {case.order} order, not this plan's"
    when = f"{head.device['name']}, {head.date[:10]}, commit {head.commit[:7]}"
    is_exact = (case.tokens, case.order) == (tokens, order)
    words = f"calibrated on the recorded stream-sync run{size}{under} ({when})"
    recorded = workload(case.workload, case.tokens, parse_tile(case.tile))
    device = devices.load(case.device)
    costs = partial(calibrate_for, recorded, device, stream, per_block=is_own_size)
    model = costs(is_settled=is_own_size)
    assumed = trace_defaults(stream)
    others = (f"tile_ns: those of a run{size}{under}",) if size or under else ()
    defaults = (*others, *map(str, assumed))
    exact = case if is_exact else None
    return KnownCosts(
        model,
        words + assumed_text(assumed),
        exact,
        defaults,
        is_calibrated=is_exact,
        known_as=known_text(STREAM_TRACE, recorded),
        unsettled=partial(costs, is_settled=False),
    )


def _case(pipeline: Pipeline, device: Device, order: str) -> RecordedCase | None:
    """The recording of this size in this order, else in the first order that has one.

    "derived grouped:4", a choice of orders by name, is nearest to the last order that it names.
    """
    tried = (order, order.rpartition(" ")[2], *RECORDED_ORDERS)
    found = (find_case(pipeline, device, name) for name in tried)
    return next((case for case in found if case is not None), None)


def _nearest_case(pipeline: Pipeline, device: Device, order: str) -> RecordedCase | None:
    """The recording of the same kernels: the same size before the same order, then the nearest size."""
    gemms = [stage.gemm for stage in pipeline.stages if stage.work.is_product]
    if len(gemms) != len(pipeline.stages) or any(gemm.split_k > 1 for gemm in gemms):
        return None
    tiles = {f"{gemm.tile_m}x{gemm.tile_n}" for gemm in gemms}
    tokens = gemms[0].m
    alike = [
        case
        for case in _shipped()
        if (case.device, case.workload, {case.tile}) == (device.name, pipeline.name, tiles)
        and "stream" in case.paths
    ]
    # Nearest first, so that one recording is read and not all of them.
    alike.sort(key=lambda case: (abs(case.tokens - tokens), case.order != order))
    return next((case for case in alike if _is_same_occupancy(case, pipeline, device)), None)


def _is_same_occupancy(case: RecordedCase, pipeline: Pipeline, device: Device) -> bool:
    recorded = [info.blocks_per_sm for info in case.trace("stream").header.stages]
    return recorded == [occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages]


@lru_cache(maxsize=1)
def _shipped() -> tuple[RecordedCase, ...]:
    return tuple(cases())
