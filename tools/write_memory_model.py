"""Writes docs/memory-model.md: the litmus tests of our protocols and their verdicts, worked out anew.

Example: "A post and a wait" is a row of the table, and a section with its threads, all outcomes that the
model allows, and a line per weaker form. A test says when the page is old: then run
`python tools/write_memory_model.py`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from wavesim.litmus.enumeration import Outcome
from wavesim.litmus.protocol import Protocol, protocols, published
from wavesim.litmus.weakening import DROPPED, EARLY, UNAWAITED

PAGE = Path(__file__).parents[1] / "docs" / "memory-model.md"


def memory_model_page() -> str:
    """The whole page: `protocol_page.md` with its {words} filled in. Takes seconds: it tries every form."""
    text = Path(__file__).with_name("memory_model_page.md").read_text(encoding="utf-8")
    parts = {
        "summary": _summary(),
        "table": "\n".join(_table()),
        "allowed": "\n".join(_allowed()),
        "published": str(len(published())),
        "protocols": "\n\n".join("\n".join(_section(protocol)) for protocol in protocols()),
    }
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], text)


def _summary() -> str:
    safe = [protocol for protocol in protocols() if protocol.is_safe]
    needed = sum(_needed(protocol) for protocol in safe)
    spare = sum(len(protocol.weaker) for protocol in safe) - needed
    count = len(protocols())
    return (
        f"**{len(safe)} of {count} protocols forbid what is bad.** Their {needed + spare} weaker forms: in "
        f"{needed} what is\nbad appears, in {spare} it does not. The model allows what is bad in the other "
        f"{count - len(safe)}, in a strict reading or to show\nwhat nobody promises."
    )


def _needed(protocol: Protocol) -> int:
    return sum(bad is not None for _, bad in protocol.weaker)


def _table() -> Iterator[str]:
    yield "| protocol | part | bad outcome | needed | stronger than needed | stands for |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for protocol in protocols():
        bad = " or ".join(f"`{condition.text}`" for condition in protocol.bad)
        counts = ["**allowed**", "", ""]
        if protocol.is_safe:
            needed = _needed(protocol)
            counts = ["forbidden", str(needed), str(len(protocol.weaker) - needed)]
        files = ", ".join(f"`{'/'.join(file.split('/')[-2:])}`" for file in protocol.files)
        link = f"[{protocol.name}](#{_anchor(protocol.name)})"
        yield f"| {link} | {protocol.plan} | {bad} {counts[0]} | {counts[1]} | {counts[2]} | {files} |"


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"[^\w\s-]", "", name.lower())).strip("-")


def _allowed() -> Iterator[str]:
    for protocol in protocols():
        if not protocol.is_safe:
            yield f"- **{protocol.name}**: {protocol.allowed_because} {protocol.kept_by}"


def _section(protocol: Protocol) -> Iterator[str]:
    yield from (f"### {protocol.name}", "", protocol.says, "", "```text")
    for thread in protocol.test.threads:
        kernel = f", kernel {thread.kernel}" if thread.kernel else ""
        after = f", after {' and '.join(thread.after)} has ended" if thread.after else ""
        yield f"{thread.name} ({thread.at}{kernel}{after})"
        yield from (f"    {line}" for line in thread.code)
    yield "```"
    yield ""
    yield from _facts(protocol)
    if protocol.is_safe:
        yield from ("", *_weaker(protocol))


def _facts(protocol: Protocol) -> Iterator[str]:
    if protocol.test.memory:
        yield (
            "At first: "
            + ", ".join(f"{name} = {value}" for name, value in protocol.test.memory.items())
            + ". "
        )
    listed = "; ".join(map(_outcome, protocol.outcomes[:8]))
    more = f"; and {len(protocol.outcomes) - 8} more" if len(protocol.outcomes) > 8 else ""
    yield f"Allowed ({len(protocol.outcomes)}): {listed}{more}."
    yield f"Stands for: {', '.join(f'`{file}`' for file in protocol.files)}."
    if not protocol.is_safe:
        yield f"**Allowed although bad.** {protocol.allowed_because} {protocol.kept_by}"


def _outcome(outcome: Outcome) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in outcome)
    return values or "the end, with no register to look at"


def _weaker(protocol: Protocol) -> Iterator[str]:
    yield "| who | what | weaker | then |"
    yield "| --- | --- | --- | --- |"
    for form, bad in protocol.weaker:
        change = form.change if form.change in (DROPPED, EARLY, UNAWAITED) else f"`{form.change}`"
        verdict = f"not needed. {protocol.reason(form)}" if bad is None else f"needed: {_outcome(bad)}"
        yield f"| {form.thread} | `{form.text}` | {change} | {verdict} |"


if __name__ == "__main__":
    PAGE.write_text(memory_model_page(), encoding="utf-8")
