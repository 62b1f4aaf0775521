"""What `optimize` did to a model: what is swapped, what that is predicted to gain, what is kept and why.

Example: `print(report)` lists Llama's 32 MLPs in one line, as they are alike, with the simulated gain over
cuBLASLt at each number of tokens and where it lies in 80 % of such predictions. Jupyter shows a table.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wavesim.safe_io.columns import in_columns
from wavesim.safe_io.escaping import element, whole_line
from wavesim_gpu.layers.choose import LIBRARY, Choice
from wavesim_gpu.layers.description import MlpShape

ATTENTION = "Only MLPs are swapped, attention is not"


@dataclass(frozen=True)
class SwappedBlock:
    """One MLP that is swapped: its qualified name, its class, its shape, a choice per number of tokens."""

    name: str
    kind: str
    shape: MlpShape
    choices: tuple[Choice, ...]

    @property
    def what(self) -> str:
        """Class, activation, sides k-n1-n2 and element type."""
        shape = self.shape
        return f"{self.kind}: {shape.activation or 'linear'}, {shape.k}-{shape.n1}-{shape.n2}, {shape.dtype}"


@dataclass(frozen=True)
class KeptBlock:
    """One MLP that is as it was, and why."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class OptimizeReport:
    """`tokens`: rows of x that were simulated, or measured, for the GPU named `device`.

    `experts`: names of swapped mixtures of experts, whose routing no prediction knows.
    """

    device: str
    tokens: tuple[int, ...]
    swapped: tuple[SwappedBlock, ...]
    kept: tuple[KeptBlock, ...]
    experts: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """Titles of the table's columns."""
        counts = (f"{count:,} token{'s' if count != 1 else ''}" for count in self.tokens)
        return ("MLP", "what it is", *counts)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The table: one row for all MLPs that are alike."""
        alike: dict[tuple[str, ...], list[str]] = {}
        for block in self.swapped:
            alike.setdefault((block.what, *map(gain_text, block.choices)), []).append(block.name)
        return [(named(names), *cells) for cells, names in alike.items()]

    @property
    def kept_lines(self) -> list[str]:
        """One line for all that are kept for the same reason."""
        alike: dict[tuple[str, str], list[str]] = {}
        for block in self.kept:
            alike.setdefault((block.kind, block.reason), []).append(block.name)
        return [f"{named(names)} ({k}) kept as it is: {why}" for (k, why), names in alike.items()]

    @property
    def experts_lines(self) -> list[str]:
        """One line for all mixtures of experts that are swapped."""
        if not self.experts:
            return []
        return [f"{named(self.experts)}: experts by wavesim_gpu.moe on Hopper GPUs, without a prediction"]

    @property
    def summary(self) -> str:
        """One line over the table."""
        if not self.swapped:
            return f"No MLP swapped{'' if self.kept else ': none found'}. {ATTENTION}."
        gains = f"Time that each MLP saves over cuBLASLt, on {self.device}"
        counts = f"{len(self.swapped)} swapped, {len(self.kept)} kept"
        return f"{counts}. {self.unpredicted or gains}. {ATTENTION}."

    @property
    def unpredicted(self) -> str:
        """Why there is nothing to choose from, for any of the MLPs; empty where there is."""
        choices = [choice for block in self.swapped for choice in block.choices]
        is_known = any(choice.basis != "none" for choice in choices)
        return "" if is_known or not choices else f"cuBLASLt computes them: {choices[0].reason}"

    def __str__(self) -> str:
        table = [self.header, *self.rows] if self.swapped else []
        lines = in_columns(table, left=range(len(self.header)))
        said = (self.summary, *lines, *self.experts_lines, *self.kept_lines)
        return "\n".join(whole_line(line.rstrip()) for line in said)

    def _repr_html_(self) -> str:
        head = element("tr", *(element("th", title) for title in self.header))
        body = [element("tr", *(element("td", cell) for cell in row)) for row in self.rows]
        table = [element("table", head, *body)] if self.swapped else []
        kept = [element("p", line) for line in (*self.experts_lines, *self.kept_lines)]
        return element("div", element("p", self.summary), *table, *kept)

    def to_json(self) -> str:
        """All of it as JSON; times in ns, gains in points of cuBLASLt's time."""
        swapped = [
            {
                "name": block.name,
                "kind": block.kind,
                **{
                    key: getattr(block.shape, key) for key in ("k", "n1", "n2", "dtype", "activation", "gate")
                },
                "choices": [_choice(m, choice) for m, choice in zip(self.tokens, block.choices, strict=True)],
            }
            for block in self.swapped
        ]
        kept = [{"name": b.name, "kind": b.kind, "reason": b.reason} for b in self.kept]
        document = {"device": self.device, "swapped": swapped, "kept": kept, "experts": [*self.experts]}
        return json.dumps(document, indent=1)


def _choice(tokens: int, choice: Choice) -> dict[str, Any]:
    return {
        "tokens": tokens,
        "way": choice.label,
        "basis": choice.basis,
        "predicted_ns": choice.predicted_ns,
        "library_ns": choice.library_ns,
        "gain_points": choice.gain_points,
        "interval_points": choice.interval_points,
    }


def gain_text(choice: Choice) -> str:
    """A choice's gain with its interval, or that the library is predicted to be fastest."""
    if choice.basis == "none":
        return "cuBLASLt"
    if choice.label == LIBRARY:
        return "cuBLASLt, no gain"
    interval = choice.interval_points
    span = f" ({interval[0]:+.1f} to {interval[1]:+.1f})" if interval else ""
    return f"{choice.gain_points:+.1f} %{span}, {choice.basis}"


def named(names: Iterable[str]) -> str:
    """The first of several names, and how many more there are."""
    first, *others = (name or "the model" for name in names)
    return f"{first} and {len(others)} more" if others else first
