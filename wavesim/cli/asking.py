"""The questions of `wavesim advise --ask`: what a profile cannot know of a pair, asked on the terminal.

Example: "consumer: tile rows and columns, and its k-block if known [128 256]". An empty line takes what
stands in brackets; an answer that cannot be is refused with the reason, and asked again. A file of
`--answers` says the same.
"""

from collections.abc import Callable, Mapping
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.kernel_facts import PERSISTENT, KernelFacts
from wavesim.profile.pair_file import READS, ROLES, PairAnswers, pair_description
from wavesim.safe_io.bounds import real, whole

Ask = Callable[[str], str]
NONE = "-"  # the answer that there is nothing to say


def asked(advice: Advice, ask: Ask, tell: Callable[[str], object]) -> PairAnswers:
    """Asks about one pair until the answers describe it; `tell` shows what is wrong.

    Raises `DescriptionError` where no pair is there to be asked about.
    """
    if not advice.pairs:
        raise DescriptionError("the profile has no two kernels back to back; there is nothing to ask")
    while True:
        try:
            answers = _answers(advice, ask)
            pair_description(advice.pair(answers.pair), answers)
        except (DescriptionError, RecordingError) as error:
            tell(f"{error}. Once more:")
        else:
            return answers


def _answers(advice: Advice, ask: Ask) -> PairAnswers:
    first = advice.visible_pairs[0].number if advice.visible_pairs else 1
    number = whole("pair", _with_default(ask, f"which pair, 1 to {len(advice.pairs)}", str(first)), 1)
    pair = advice.pair(number)
    producer, consumer = (
        _kernel(ask, role, kernel) for role, kernel in zip(ROLES, (pair.producer, pair.consumer), strict=True)
    )
    return PairAnswers(number, producer, consumer, _reads(ask, pair, producer))


def _kernel(ask: Ask, role: str, kernel: KernelFacts) -> Mapping[str, Any]:
    """What is said of one kernel, as fields of a description."""
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
    has_rows = "tile" in producer or (pair.producer.shape.grid or (1, 1, 1))[1] > 1
    question = f"what a tile of the consumer reads, {words}; or tiles such as producer[:, y // 2]"
    return _with_default(ask, question, next(iter(READS)) if has_rows else list(READS)[-1])


def _integers(ask: Ask, question: str, usual: str, least: int, most: int) -> list[int]:
    """So many integers, none where the answer is that there is nothing to say."""
    text = _with_default(ask, question, usual)
    words = [] if text == NONE else text.split()
    if words and not least <= len(words) <= most:
        raise DescriptionError(f"{text!r} has {len(words)} numbers; write {least} to {most}, or {NONE}")
    return [whole("a size", word, 1) for word in words]


def _with_default(ask: Ask, question: str, usual: str) -> str:
    return ask(f"{question} [{usual}] ").strip() or usual
