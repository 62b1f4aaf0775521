"""The advice as a card: one sentence, one bar of where the time went, one thing to do next.

Example: "Tile sync: no. Capture the step in a CUDA graph: nothing runs for 53.4 % of the time, of which it
could win back at most 53.0 %", a bar that is half launch gaps, and the lines of Python that capture a step.
"""

import shlex
from dataclasses import dataclass
from typing import Literal

from wavesim.costs.device_costs import costs_of
from wavesim.profile.advice import Advice, Pair
from wavesim.profile.advice_text import WORTH_SHARE, gaps_lead, pair_label, saving_text, share_text
from wavesim.profile.pair_gain import Saving
from wavesim.safe_io.escaping import Markup, element

MOST_BLIND = 0.5  # of the kernels' time: beyond it "no" would say more than the profile shows
GRAPH_CODE = """graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):  # warm up: what allocates or tunes does so here
    for _ in range(3):
        step(inputs)
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(graph):
    outputs = step(inputs)

inputs.copy_(batch)  # for each batch, into the same memory
graph.replay()       # fills `outputs`"""
GRAPH_NEEDS = (
    "The step must have the same shapes each time and must not wait for the GPU inside (no .item(), no print "
    "of a tensor). torch.compile(step, mode='reduce-overhead') captures by itself."
)
SEGMENTS = {
    "work": "kernels",
    "hidden": "kernels whose tiles are hidden",
    "tails": "empty in last waves",
    "gaps": "launch gaps",
    "pauses": "pauses over 1 ms",
}


@dataclass(frozen=True)
class AdviceCard:
    """`tile_sync` is yes, no or measure; `command` is to be run next; `code` is Python to write, or ""."""

    tile_sync: Literal["yes", "no", "measure"]
    sentence: str
    command: str
    code: str = ""

    @property
    def text(self) -> str:
        """Answer and next step in a sentence each."""
        return f"Tile sync: {self.tile_sync}. {self.sentence}"


def card_of(advice: Advice) -> AdviceCard:
    """What to do, once."""
    trace = shlex.quote(advice.profile.source)
    ask = f"wavesim advise {trace} --ask --toml pair.toml"
    word, sentence = _tile_sync(advice)
    if not gaps_lead(advice):
        return AdviceCard(word, sentence, f"wavesim advise {trace} --verbose" if word == "no" else ask)
    gaps = f"nothing runs between kernels for {share_text(advice, advice.launch_gap_ns)} of the time"
    if advice.replayed_share > MOST_BLIND:
        said = f"A CUDA graph launches the kernels already, yet {gaps}: let kernels begin before others end."
        return AdviceCard(word, said, f"wavesim pdl {trace}")
    saving = graph_saving(advice)
    said = (
        f"Capture the step in a CUDA graph: {gaps}, of which it could win back at most "
        f"{share_text(advice, saving.likely_ns)}."
    )
    return AdviceCard(word, said, "wavesim advise GRAPH.json", GRAPH_CODE)


def graph_saving(advice: Advice) -> Saving:
    """What a graph of the whole step could save: each kernel keeps a graph's boundary before it."""
    kept = costs_of(advice.profile.device_name).overheads["boundary_ns"] * advice.profile.kernel_count
    return Saving(max(0.0, advice.launch_gap_ns - kept), 0.0, float(advice.launch_gap_ns))


def _tile_sync(advice: Advice) -> tuple[Literal["yes", "no", "measure"], str]:
    pairs = [
        pair for pair in advice.visible_pairs if pair.saving.likely_ns > 0 and not advice.is_refuted(pair)
    ]
    is_worth = advice.recoverable_ns >= WORTH_SHARE * advice.profile.span_ns
    if pairs and is_worth:
        best = max(pairs, key=lambda pair: (advice.is_confirmed(pair), pair.saving.likely_ns))
        return ("yes" if advice.is_confirmed(best) else "measure"), _gain(advice, best)
    if advice.blind_share > MOST_BLIND or not advice.visible_pairs:
        hidden = f"{100 * advice.blind_share:.0f} %"
        return "measure", f"{hidden} of the kernels' time is in kernels whose tiles the profile hides."
    tails = share_text(advice, advice.tail_loss_ns)
    return "no", f"Last waves leave {tails} of the time empty, and no pair wins it back."


def _gain(advice: Advice, pair: Pair) -> str:
    basis = "simulated, it gains" if advice.is_confirmed(pair) else "not simulated yet"
    return (
        f"Pair {pair.number}, {pair_label(pair)}, could win back {saving_text(pair.saving)} if the second "
        f"reads the first ({basis})."
    )


def shares_of(advice: Advice) -> dict[str, float]:
    """Where the profiled time went, by the names of `SEGMENTS`: shares of 1."""
    span = max(1, advice.profile.span_ns)
    pauses, gaps = advice.pause_ns / span, advice.launch_gap_ns / span
    busy = max(0.0, 1 - pauses - gaps)
    tails = min(busy, advice.tail_loss_ns / span)
    hidden = (busy - tails) * advice.blind_share
    return {"work": busy - tails - hidden, "hidden": hidden, "tails": tails, "gaps": gaps, "pauses": pauses}


def card_html(advice: Advice) -> Markup:
    """The card for a page or a notebook."""
    card = card_of(advice)
    shares = {name: share for name, share in shares_of(advice).items() if share >= 0.0005}
    bar = [
        element("span", class_=f"part {name}", style=f"flex-grow:{share:.4f}")
        for name, share in shares.items()
    ]
    key = [
        element("li", element("i", class_=f"part {name}"), f" {SEGMENTS[name]} {100 * share:.1f} %")
        for name, share in shares.items()
    ]
    said = ", ".join(f"{SEGMENTS[name]} {100 * share:.1f} %" for name, share in shares.items())
    code = (element("pre", element("code", card.code)), element("p", GRAPH_NEEDS)) if card.code else ()
    return element(
        "section",
        element("p", element("b", f"Tile sync: {card.tile_sync}. "), card.sentence, class_="answer"),
        element("div", *bar, class_="bar", role="img", aria_label=f"Where the time went: {said}"),
        element("ul", *key, class_="key"),
        *code,
        element("p", element("b", "Next: "), element("code", card.command)),
        class_="card",
    )
