"""Kernels that share no code with ours, as a user might have written them, and their blind runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wavesim.bench.foreign_pairs import ForeignPair, pair_of
from wavesim.bench.foreign_runs import KnownPair, predicted_pair
from wavesim.bench.results import ResultRow
from wavesim.errors import DescriptionError
from wavesim_gpu.bench.kinds.foreign.measuring import in_turns, known
from wavesim_gpu.bench.rows import MeasuredCase


class ForeignMeasurer:
    """Measures pairs one after the other."""

    limit_s = 60.0

    def __init__(self, commit: str, rounds: int) -> None:
        self._rounds = rounds

    def prepare(self, cases: Sequence[Any]) -> None:
        """Each pair compiles its own kernels when its turn comes."""

    def alone(self, case: Any) -> KnownPair:
        """Both kernels' times and stream sync's, all that predictions are made from."""
        pair = pair_for(case)
        return known(pair)

    def measure(self, case: Any, has_traces: bool = False) -> MeasuredCase:
        """Stream sync and the plans in turns; a plan whose bits are not stream sync's is missing."""
        pair = pair_for(case)
        result = in_turns(pair)
        rows = [
            ResultRow(case.name, pair.order, word, correct=True, ns=tuple(ns))
            for word, ns in result.rounds.items()
        ]
        traces = {(pair.order, word): trace for word, trace in result.traces.items()} if has_traces else {}
        return MeasuredCase(rows, traces, result.missing)


def pair_for(case: Any) -> ForeignPair:
    """Of a case of a list. Raises `DescriptionError` for Triton's, whose runs are closed."""
    pair = pair_of(case.fields)
    if pair.kernels == "triton":
        raise DescriptionError(
            f"{case.name}: pairs of Triton kernels are measured by `python -m wavesim_gpu try-pair`"
        )
    return replace(pair, plans=tuple(case.plans)) if case.plans else pair


def predictions(told: Mapping[str, KnownPair], device: str) -> dict[str, list[Any]]:
    """What the plans of all pairs will gain, by what that was predicted from."""
    result: dict[str, list[Any]] = {}
    for pair in told.values():
        for basis, entries in predicted_pair(pair, device).items():
            result.setdefault(basis, []).extend(entries)
    return result
