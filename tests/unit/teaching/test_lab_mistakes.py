"""What a student can type wrong in a cell of a lab: a sentence says what there is instead.

Example: `LayerWhatIf(batch=4)` ends with "LayerWhatIf has no start value 'batch'; there are model, ...".
"""

import importlib
import inspect
import math
import pkgutil

import pytest

import wavesim.teaching
import wavesim.widgets
from wavesim import Block, RowMajor, SemaphoreSync, device, gpt3_mlp, simulate, toy, zero_cost
from wavesim.errors import DescriptionError
from wavesim.labs.streams.examples import SmallKernels
from wavesim.sm.loads import LoadLoop
from wavesim.sm.machine import SmMachine, machine_of
from wavesim.teaching import Prediction, check
from wavesim.teaching.checked_kernels import checked, hoisted, kernel_shown
from wavesim.teaching.litmus import wait
from wavesim.teaching.orders import consumer_megabytes
from wavesim.teaching.paper_tables import table
from wavesim.teaching.published_view import median_error, published_rows
from wavesim.teaching.readiness import readiness_of
from wavesim.teaching.several_gpus import late, simulated
from wavesim.teaching.staying import dealt_out, queued, tuned_mapping
from wavesim.teaching.stream_programs import kernel, run, vector_add_us
from wavesim.teaching.waiting import is_safe, moved, placed_points
from wavesim.teaching.wave_steps import one_kernel, staircase
from wavesim.widgets import (
    BankExplorer,
    ComparisonView,
    DependencyExplorer,
    LatencyExplorer,
    LaunchExplorer,
    LayerWhatIf,
    OccupancyExplorer,
    PeerExplorer,
    PlaceExplorer,
    StayingWhatIf,
    StreamsExplorer,
    TunerView,
    WavePlayer,
    WhatIf,
)
from wavesim.workloads.layers import transformer_layer

H200, NAN = device("h200"), math.nan
MLP, WARP = gpt3_mlp(1024), Block(32)
READS = MLP.dependencies[0].producer_tiles
RUN = simulate(toy(), SemaphoreSync(), device("toy"), zero_cost(toy(), 1000))

MISTAKES = [
    # What there is not, by its name.
    (lambda: LayerWhatIf(batch=4), "no start value 'batch'; there are model, part"),
    (lambda: WhatIf(token=512), "no start value 'token'; did you mean 'tokens'"),
    (lambda: StayingWhatIf(devise="t4"), "'devise'; did you mean 'device'"),
    (lambda: StreamsExplorer(stream=4), "no argument 'stream'; did you mean 'streams'\\? It takes program"),
    (lambda: StreamsExplorer(program="chains"), "Program is 'chains'; .*chains of small kernels"),
    (lambda: PeerExplorer(way="chunks"), "way is 'chunks'; .*in chunks, two streams"),
    (lambda: LayerWhatIf(attention_order="long"), "Attention is 'long'; .*long rows first"),
    (lambda: transformer_layer("llama-3-8b", 512).dependency_of("atention"), "no stage 'atention'"),
    (lambda: is_safe("z"), "the protocol is 'z'; the table has a, b"),
    (lambda: table(99), r"table is 99; there are 1, .*5"),
    (lambda: published_rows("H200", "gpt3"), "'H200', 'gpt3'; there are A100 gpt3"),
    (lambda: hoisted("cuda"), "language is 'cuda'; there are ptx, sass"),
    (lambda: checked("tile_pair.right", "cubin"), "language is 'cubin'"),
    (lambda: kernel_shown("tile_pair.right", "consumer"), "kernel is 'consumer'; did you mean 'consume'"),
    (lambda: run(kernel("k1")).operation("k2"), "operation is 'k2'; there are k1"),
    (lambda: wait("ready", 1), "wait: missing a required .*'acquire'; it takes semaphore, value, acquire"),
    (lambda: check("1.1"), "missing a required argument: 'answer'"),
    # Of another type: a tuple for a GPU, text for a number, a class for a plan, None, NaN.
    (lambda: LatencyExplorer(gpu=(132,)), r"LatencyExplorer: gpu is \(132,\); it must be \(int, int\)"),
    (lambda: LatencyExplorer(gpu=H200), r"it must be \(int, int\)"),
    (lambda: LatencyExplorer(gpu=(132, "32")), r"gpu is \(132, '32'\)"),
    (lambda: LatencyExplorer(8), "loop is 8; it must be a LoadLoop"),
    (lambda: LatencyExplorer(machine=H200), "it must be a SmMachine"),
    (lambda: LatencyExplorer(LoadLoop(NAN)), "warps is nan"),
    (lambda: SmMachine("880", 17.0), "latency_cycles is '880'; it must be a number from 1 to 1,000,000"),
    (lambda: BankExplorer(stride="2"), "stride is '2'; it must be an int"),
    (lambda: OccupancyExplorer(threads=NAN), "threads is nan; it must be an int"),
    (lambda: OccupancyExplorer(blocks=None), "blocks is None; it must be an int"),
    (lambda: LaunchExplorer(threshold="1"), "threshold is '1'; it must be an int"),
    (lambda: PlaceExplorer(tokens=[1024]), r"tokens is \[1024\]; it must be an int"),
    (lambda: DependencyExplorer(MLP, tile=3), r"tile is 3; it must be \(int, int\) or None"),
    (lambda: DependencyExplorer(MLP, SemaphoreSync), "it must be a Plan"),
    (lambda: WavePlayer(RUN, plays="yes"), "plays is 'yes'; it must be a bool"),
    (lambda: WhatIf(tokens="1024"), "WhatIf: tokens is '1024'; it must be an int"),
    (lambda: WhatIf(tile=(128, 256)), r"tile is \(128, 256\); it must be a str"),
    (lambda: WhatIf(wait_kernel="no"), "wait_kernel is 'no'; it must be a bool"),
    (lambda: LayerWhatIf(edges={"qkv-attention": "tile"}), "edges is .*; it must be a str"),
    (lambda: LayerWhatIf(model=None), "model is None; it must be a str"),
    (lambda: StayingWhatIf(batches="5"), "batches is '5'; it must be an int"),
    (lambda: ComparisonView("1024"), "compared is '1024'; it must be a Compared or a list"),
    (lambda: ComparisonView([("row", 1)]), "ComparisonView: compared is .*; it must be"),
    (lambda: TunerView.tuned({1024: None}, H200), "it must be a dict, each value a Tuning"),
    (lambda: Prediction("waves", choices=3), "choices is 3; it must be a list, each entry a str"),
    (lambda: Prediction("waves").reveal(None), "reveal: truths is None; it must be a float or a str"),
    (lambda: one_kernel(133, "h200", WARP, 50_000), "device is 'h200'; it must be a Device"),
    (lambda: staircase(660, H200, WARP), "counts is 660; it must be a list, each entry an int"),
    (lambda: readiness_of(MLP, None), "trace is None; it must be a Trace"),
    (lambda: consumer_megabytes(RowMajor), "it must be an Order"),
    (lambda: simulated("stores", "2048"), "m is '2048'; it must be an int"),
    (lambda: late(None), "us is None; it must be an int"),
    (lambda: run(kernel("k"), machine="t4"), "machine is 't4'; it must be a StreamMachine"),
    (lambda: SmallKernels(streams="4"), "SmallKernels: streams is '4'; it must be an int"),
    (lambda: dealt_out([NAN]), "it must be a list, each entry a float"),
    (lambda: queued(fetch="1"), "fetch is '1'; it must be a float"),
    (lambda: moved([1024]), "it must be an int"),
    (lambda: tuned_mapping((40,)), "it must be a Device"),
    (lambda: transformer_layer(["llama-3-8b"], 512), "it must be"),
    # Of the right type, and impossible: none, negative, huge, between two steps.
    (lambda: machine_of(H200).slice_of(0, 192), "0 SMs and 192 channels"),
    (lambda: READS(48, 0), "cx of a consumer tile is 48; it must be an integer from 0 to 47"),
    (lambda: READS(0, -1), "cy is -1; it must be an integer from 0 to 7"),
    (lambda: READS(None, 0), "is None; it must be an integer from 0 to 47"),
    (lambda: READS(0.5, 0), "is 0.5; it must be an integer"),
    (lambda: LatencyExplorer(gpu=(0, 0)), "channels is 0; it must be a number from 1 to 65,536"),
    (lambda: OccupancyExplorer(threads=0), "threads is 0; it must be an integer from 32 to 1,280"),
    (lambda: OccupancyExplorer(carveout_kib=17), "carveout_kib is 17; there are 0, 8"),
    (lambda: OccupancyExplorer(blocks=10**12), "it must be an integer from 1 to 262,144"),
    (lambda: PeerExplorer(gpus=3), "gpus is 3; there are 2, 4, 8"),
    (lambda: BankExplorer(stride=65), "stride is 65; it must be from 0 to 64"),
    (lambda: BankExplorer(pattern="zigzag"), "choose one of lanes a stride apart"),
    (
        lambda: LaunchExplorer(program="quicksort"),
        "program is .quicksort.; there are threads",
    ),
    (lambda: LaunchExplorer(levels=12), "levels is 12; it must be an integer from 1 to 11"),
    (lambda: PlaceExplorer(tokens=1000), "tokens is 1000; recorded are 256, 512"),
    (lambda: StayingWhatIf(sms=0), "sms is 0"),
    (lambda: StayingWhatIf(recurrent_rows=20), "multiple of 8"),
    (lambda: LayerWhatIf(edges="qkv-out=row"), "has qkv-attention, attention-out"),
    (lambda: WhatIf(device="t4"), "t4 allows"),
    (lambda: TunerView([], "nothing"), "points is empty"),
    (lambda: PlaceExplorer(blocks=3), "blocks is 3; there are 2, 4, 8, 16"),
    (lambda: placed_points(1024, 3), "blocks is 3; there are 2, 4, 8, 16"),
    (lambda: WavePlayer(RUN, step=-1), "step is -1; it must be an integer of at least 0"),
    (lambda: WhatIf(sm_count=0), "sm_count is 0; it must be an integer of at least 1"),
    (lambda: WhatIf(head_start=-1), "head_start is -1; it must be an integer from 0"),
    (lambda: LayerWhatIf(tokens=10**12), "y is 125000000000; CUDA launches at most 65535"),
    (lambda: vector_add_us(chunks=0), "chunks is 0; it must be an integer from 1 to 64"),
    (lambda: staircase([], H200, WARP), "counts is empty"),
    (lambda: staircase([132], H200, WARP, width=-1), "width is -1; it must be a number from 100"),
    (lambda: median_error([]), "none of 0 gains was measured"),
    (lambda: Prediction("waves").reveal(3, within=-1), "within is -1; it must be a number from 0"),
    (lambda: tuned_mapping(H200, "int8", 0), "step is 0; it must be an integer from 1 to 64"),
    (lambda: dealt_out([math.inf]), "a task is inf; it must be a number from 0"),
]


@pytest.mark.parametrize(("attempt", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_in_a_lab_says_what_there_is(attempt, words):
    with pytest.raises(DescriptionError, match=words) as told:
        attempt()
    assert len(str(told.value).splitlines()) == 1


# What is no explorer's and no cell's: the machinery behind them.
INNER = {
    "cell_errors",
    "mending",
    "progress_table",
    "protocol_ptx",
    "puzzle_cards",
    "quiz",
    "shown",
    "solved_file",
}
INNER_FUNCTIONS = {"exercises": {"require", "whole", "number", "word", "plain", "several"}}


def called_in_cells():
    """Public functions of the teaching modules, and explorers, that take at least one argument."""
    for info in pkgutil.iter_modules(wavesim.teaching.__path__):
        if info.ispkg or info.name in INNER:
            continue
        module = importlib.import_module(f"wavesim.teaching.{info.name}")
        for name, thing in vars(module).items():
            is_own = getattr(thing, "__module__", "") == module.__name__ and not name.startswith("_")
            if is_own and inspect.isroutine(thing) and name not in INNER_FUNCTIONS.get(info.name, ()):
                yield f"{info.name}.{name}", thing
    for name in wavesim.widgets.__all__:
        yield name, getattr(wavesim.widgets, name)


CALLED = {name: thing for name, thing in called_in_cells() if inspect.signature(thing).parameters}


class Unknown:
    """Nothing that anything asks for."""


@pytest.mark.parametrize("name", CALLED)
def test_whatever_a_cell_calls_names_an_argument_of_no_known_type(name):
    assert len(CALLED) > 70
    parameters = inspect.signature(CALLED[name]).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):  # start values of a scenario
        with pytest.raises(DescriptionError, match="no start value 'wrong'"):
            CALLED[name](wrong=Unknown())
        return
    values = [Unknown() for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name: Unknown() for one in parameters if one.kind is one.KEYWORD_ONLY}
    starred = [Unknown() for one in parameters if one.kind is one.VAR_POSITIONAL]
    with pytest.raises(DescriptionError, match=r" is .*Unknown.*; it must be "):
        CALLED[name](*values, *starred, **named)
