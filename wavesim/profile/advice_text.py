"""The advice in words: three findings, a table, and what is assumed; plain text that any view can show.

Example: "1. flash_fwd_kernel -> direct_copy: tile sync would save 90 us, 0.2 % of the time".
"""

from collections.abc import Sequence
from textwrap import wrap

from wavesim.profile.advice import BACK_TO_BACK_NS, Advice, Pair
from wavesim.profile.kernel_facts import BLIND_WORDS, KernelFacts
from wavesim.profile.pair_gain import OtherTile, Saving
from wavesim.safe_io.columns import in_columns
from wavesim.safe_io.escaping import WIDTH, whole_line

WORTH_SHARE = 0.005  # of the profiled time: below it no pair is worth a rewrite
SHOWN = 12
COLUMNS = ("#", "producer -> consumer", "times", "waves", "tile sync us", "of time", "interval us", "gaps us")

ASSUMPTIONS = (
    (
        "Adjacency is not dependency: a profile shows that a kernel ran after another on its stream, not "
        "that it reads its output. Unless you mark a pair, its interval starts where nothing is won and "
        "synchronising costs."
    ),
    (
        "Tile sync: assumes that the consumer reads the producer's tiles in the order in which they are "
        "written, and blocks of equal length. Between two kernels limited by memory, half of the SMs are "
        "taken to saturate it. A slot that stands empty is filled once: a pair wins what those ranked above "
        "it leave. The margin covers nine of ten of wavesim's own H200 recordings, which are "
        "pairs of GEMMs; other kernels were never measured."
    ),
    (
        "Gaps: a CUDA graph leaves 1.05 us between kernels (measured on an H200); programmatic launch can "
        "hide all of it. The interval runs from nothing to the whole gap."
    ),
    (
        "Another tile: assumes that a block's resources and work go with its tile; half a tile is 0.91 as "
        "efficient in full waves (measured on an H200), 0.85 to 1.0 is assumed as the range."
    ),
)


def milliseconds(time_ns: float) -> str:
    """A time of a profile as a person reads it."""
    if abs(time_ns) < 100_000:
        return f"{time_ns / 1e3:.1f} us"
    return f"{time_ns / 1e6:,.2f} ms"


def saving_text(saving: Saving) -> str:
    """The estimate with its interval, in one unit: "0.06 ms (-0.62 to 0.42 ms)"."""
    scale, digits, unit = _unit(saving)
    return f"{saving.likely_ns / scale:,.{digits}f} {unit} ({interval_text(saving)})"


def interval_text(saving: Saving) -> str:
    """An interval in one unit."""
    scale, digits, unit = _unit(saving)
    return f"{saving.low_ns / scale:,.{digits}f} to {saving.high_ns / scale:,.{digits}f} {unit}"


def _unit(saving: Saving) -> tuple[float, int, str]:
    is_large = max(abs(saving.low_ns), abs(saving.high_ns)) >= 100_000
    return (1e6, 2, "ms") if is_large else (1e3, 1, "us")


def share_text(advice: Advice, time_ns: float) -> str:
    """A time as a share of the profiled time."""
    return f"{100 * time_ns / max(1, advice.profile.span_ns):.1f} %"


def pair_label(pair: Pair) -> str:
    """Both kernels and their grids."""
    return f"{pair.producer.label} -> {pair.consumer.label}"


def short_label(kernel: KernelFacts, letters: int = 13) -> str:
    """A kernel's name cut to so many letters, with its grid."""
    name, mark, grid = kernel.label.partition(" [")
    return (name if len(name) <= letters else f"{name[: letters - 1]}…") + mark + grid


def findings(advice: Advice) -> tuple[str, str, str]:
    """The three findings that matter: best pair and launch gaps, the larger first, and the blind share."""
    pair, gap = _pair_finding(advice), _gap_finding(advice)
    first, second = (gap, pair) if gaps_lead(advice) else (pair, gap)
    return first, second, _blind_finding(advice)


def gaps_lead(advice: Advice) -> bool:
    """Whether launch gaps cost more than tile sync could win, and enough to be worth a headline."""
    gaps, total = advice.launch_gap_ns, advice.recoverable_ns
    return gaps >= max(total, WORTH_SHARE * advice.profile.span_ns) and total < gaps


def headline(advice: Advice) -> str:
    """The report's title: what tile sync could win, or that it is not where the time goes."""
    total = advice.recoverable_ns
    if gaps_lead(advice):
        lost = share_text(advice, advice.tail_loss_ns)
        last = f", last waves {lost}" if _sees_waves(advice) else "; the kernels' waves are hidden"
        return f"Launch gaps cost {share_text(advice, advice.launch_gap_ns)} of the profiled time{last}"
    if not _sees_waves(advice):
        hidden = f"{100 * advice.blind_share:.0f} %"
        return f"Nothing can be said of last waves: {hidden} of the kernels' time is hidden"
    if total >= WORTH_SHARE * advice.profile.span_ns:
        return f"Tile-level synchronisation could win back {share_text(advice, total)} of the profiled time"
    return f"Last waves cost {share_text(advice, advice.tail_loss_ns)} of the profiled time"


def _sees_waves(advice: Advice) -> bool:
    return any(kernel.waves is not None for kernel in advice.kernels)


def _pair_finding(advice: Advice) -> str:
    if not advice.visible_pairs:
        return _no_visible_pair(advice)
    pairs = [pair for pair in advice.visible_pairs if pair.saving.likely_ns > 0]
    refuted = [pair for pair in pairs if advice.is_refuted(pair)]
    pairs = [pair for pair in pairs if not advice.is_refuted(pair)]
    return " ".join(filter(None, [_gaining(advice, pairs, bool(refuted)), _refuted_text(refuted)]))


def _no_visible_pair(advice: Advice) -> str:
    if not advice.pairs:
        return "No two kernels run back to back on one stream: there is no pair that tile sync could help."
    return (
        f"Whether a pair would gain from tile sync cannot be seen: of none of the {len(advice.pairs):,} pairs"
        " back to back does the profile show both kernels' waves."
    )


def _refuted_text(refuted: Sequence[Pair]) -> str:
    if not refuted:
        return ""
    named = ", ".join(f"{pair.number}" for pair in refuted)
    kind = "pair" if len(refuted) == 1 else "pairs"
    return f"Simulated, no plan gains over stream sync in {kind} {named}: do not rewrite {_those(refuted)}."


def _those(pairs: Sequence[Pair]) -> str:
    return "it" if len(pairs) == 1 else "them"


def _gaining(advice: Advice, pairs: Sequence[Pair], has_refuted: bool) -> str:
    if not pairs:
        if has_refuted:
            return "No pair of kernels that follow each other back to back would gain from tile sync."
        return (
            "No pair of kernels that follow each other back to back would gain from tile sync: where "
            "waves are known, "
            "the last ones are full, or nothing is ready before the producer ends."
        )
    best = pairs[0]
    total = advice.recoverable_ns
    text = (
        f"{pair_label(best)}, {best.count} times: tile sync would save {saving_text(best.saving)}, "
        f"{share_text(advice, best.saving.likely_ns)} of the profiled time, if the consumer reads what the "
        "producer writes."
    )
    if len(pairs) > 1:
        text += (
            f" Together the {len(pairs)} pairs with something to win, each empty slot filled once: "
            f"{milliseconds(total)}, {share_text(advice, total)}."
        )
    if total < WORTH_SHARE * advice.profile.span_ns:
        text += " That is too little to rewrite kernels for."
    return text


def _gap_finding(advice: Advice) -> str:
    text = (
        f"Between kernels nothing runs for {milliseconds(advice.launch_gap_ns)}, "
        f"{share_text(advice, advice.launch_gap_ns)} of the profiled time; in last waves "
        f"{milliseconds(advice.tail_loss_ns)} "
        f"of slot time stays empty ({share_text(advice, advice.tail_loss_ns)})."
    )
    if advice.late:
        text += (
            f" {advice.late:,} of {advice.profile.kernel_count:,} kernels were launched only after the "
            "one before had "
            "ended: there the host is late, and a CUDA graph helps, not semaphores."
        )
    if advice.pause_ns:
        text += f" Gaps over 1 ms, {milliseconds(advice.pause_ns)} in all, are counted as pauses."
    return text


def _blind_finding(advice: Advice) -> str:
    if not advice.blind_ns:
        return "Every kernel's waves are known: nothing of the kernels' time is hidden from this analysis."
    is_alone = len(advice.blind_ns) == 1
    parts = [
        ("" if is_alone else f"{100 * time / max(1, advice.compute_ns):.1f} % ") + BLIND_WORDS[reason]
        for reason, time in sorted(advice.blind_ns.items(), key=lambda item: -item[1])
    ]
    return (
        f"This analysis cannot see into {100 * advice.blind_share:.1f} % of the kernels' time: "
        f"{'; '.join(parts)}. "
        "Nothing is concluded about those kernels."
    )


def pair_rows(advice: Advice) -> list[tuple[str, ...]]:
    """The ranked table, one row of texts per pair; first those to win by tile sync, then by launch gaps."""
    return [_row(advice, pair) for pair in _worth_a_row(advice)[:SHOWN]]


def pairs_left_out(advice: Advice) -> str:
    """How many pairs the table does not show; nothing where it shows all."""
    shown = min(SHOWN, len(_worth_a_row(advice)))
    if shown == len(advice.pairs):
        return ""
    return f"The first {shown} of {len(advice.pairs)} pairs; --json has all whose waves are known."


def _worth_a_row(advice: Advice) -> list[Pair]:
    return [pair for pair in advice.pairs if pair.saving.likely_ns > 0 or pair.gap_ns > 0]


def _row(advice: Advice, pair: Pair) -> tuple[str, ...]:
    waves = "hidden"
    if pair.producer.waves is not None and pair.consumer.waves is not None:
        waves = f"{pair.producer.waves.waves:.2f}, {pair.consumer.waves.waves:.2f}"
    likely = pair.saving.likely_ns
    mark = {True: " (dependent)", False: " (independent)", None: ""}[pair.is_dependent]
    return (
        str(pair.number),
        f"{short_label(pair.producer)} -> {short_label(pair.consumer)}{mark}",
        f"{pair.count:,}",
        waves,
        _us(likely) if pair.is_visible else "-",
        share_text(advice, likely) if pair.is_visible else "-",
        f"{_us(pair.saving.low_ns)} to {_us(pair.saving.high_ns)}" if pair.is_visible else "-",
        _us(pair.gap_saving.likely_ns),
    )


def _us(time_ns: float) -> str:
    return f"{time_ns / 1e3:,.1f}"


def tile_lines(advice: Advice, most: int = 3) -> list[str]:
    """GEMMs that another tile would help."""
    return [
        f"{kernel.label}: {tile.tile[0]} x {tile.tile[1]} tiles, {_other_waves(kernel, tile)}, would save "
        f"{saving_text(_times(tile.saving, kernel.count))}"
        for kernel, tile in advice.other_tiles[:most]
    ]


def _other_waves(kernel: KernelFacts, tile: OtherTile) -> str:
    """What the other tile changes: the waves, or, where they stay, who shares an SM in the last one."""
    before = f"{kernel.waves.waves:.2f}" if kernel.waves else "unknown"
    after = f"{tile.waves:.2f}"
    if before != after:
        return f"{after} waves instead of {before}"
    return f"{after} waves as before, the last one faster because its blocks share an SM with fewer others"


def _times(saving: Saving, count: int) -> Saving:
    return Saving(saving.likely_ns * count, saving.low_ns * count, saving.high_ns * count)


def summary_text(advice: Advice, answer: Sequence[str] = (), *, is_verbose: bool = True) -> str:
    """The advice as text for a terminal, under the lines of an answer; in short its findings alone."""
    profile = advice.profile
    head = (
        f"{profile.source} ({profile.profiler}): {profile.kernel_count:,} kernels on {profile.device_name}, "
        f"{milliseconds(advice.compute_ns)} in {milliseconds(profile.span_ns)}"
    )
    told = [f"{place}. {finding}" for place, finding in enumerate(findings(advice), start=1)]
    if not is_verbose:
        lines = [whole_line(line) for line in (head, *answer, *map(_in_short, told))]
        return "\n".join(part for line in lines for part in wrap(line, WIDTH, subsequent_indent="   "))
    lines = [head, *answer, "", *told]
    rows = pair_rows(advice)
    if rows:
        lines += [
            "",
            f"Pairs back to back (gap up to {BACK_TO_BACK_NS // 1000} us), by what tile sync could win:",
        ]
        lines += [*in_columns((COLUMNS, *rows), left=(1,)), *filter(None, [pairs_left_out(advice)])]
    tiles = tile_lines(advice)
    if tiles:
        lines += ["", "GEMMs in another tile:", *(f"  {line}" for line in tiles)]
    lines += ["", *profile.notes, *ASSUMPTIONS]
    return "\n".join(map(whole_line, lines))


def _in_short(finding: str) -> str:
    """What a finding's first sentence says before its first semicolon."""
    number, *sentences = finding.split(". ")
    return f"{number}. {sentences[0].partition('; ')[0].removesuffix('.')}."
