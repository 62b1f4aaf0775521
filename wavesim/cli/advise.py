"""`wavesim advise`: where a profile loses time, what would win it back, and the best pairs simulated.

Example: `wavesim advise trace.json.gz --ask --toml pair.toml` asks what a profile cannot know of a pair,
writes it as a description, and predicts it. `--depend 1,3 --html report.html` marks pairs and writes the
report.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wavesim.cli.in_kernel import in_kernel_trace, report_trace
from wavesim.cli.printing import complain, print_result, progress
from wavesim.cli.shared_options import add_shared
from wavesim.errors import DescriptionError, RecordingError
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.kernel_facts import PERSISTENT, KernelFacts
from wavesim.profile.pair_file import READS, ROLES, PairAnswers, pair_description
from wavesim.safe_io.bounds import listed_integers, real, whole
from wavesim.safe_io.escaping import whole_line
from wavesim.safe_io.options import integer, number
from wavesim.safe_io.writing import write_text

MOST_PAIRS = 1_000
VERDICTS, MOST_VERDICTS, SECONDS = 3, 100, 20.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "trace",
        metavar="profile",
        type=Path,
        help="PyTorch's JSON (or .gz), Nsight Systems' sqlite export, or a trace from inside kernels",
    )
    add_shared(parser, "--html", "--verbose", html="write the report, one self-contained page")
    parser.add_argument("--device", help="the device it ran on, where the profile does not say")
    parser.add_argument(
        "--depend", default="", help="numbers of pairs whose consumer reads the producer: 1,3"
    )
    parser.add_argument("--independent", default="", help="numbers of pairs that do not depend on each other")
    parser.add_argument("--ask", action="store_true", help="ask what the profile cannot know of a pair")
    parser.add_argument("--answers", type=Path, help="take the answers from this TOML file instead")
    parser.add_argument("--pair", type=integer, help="the pair that --toml writes (1)")
    parser.add_argument("--toml", type=Path, help="write a pair as a description, for all commands")
    parser.add_argument(
        "--verdicts",
        type=integer,
        default=VERDICTS,
        help=f"how many of the best pairs to simulate ({VERDICTS})",
    )
    parser.add_argument(
        "--seconds", type=number, default=SECONDS, help=f"for all of them together ({SECONDS:g})"
    )


def run(options: argparse.Namespace) -> int:
    """Reads, analyses and marks the profile, simulates the best pairs; writes page and TOML if asked."""
    from wavesim.profile.advice import advise
    from wavesim.profile.advice_card import card_of
    from wavesim.profile.advice_json import advice_document
    from wavesim.profile.advice_text import summary_text
    from wavesim.profile.pair_verdicts import verdicts_of
    from wavesim.profile.profile_file import load_profile

    _require_fitting(options)
    marks = _marks(options)
    if (inside := in_kernel_trace(options.trace, options.device)) is not None:
        return report_trace(options, inside)
    advice = advise(load_profile(options.trace, options.device)).marked(marks)
    answers = _answers(options, advice)
    if options.toml:
        _write_pair(options, advice, answers)
    verdicts = verdicts_of(
        advice,
        options.verdicts,
        options.seconds,
        answers,
        lambda pair: progress(f"simulating pair {pair}", after_s=1.0),
    )
    advice = advice.with_simulated(
        {verdict.pair: verdict.points for verdict in verdicts if verdict.points is not None}
    )
    lines = [whole_line(line) for verdict in verdicts for line in verdict.text]
    if options.html:
        from wavesim.profile.report import write_report

        write_report(options.html, advice, lines)
    card = card_of(advice)
    document = {
        **advice_document(advice),
        "answer": asdict(card),
        "verdicts": [verdict.as_json() for verdict in verdicts],
    }
    told = [card.text, *(card.code.splitlines() if options.verbose else ()), f"Next: {card.command}"]
    text = summary_text(advice, told, is_verbose=options.verbose)
    if options.verbose:
        text = "\n".join([text, "", HEADING, *lines]) if lines else text
    else:
        text = "\n".join([text, *(whole_line(verdict.short) for verdict in verdicts if verdict.points), MORE])
    return print_result(options, document, text)


MORE = "--verbose: code, all pairs, what is assumed; --ask: describe a pair; --html PAGE: the same drawn"


HEADING = (
    "The best pairs simulated, each from its kernels' times alone and as if the consumer read the producer:"
)


def _require_fitting(options: argparse.Namespace) -> None:
    """Raises `DescriptionError` for options that say nothing, contradict each other or are out of bounds."""
    if options.pair is not None and not options.toml:
        raise DescriptionError("--pair is the pair that --toml writes; add --toml FILE, or leave --pair out")
    if options.ask and options.answers:
        raise DescriptionError("--ask and --answers both answer; leave one of them out")
    if options.pair is not None and (options.ask or options.answers):
        raise DescriptionError("--pair is said by the answers; leave it out")
    whole("--verdicts", options.verdicts, 0, MOST_VERDICTS)


def _answers(options: argparse.Namespace, advice: Advice) -> PairAnswers | None:
    from wavesim.profile.advice_text import COLUMNS, pair_rows
    from wavesim.profile.pair_file import load_answers

    if options.answers:
        return load_answers(options.answers)
    if not options.ask:
        return None
    for row in (COLUMNS, *pair_rows(advice)):
        complain("  ".join(row[:4]))
    try:
        return ask_author(advice, _ask, complain)
    except EOFError:
        raise DescriptionError(
            "the input ended before all questions were answered; answer them, or use --answers FILE"
        ) from None


def _ask(question: str) -> str:
    """Asks on standard error, as the result goes to standard output. Raises `EOFError`."""
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _write_pair(options: argparse.Namespace, advice: Advice, answers: PairAnswers | None) -> None:
    from wavesim.profile.pair_file import NOTHING_SAID, pair_toml

    said = NOTHING_SAID if answers is None else answers
    chosen = said.pair if options.pair is None else options.pair
    write_text(options.toml, pair_toml(advice.pair(chosen), advice.profile.source, said))


def _marks(options: argparse.Namespace) -> dict[int, bool]:
    """Whether a pair depends, by its number. Raises `DescriptionError` for one said to do both."""
    depend, independent = (
        listed_integers(f"--{name}", getattr(options, name), 1, "1,3", MOST_PAIRS)
        for name in ("depend", "independent")
    )
    for number_ in depend:
        if number_ in independent:
            raise DescriptionError(f"pair {number_} is in --depend and in --independent; leave it out of one")
    return dict.fromkeys(depend, True) | dict.fromkeys(independent, False)


Ask = Callable[[str], str]
NONE = "-"  # the answer that there is nothing to say


def ask_author(advice: Advice, ask: Ask, tell: Callable[[str], object]) -> PairAnswers:
    """Asks about one pair until the answers describe it; `tell` shows what is wrong.

    Raises `DescriptionError` where no pair is there to be ask_author about.
    """
    if not advice.pairs:
        raise DescriptionError("the profile has no two kernels back to back; there is nothing to ask")
    while True:
        try:
            answers = _answered(advice, ask)
            pair_description(advice.pair(answers.pair), answers)
        except (DescriptionError, RecordingError) as error:
            tell(f"{error}. Once more:")
        else:
            return answers


def _answered(advice: Advice, ask: Ask) -> PairAnswers:
    first = advice.visible_pairs[0].number if advice.visible_pairs else 1
    number = whole("pair", _with_default(ask, f"which pair, 1 to {len(advice.pairs)}", str(first)), 1)
    pair = advice.pair(number)
    producer, consumer = (
        _kernel(ask, role, kernel) for role, kernel in zip(ROLES, (pair.producer, pair.consumer), strict=True)
    )
    return PairAnswers(number, producer, consumer, _reads(ask, pair, producer))


def _kernel(ask: Ask, role: str, kernel: KernelFacts) -> Mapping[str, Any]:
    fields: dict[str, Any] = {}
    head = f"{role}, {kernel.label}, {kernel.shape.blocks or 0:,} blocks"
    known = kernel.shape.gemm
    sizes = _integers(
        ask, f"{head}: M N K of its product, {NONE} if it is none", " ".join(map(str, known or NONE)), 3, 3
    )
    if sizes:
        fields |= dict(zip(("m", "n", "k"), sizes, strict=True))
        usual = " ".join(map(str, kernel.name.tile or (128, 128)))
        tile = _integers(ask, f"{role}: tile rows and columns, and its k-block if known", usual, 2, 3)
        if tile:
            fields["tile"] = tile
    elif _is_flat(kernel):
        usual = f"{kernel.shape.blocks or 1} 1"
        fields["grid"] = _integers(ask, f"{role}: its tile columns and tile rows", usual, 2, 2)
    is_persistent = "yes" if kernel.blind == PERSISTENT else "no"
    words = _with_default(
        ask, f"{role}: does a block take tile after tile (persistent), yes or no", is_persistent
    )
    if words not in ("yes", "no"):
        raise DescriptionError(f"persistent is {words!r}; write yes or no")
    fields["persistent"] = words == "yes"
    time_us = f"{max(kernel.mean_ns, 1) / 1000:.3f}"
    fields["kernel_us"] = real(
        "kernel_us", _with_default(ask, f"{role}: its time alone, in us", time_us), 0.001
    )
    return fields


def _reads(ask: Ask, pair: Pair, producer: Mapping[str, Any]) -> str:
    words = "; ".join(f"{word}: {meaning}" for word, meaning in READS.items())
    has_rows = "tile" in producer or producer.get("grid", (1, 1))[1] > 1 or not _is_flat(pair.producer)
    question = f"what a tile of the consumer reads, {words}; or tiles such as producer[:, y // 2]"
    return _with_default(ask, question, next(iter(READS)) if has_rows else list(READS)[-1])


def _is_flat(kernel: KernelFacts) -> bool:
    return (kernel.shape.grid or (1, 1, 1))[1] == 1


def _integers(ask: Ask, question: str, usual: str, least: int, most: int) -> list[int]:
    text = _with_default(ask, question, usual)
    words = [] if text == NONE else text.split()
    if words and not least <= len(words) <= most:
        raise DescriptionError(f"{text!r} has {len(words)} numbers; write {least} to {most}, or {NONE}")
    return [whole("a size", word, 1) for word in words]


def _with_default(ask: Ask, question: str, usual: str) -> str:
    return ask(f"{question} [{usual}] ").strip() or usual
