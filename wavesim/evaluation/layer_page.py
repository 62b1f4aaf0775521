"""What `layers` measured, in the documentation: a block of two pages between marks, and a picture.

Example: `python -m wavesim.evaluation.layer_page` writes the blocks of README.md and docs/in-your-model.md
anew from the newest file of gpu/results/layers; without a file they say that nothing is measured yet.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import fill

from wavesim.errors import RecordingError, WavesimError
from wavesim.evaluation.layer_figure import speeds_figure, spoken
from wavesim.evaluation.layer_results import (
    AS_STORED,
    CONTESTS,
    FIRST,
    FOLDER,
    LISTED_SHAPES,
    OURS,
    STORED_CONTESTS,
    TORCH,
    TUNED,
    LayerResults,
    LayerShapeRow,
    load_layers,
    newest_layers,
    prediction_lines,
)
from wavesim.evaluation.speedups import Speedup
from wavesim.safe_io.escaping import BREAK, Markup, lines, one_line
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.view.export import save_figure

BEGIN, END = "<!-- layers: begin -->", "<!-- layers: end -->"
UNMEASURED = "`mlp` has not been measured beside torch yet."
LINE, MOST_BYTES, THEMES = 118, 1 << 20, ("light", "dark")
LEAST = 0.98  # of torch's best; what is slower is named
SHOWN = Markup("""<picture>
  <source media="(prefers-color-scheme: dark)" srcset="images/results-layers-dark.svg">
  <img src="images/results-layers-light.svg" alt="{title}">
</picture>""")


@dataclass(frozen=True)
class Page:
    """A page with a block between marks, and what stands in it."""

    path: Path
    block: Callable[[LayerResults], str]


def with_block(text: str, block: str) -> str:
    """The page with the block between its marks. Raises `RecordingError` for a page without them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordingError(f"the page has no lines {BEGIN} and {END}; add them where the block goes")
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def block_of(text: str) -> str:
    """What stands between a page's marks."""
    return text.partition(BEGIN)[2].partition(END)[0].strip("\n")


def short_block(layers: LayerResults) -> str:
    """A few sentences for the README."""
    counts = {OURS[ours]: len(_slower(layers, ours)) for ours in OURS if layers.speeds(ours)}
    slower = ", ".join(f"{count} ({words})" for words, count in counts.items())
    results = layers.results
    return _filled(
        f"Measured on one {results.device}, {results.date[:10]}: speed over the best of torch's forms, "
        f"torch.compile among them, geometric mean (worst to best) of {len(layers.speeds(FIRST))} MLPs of "
        f"{len(layers.models)} models, weights as these store them: {spoken(layers, AS_STORED)}. Where torch "
        f"may pack gate and values into one matrix: {spoken(layers)}; shapes below {LEAST:.2f}: {slower}."
    )


def _packed_text(layers: LayerResults) -> str:
    """What was measured with the same packed weights for both; "" where nothing was."""
    packed = layers.packed
    if packed is None:
        return ""
    return f"With packed weights for both, {len(packed.speeds(FIRST))} shapes: {spoken(packed)}."


def full_block(layers: LayerResults) -> str:
    """How it was measured, a table of the models, what calls cost, what failed, and the picture."""
    return "\n\n".join(
        [
            _how(layers),
            _table(
                _HEAD, [*(_model_row(layers, model) for model in layers.models), _model_row(layers, None)]
            ),
            "\n".join(_item(found) for found in _findings(layers)),
            _table(_HOST_HEAD, _host_rows(layers)),
            *([_failures(layers)] if layers.failures else []),
            SHOWN.format(title=Markup(speeds_figure(layers).layout.title.text.replace(BREAK, " "))),
        ]
    )


_HEAD = (
    *("model", "shapes", *(words for _, _, words in STORED_CONTESTS)),
    *(f"{words}, over packed forms too" for words in OURS.values()),
)
_HOST_HEAD = ("a call keeps the host for", "us, median over the shapes", "most")
ROOT = Path(__file__).parents[2]
PAGES = (
    Page(ROOT / "README.md", short_block),
    Page(ROOT / "docs" / "in-your-model.md", full_block),
)


def _how(layers: LayerResults) -> str:
    results = layers.results
    versions = ", ".join(f"{name} {text}" for name, text in results.versions.items() if text)
    rounds = max(len(case.rounds_ns) for case in results.cases)
    words = (
        f"Measured on one {results.device}, {results.date}, commit {results.short_commit}; {versions}.",
        f"The {LISTED_SHAPES} shapes ([list](../gpu/wavesim_gpu/bench/kinds/mlp_shapes.toml), SHA-256",
        f"{layers.shapes_sha256[:12]}) and the simulator's choices ({layers.registered_sha256[:12]}) were",
        f"written down before. Speed is the median time of torch's fastest form over `mlp`'s, {rounds}",
        "rounds, all in turns, each in a CUDA graph of several runs. Torch's forms: as its modules compute",
        "it, bias and GELU fused, and torch.compile of these; and, for a model whose weights are packed",
        "first, gate and up projection as one product, which `mlp` was not given here. Runs",
        "take sets of weights in turn that together fill the L2 four times, as the layers of a model do.",
        "Outputs were compared with a result in fp32, before and after. First choice: what `mlp` takes at",
        "the first call, by simulation; tuned: what it keeps after `tune=True`; our kernels: the fastest",
        "simulated of ours, also where cuBLASLt is chosen.",
    )
    return _filled(" ".join(words))


def _model_row(layers: LayerResults, model: str | None) -> list[str]:
    count = sum(model in (None, row.model) for row in layers.speeds(FIRST))
    totals = [layers.summary(ours, model, theirs) for ours, theirs, _ in STORED_CONTESTS]
    totals += [layers.summary(ours, model) for ours in OURS]
    return [model or "all", str(count), *("" if total is None else str(total) for total in totals)]


def _findings(layers: LayerResults) -> list[str]:
    slower = [
        f"{row.name} {speed.value:.3f} ({OURS[ours]})"
        for ours in OURS
        for row, speed in _slower(layers, ours).items()
    ]
    found = [f"Below {LEAST:.2f} of torch's best: {', '.join(slower) or 'none'}."]
    found += [text] if (text := _packed_text(layers)) else []
    missing = LISTED_SHAPES - len(layers.speeds(FIRST))
    if missing:
        found.append(f"Shapes without a speed of the first choice: {missing} of {LISTED_SHAPES}.")
    totals = {words: layers.summary(ours, theirs=theirs) for ours, theirs, words in CONTESTS}
    said = [f"{words} {total}" for words, total in totals.items() if total is not None]
    found += [f"Speed of {'; of '.join(said)}."] if said else []
    found += [f"{line[0].upper()}{line[1:]}." for line in prediction_lines(layers)]
    if layers.first_calls_ms:
        times = list(layers.first_calls_ms.values())
        found.append(
            f"The first call of a new shape took {median(times):.1f} ms beyond compilation (median; "
            f"{max(times):.1f} at most)."
        )
    if layers.seen_calls:
        compiled = sum(count for _, count in layers.seen_calls.values())
        found.append(
            f"A second process compiled {compiled} kernels for {len(layers.seen_calls)} known shapes."
        )
    return found


def _slower(layers: LayerResults, ours: str) -> dict[LayerShapeRow, Speedup]:
    return {row: speed for row, speed in layers.speeds(ours).items() if speed.value < LEAST}


def _host_rows(layers: LayerResults) -> list[list[str]]:
    names = sorted(layers.host_ns, key=lambda name: (not name.startswith((FIRST, TUNED)), name))
    return [
        [
            name if name.startswith(TORCH) else f"`mlp`, {OURS[name]}" if name in OURS else name,
            f"{median(times.values()) / 1e3:.1f}",
            f"{max(times.values()) / 1e3:.1f}",
        ]
        for name, times in ((name, layers.host_ns[name]) for name in names)
    ]


def _failures(layers: LayerResults) -> str:
    said = [
        Markup("- {}, {}: {}").format(shape, name, one_line(text)) for shape, name, text in layers.failures
    ]
    return "\n".join(["Not timed, or wrong:", "", *said])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = " | ".join("---" for _ in head)
    return "\n".join(f"| {line} |" for line in [" | ".join(head), marks, *(" | ".join(row) for row in rows)])


def _item(text: str) -> str:
    return fill(f"- {text}", LINE, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def _filled(text: str) -> str:
    return fill(text, LINE, break_on_hyphens=False, break_long_words=False)


def main(words: list[str] | None = None) -> int:
    """Writes the blocks and pictures; status 2 where a page has no marks or the file is damaged."""
    parser = OneLineParser(prog="python -m wavesim.evaluation.layer_page", description=__doc__)
    parser.add_argument("--results", type=Path, help=f"a results file (the newest of {FOLDER})")
    options = parser.parse_args(sys.argv[1:] if words is None else words)
    try:
        path = options.results or newest_layers(ROOT / FOLDER)
        layers = None if path is None else load_layers(path)
        for page in (one for one in PAGES if one.path.exists()):
            block = UNMEASURED if layers is None else page.block(layers)
            write_text(page.path, with_block(read_text(page.path, MOST_BYTES), block))
        if layers is not None:
            for theme in THEMES:
                save_figure(
                    speeds_figure(layers, theme), ROOT / "docs" / "images" / f"results-layers-{theme}.svg"
                )
    except WavesimError as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201  # what it is for
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run_program("layer_page", main))
