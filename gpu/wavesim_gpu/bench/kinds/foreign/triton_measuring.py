"""The same for pairs of Triton kernels: each alone and one after the other, later every plan in turns.

Example: `known(pair)` compiles the plain kernels of gpu/examples/triton_matmul.py in the pair's tile order
and times them; `in_turns(pair)` runs them with functions that are generated for each plan.
"""

import importlib.util
import statistics
import sys
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from wavesim.bench.foreign_pairs import BASELINE, NAMES, ForeignPair
from wavesim.bench.foreign_runs import ComparedPair, KnownPair
from wavesim.errors import WavesimError
from wavesim_gpu.run.runner import WrongResultError

EXAMPLE = Path(__file__).parents[4] / "examples" / "triton_matmul.py"
ROUNDS, ALONE_ROUNDS = 20, 10


@cache
def _example() -> ModuleType:
    """gpu/examples/triton_matmul.py, which is in no package."""
    spec = importlib.util.spec_from_file_location(EXAMPLE.stem, EXAMPLE)
    assert spec is not None, EXAMPLE
    assert spec.loader is not None, EXAMPLE
    module = importlib.util.module_from_spec(spec)
    sys.modules[EXAMPLE.stem] = module
    spec.loader.exec_module(module)
    return module


def known(pair: ForeignPair) -> KnownPair:
    """Raises `ArithmeticError` if the plain kernels' outputs are wrong."""
    example = _example()
    kernels = _pair(pair)
    operands = kernels.operands()
    compiled = [kernels.launch(number, operands, pair.group) for number in range(len(NAMES))]
    kernels.require_right(operands)
    alone = {name: partial(kernels.launch, number, operands, pair.group) for number, name in enumerate(NAMES)}
    runs = {**alone, BASELINE: partial(kernels.run_plain, operands, pair.group)}
    graphs = {name: example.graph_of(run) for name, run in runs.items()}
    rounds = example.interleaved_us(graphs, ALONE_ROUNDS)
    times = {name: round(1e3 * statistics.median(us)) for name, us in rounds.items()}
    blocks = {name: example.block_of(kernel) for name, kernel in zip(NAMES, compiled, strict=True)}
    return KnownPair(pair, {name: times[name] for name in NAMES}, blocks, times[BASELINE])


def in_turns(pair: ForeignPair) -> ComparedPair:
    """A plan whose bits are not the plain pair's, before or after its rounds, is missing."""
    example, kernels, missing = _example(), _pair(pair), dict[str, str]()
    operands = kernels.operands()
    plain = partial(kernels.run_plain, operands, pair.group)
    plain()
    wanted = operands[-1].clone()
    graphs, runs = {BASELINE: example.graph_of(plain)}, {}
    for word in pair.plans:
        try:
            runs[word] = kernels.synchronised(pair.plan(word), operands)
            graphs[word] = example.graph_of(runs[word])
            _require_bits(pair, word, graphs[word], operands, wanted)
        except WavesimError as error:
            graphs.pop(word, None)
            missing[word] = str(error)
    rounds = example.interleaved_us(graphs, ROUNDS)
    times = {word: [round(1e3 * us) for us in own] for word, own in rounds.items()}
    for word in tuple(times):
        try:
            _require_bits(pair, word, graphs[word], operands, wanted)
            if word in runs:
                runs[word]().check()  # its report is of every replay
        except WavesimError as error:
            missing[word] = f"after its rounds: {error}"
            times.pop(word)
    return ComparedPair(times, missing, {})


def _pair(pair: ForeignPair) -> Any:
    return _example().MatmulPair(pair.m, pair.k, pair.n1, pair.n2, pair.tile)


def _require_bits(pair: ForeignPair, word: str, graph: Any, operands: Any, wanted: Any) -> None:
    hidden, out = operands[3:]
    hidden.fill_(torch.nan)
    out.fill_(torch.nan)
    graph.replay()
    if not torch.equal(out.view(torch.int16), wanted.view(torch.int16)):
        raise WrongResultError(f"{pair.name} under {word}: not the plain pair's bits")
