"""The GPU benchmark's results as one page, as pictures, and as a few words around the pictures.

Example: `wavesim results --html build/results.html --docs docs` turns the newest results file into a page
with every figure and a table, and into docs/results.md with its pictures and the summary that ships with the
package; no number is typed by hand.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import fill

import plotly.graph_objects as go

from wavesim.bench.bench_figure import (
    copy_figure,
    limit_figure,
    product_figure,
    provenance,
    rivals_figure,
    speed_figure,
)
from wavesim.bench.gpu_results import GpuResults
from wavesim.bench.pair_summary import write_pair_summary
from wavesim.bench.results_tables import cost_notes, docs_tables
from wavesim.bench.results_text import findings, measured_how
from wavesim.bench.semaphore_costs import copy_overheads
from wavesim.bench.speedups import (
    PAIRS,
    label,
    pairs_of,
    products,
)
from wavesim.bench.theme_pictures import both_themes
from wavesim.errors import RecordingError
from wavesim.safe_io.escaping import BREAK, Markup, whole_line
from wavesim.safe_io.writing import write_text
from wavesim.view.figure import save_figure
from wavesim.view.page import Section, Table, write_page

COLUMNS = ("pair", "M", "contender", "time µs", "quartiles µs", "over cuBLASLt", "GHz", "W", "cuts", "order")
THEMES = ("light", "dark")
LINE = 118
SHOWN = Markup("""<img src="images/results-{name}.svg" alt="{title}">""")
Draw = Callable[[GpuResults, str], go.Figure]


@dataclass(frozen=True)
class Picture:
    """A figure with its file's name and what to look for in it."""

    name: str
    heading: str
    text: str
    draw: Draw


LIMIT = Picture(
    "limit",
    "Distance to the limit",
    "Small batches have to read the weights, large ones to do the arithmetic. The limit takes the rates that "
    "one large matmul and one large copy sustained in the same run, at the clock that the power limit left "
    "them; it is a yardstick, not a bound that cannot be beaten.",
    limit_figure,
)
PRODUCTS = Picture(
    "products",
    "Our GEMM alone",
    "What tile-level synchronisation has to make up for where our kernels are slower than cuBLASLt's, before "
    "any two kernels meet. Where dot and diamond part, the clock made the difference.",
    product_figure,
)
COPIES = Picture(
    "copies",
    "What semaphores cost",
    "Copies of one full wave have no tail to fill, so that only the price is left. In stream order it is "
    "looking, posting and putting the semaphore back; on two streams also the fork, the wait-kernel and an "
    "atomic per block as it leaves. By dependent launch a block of the second copy starts as one of the "
    "first leaves, which semaphores allow; dependent launch without them waits for the whole first copy.",
    copy_figure,
)
EVERYTHING = (
    "One panel per library, baseline and plan. Above the line it is faster than cuBLASLt's chain in a CUDA "
    "graph, below it slower. The tuned plan was chosen in earlier rounds and is timed in later ones."
)
RIVALRY = (
    "In time, and in SM cycles: these kernels are limited by power, so that one which draws less runs at a "
    "higher clock. Where dot and diamond part, the clock made the difference. At exactly 1 over stream sync, "
    "stream sync is the tuned plan."
)


def pictures(results: GpuResults) -> list[Picture]:
    """Those that this run has measured something for. Raises `RecordingError` where it has for none."""
    has_pairs = [workload for workload in PAIRS if results.of(workload)]
    result = [picture for workload in has_pairs for picture in _pair_pictures(workload)]
    result += [LIMIT] if has_pairs else []
    result += [PRODUCTS] if any(products(results).values()) else []
    result += [COPIES] if copy_overheads(results) else []
    if not result:
        raise RecordingError(
            f"{results.path}: none of its {len(results.cases)} right cases is a pair, a product or a copy "
            "pair; measure again"
        )
    return result


def _pair_pictures(workload: str) -> list[Picture]:
    name, short = PAIRS[workload], workload.partition("-")[0]
    return [
        Picture(
            f"speed-{short}",
            f"{name}: everything beside cuBLASLt",
            EVERYTHING,
            lambda results, theme: speed_figure(results, workload, theme),
        ),
        Picture(
            f"gain-{short}",
            f"{name}: the tuned plan against each rival",
            RIVALRY,
            lambda results, theme: rivals_figure(results, workload, theme),
        ),
    ]


def run_results(results: GpuResults, html: Path | None, docs: Path | None) -> tuple[dict[str, object], str]:
    """`wavesim results`: writes what is asked for; returns JSON and words."""
    written = [] if html is None else [write_results_page(html, results)]
    written += [] if docs is None else [*write_results_docs(docs, results), *write_pair_summary(results)]
    words = [measured_how(results), *findings(results), *(f"written: {path}" for path in written)]
    document: dict[str, object] = {
        "file": str(results.path),
        "device": results.device,
        "date": results.date,
        "commit": results.commit,
        "wrong_results": len(results.wrong),
        "findings": findings(results),
        "written": [str(path) for path in written],
    }
    return document, "\n".join(map(whole_line, words))


def write_results_page(path: Path, results: GpuResults) -> Path:
    """Writes every figure, the table and how it was measured as one page. Returns its path."""
    return write_page(
        path,
        title=f"Measured on {results.device}: tile-level synchronisation beside everything else",
        figures=[Section(p.draw(results, "light"), p.heading, p.text) for p in pictures(results)],
        lead="\n\n".join([*findings(results), measured_how(results)]),
        table=Table(COLUMNS, list(_rows(results)), caption=f"All final cases, {provenance(results)}"),
        notes=cost_notes(results),
        has_figures_first=True,
    )


def write_results_docs(folder: Path, results: GpuResults) -> list[Path]:
    """Writes results.md and images/results-*.svg, each for both themes, into a folder. Returns their paths.

    Raises `DeviceError` where no Chromium is installed.
    """
    written = []
    for picture in pictures(results):
        path = folder / "images" / f"results-{picture.name}.svg"
        drawn = [save_figure(picture.draw(results, theme), path).read_text("utf-8") for theme in THEMES]
        write_text(path, both_themes(*drawn))
        written.append(path)
    words = folder / "results.md"
    write_text(words, docs_text(results))
    return [words, *written]


def docs_text(results: GpuResults) -> str:
    """docs/results.md: how it was measured, what follows, and the pictures."""
    parts = [
        "# Measured results",
        f"Written by `make results` from `{results.name}`; do not edit.",
        fill(measured_how(results), LINE, break_on_hyphens=False),
        "\n".join(fill(f"- {line}", LINE, subsequent_indent="  ") for line in findings(results)),
    ]
    for picture in pictures(results):
        # Escaped by the figure already, as Markdown needs it too.
        title = Markup(picture.draw(results, "light").layout.title.text.replace(BREAK, " "))
        shown = SHOWN.format(name=picture.name, title=title)
        parts += [f"## {picture.heading}", fill(picture.text, LINE), shown]
    return "\n\n".join([*parts, *docs_tables(results)]) + "\n"


def _rows(results: GpuResults) -> Iterator[list[str]]:
    for workload, name in PAIRS.items():
        for tokens, cases in pairs_of(results, workload).items():
            library = cases.get("cublaslt")
            own = {key: case for key, case in cases.items() if key == case.name}
            for case in sorted(own.values(), key=lambda entry: entry.median_ns):
                low, high = case.quartiles_ns
                roles = f" ({', '.join(label(role) for role in case.roles)})" if case.roles else ""
                yield [
                    name,
                    str(tokens),
                    label(case.name) + roles,
                    f"{case.median_ns / 1e3:.1f}",
                    f"{low / 1e3:.1f} to {high / 1e3:.1f}",
                    "" if library is None else f"{library.median_ns / case.median_ns:.3f}",
                    f"{median(case.clocks_ghz):.2f}" if case.clocks_ghz else "",
                    "" if case.power_w is None else f"{case.power_w:.0f}",
                    case.words.get("cuts", ""),
                    case.words.get("order", ""),
                ]
