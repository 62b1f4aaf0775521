"""The advice as a page to forward: three findings in words, the step as a picture, the ranked table.

Example: `wavesim advise trace.json.gz --html report.html`; the page opens offline, in light or dark.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wavesim.profile.advice import Advice
from wavesim.profile.advice_card import card_html
from wavesim.profile.advice_figures import advice_pairs, advice_timeline
from wavesim.profile.advice_text import (
    ASSUMPTIONS,
    COLUMNS,
    findings,
    headline,
    milliseconds,
    pair_rows,
    pairs_left_out,
    share_text,
    tile_lines,
)
from wavesim.view.page import Section, Table, write_page


def write_report(path: str | Path, advice: Advice, verdicts: Sequence[str] = ()) -> Path:
    """Writes the page, with what the simulator says of the best pairs in words. Returns its path."""
    return write_page(path, **_parts(advice, verdicts))


def _parts(advice: Advice, verdicts: Sequence[str]) -> dict[str, Any]:
    profile = advice.profile
    lead = (
        f"{profile.source}: {profile.kernel_count:,} kernels on {profile.device_name}, "
        f"{milliseconds(advice.compute_ns)} of kernels in {milliseconds(profile.span_ns)}. Measured by "
        f"{profile.profiler}; what could be won is estimated from it, and nothing was rewritten or run."
    )
    points = [f"{place}. {finding}" for place, finding in enumerate(findings(advice), start=1)]
    table = Table(
        COLUMNS,
        pair_rows(advice),
        caption="Pairs of kernels back to back on one stream, by what tile-level synchronisation could win "
        "if the second reads the first. Waves of producer and consumer; gaps: what a CUDA graph could win "
        f"between them. {pairs_left_out(advice)}".rstrip(),
    )
    figures = [
        Section(advice_timeline(advice), "The step"),
        Section(advice_pairs(advice), "The pairs", _ABOUT_PAIRS),
    ]
    return {
        "title": headline(advice),
        "lead": lead,
        "card": card_html(advice),
        "table": table,
        "notes": [*points, *verdicts, *tile_lines(advice), *profile.notes, *ASSUMPTIONS, _kernels(advice)],
        "figures": figures,
    }


def _kernels(advice: Advice) -> str:
    worst = sorted(advice.kernels, key=lambda kernel: -kernel.tail_loss_ns)[:3]
    told = [
        f"{kernel.label}, {kernel.waves.waves:.2f} waves, {milliseconds(kernel.tail_loss_ns)} "
        f"({share_text(advice, kernel.tail_loss_ns)})"
        for kernel in worst
        if kernel.waves is not None and kernel.tail_loss_ns > 0
    ]
    return (
        f"Most slot time lost in last waves: {'; '.join(told)}."
        if told
        else "No kernel has a part-filled last wave."
    )


_ABOUT_PAIRS = (
    "To look at one more closely: wavesim advise TRACE --ask --toml pair.toml asks what no profile knows, "
    "writes it and predicts it; wavesim compare --file pair.toml --html plans.html draws it. Mark pairs "
    "that do or do not depend on each other with --depend and --independent."
)
