"""The page of `wavesim lint`: each kernel's listing, its waits and posts marked, the reason beside each.

Example: a line `ld.relaxed.gpu ...` stands on a magenta ground, a dashed arrow leads from it to the load that
it should guard, and beside it stands why that is wrong and what mends it. Lines that no finding names are
folded. Nothing is fetched, and names from the file stay words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from wavesim.lint.finding import Finding, Verdict
from wavesim.lint.instruction import Instruction, KernelCode, Listing
from wavesim.lint.report import WORST_FIRST, KernelReport, LintReport, counts_text, source_text
from wavesim.lint.rules import RULES
from wavesim.safe_io.escaping import Markup, element, one_line
from wavesim.safe_io.writing import write_text
from wavesim.view.page_shell import own_text, paragraphs, whole_page

CONTEXT = 3  # lines shown before and after one that a finding names
MOST_FOLDED = 60  # lines of a fold that can be opened; the middle of a longer one is left out
MOST_LINES = 5_000  # of a kernel, folds included
MOST_FINDINGS = 2_000
MOST_ARROWS = 24  # of one finding
LONGEST = 240  # of a line
WORDS = {"ptx": "PTX", "sass": "machine code"}
MOST_JUMPS = 40
MARKS: Mapping[Verdict, str] = {"wrong": "✗", "unknown": "?", "warn": "!", "right": "✓"}
# What says how an access is ordered and for whom, in PTX and in machine code.
ORDERING = re.compile(
    r"(?<=\.)(?:acquire|release|acq_rel|relaxed|weak|volatile|mmio|sc|nc|cta|cluster|gpu|sys|read|"
    r"STRONG|WEAK|CONSTANT|CTA|SM|GPU|SYS|VIEW|ASYNC|ALL)\b"
)
SAID = (
    "Read from the compiled code; nothing was run. Unknown means that lint could not decide, and says what "
    "was missing."
)
LEGEND = (
    (
        "wrong",
        "a wait, post or load that breaks the protocol; a dashed arrow leads to what it leaves unordered",
    ),
    ("unknown", "lint could not decide, and says why"),
    ("warn", "no fault, but likely not meant"),
    ("right", "proven in order; an arrow leads to what it orders"),
)


def write_findings(path: str | Path, report: LintReport) -> Path:
    """Writes the page. Returns its path. Raises `OutputError`; what was there before stays whole."""
    return write_text(path, findings_html(report))


def findings_html(report: LintReport) -> Markup:
    """The page as HTML."""
    archs = ", ".join(
        dict.fromkeys(
            f"{WORDS[listing.language]} for {one_line(listing.arch, 40)}" for listing in report.listings
        )
    )
    kernels = sum(len(listing.kernels) for listing in report.listings)
    lead = f"{kernels} kernel{'s' * (kernels != 1)}, {archs}; read in {report.seconds:.2f} s."
    parts, left = [], MOST_FINDINGS
    for part in report.kernels:
        parts.append(
            _kernel(report, KernelReport(part.kernel, part.where, part.findings[:left])) if left else ""
        )
        left = max(0, left - len(part.findings))
    notes = list(report.notes)
    if len(report.findings) > MOST_FINDINGS:
        notes.append(f"The page holds the first {MOST_FINDINGS:,} findings; --json holds all.")
    told = [element("ul", *(element("li", note) for note in notes), class_="notes")] if notes else []
    return whole_page(
        report.headline,
        lead,
        Markup("\n").join([_legend(), *told, *(part for part in parts if part)]),
        styles=[own_text("findings.css")],
        scripts=[own_text("findings.js")],
        said=SAID,
    )


def _legend() -> Markup:
    items = (
        element("li", element("span", MARKS[_verdict(word)], class_=f"mark {word}"), f" {word}: {text}")
        for word, text in LEGEND
    )
    return element("ul", *items, class_="legend")


def _verdict(word: str) -> Verdict:
    return next(verdict for verdict in WORST_FIRST if verdict == word)


def _kernel(report: LintReport, part: KernelReport) -> Markup:
    """A kernel's heading, its listing, and its findings."""
    words = [WORDS[entry.language] for entry in report.listings if entry.where == part.where]
    where = ", ".join([part.where, *words[:1]])
    heading = element(
        "h2", element("span", MARKS[part.verdict], class_=f"mark {part.verdict}"), f" {part.kernel}"
    )
    code = _code_of(report.listings, part)
    places = _Places(() if code is None else code.instructions)
    lines = Markup("").join(_rows(code, places, part.findings)) if code is not None else Markup("")
    notes = (_note(finding, places) for finding in part.findings)
    # The arrows are drawn by the script, into the first child.
    drawn = Markup('<svg class="arrows" aria-hidden="true"></svg>')
    listing = element(
        "div",
        element("div", drawn, lines, class_="code"),
        element("div", *notes, class_="reasons"),
        class_="listing",
    )
    return element(
        "section",
        heading,
        paragraphs(f"{where}: {counts_text(part.findings)}", "where"),
        _jumps(part, places),
        listing,
        class_="kernel",
    )


def _jumps(part: KernelReport, places: "_Places") -> Markup:
    """A button for each line that is wrong or unknown, which leads there."""
    told = [
        (finding, places.of(finding.instruction)) for finding in part.findings if finding.verdict != "right"
    ]
    buttons = (
        element(
            "button",
            f"{MARKS[finding.verdict]} {finding.rule}, line {finding.instruction.listing_line}",
            type="button",
            class_=f"jump {finding.verdict}",
            data_at=f"{at}",
        )
        for finding, at in told[:MOST_JUMPS]
        if finding.instruction is not None and at is not None
    )
    return element("p", *buttons, class_="jumps")


def _code_of(listings: Sequence[Listing], part: KernelReport) -> KernelCode | None:
    """The kernel that a report's part is of."""
    return next(
        (
            kernel
            for listing in listings
            if listing.where == part.where
            for kernel in listing.kernels
            if kernel.name == part.kernel
        ),
        None,
    )


class _Places:
    """The index of an instruction in its kernel, by its line and text; None for one of another kernel."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._known = {
            (instruction.listing_line, instruction.text): at for at, instruction in enumerate(instructions)
        }

    def of(self, instruction: Instruction | None) -> int | None:
        return None if instruction is None else self._known.get((instruction.listing_line, instruction.text))


def _rows(code: KernelCode, places: _Places, findings: Sequence[Finding]) -> Iterator[Markup]:
    """The kernel's lines: those that findings name with a few around them, the others folded."""
    marks = _marks(places, findings)
    near = {at + step for at in marks for step in range(-CONTEXT, CONTEXT + 1)}
    labels: dict[int, list[str]] = {}
    for label, at in code.labels.items():
        labels.setdefault(at, []).append(label)
    left = MOST_LINES
    for is_near, group in groupby(range(len(code.instructions)), key=near.__contains__):
        whole = list(group)
        ends = whole if is_near else [*whole[: MOST_FOLDED // 2], *whole[-MOST_FOLDED // 2 :]]
        shown = list(dict.fromkeys(ends))[:left]
        left -= len(shown)
        rows = [_row(code, at, marks.get(at), labels.get(at, ())) for at in shown]
        if is_near:
            yield from rows
        else:
            yield _fold(rows, len(whole))


def _fold(rows: Sequence[Markup], count: int) -> Markup:
    said = f"{count:,} instruction{'s' * (count != 1)} that no finding names"
    if len(rows) < count:
        said += f", {len(rows):,} of them here"
    return element("details", element("summary", said), *rows)


def _marks(places: _Places, findings: Sequence[Finding]) -> dict[int, str]:
    """The verdict of what findings are about, the worst of several, and "" for what their reasons name."""
    marks: dict[int, str] = {}
    for finding in reversed(findings):  # worst first, so that the worst is noted last
        for other in finding.others:
            at = places.of(other)
            if at is not None:
                marks.setdefault(at, "")
        at = places.of(finding.instruction)
        if at is not None:
            marks[at] = finding.verdict
    return marks


def _row(code: KernelCode, at: int, verdict: str | None, labels: Sequence[str]) -> Markup:
    """One line; `verdict` is "" where a reason names it and None where nothing does."""
    instruction = code.instructions[at]
    kinds = "line" if verdict is None else f"line named {verdict}".rstrip()
    above = [
        element("div", element("code", f"{one_line(label, LONGEST)}:"), class_="label") for label in labels
    ]
    source = source_text(instruction)
    row = element(
        "div",
        element("span", f"{instruction.listing_line}", class_="number"),
        element("code", _coloured(instruction)),
        element("span", source, class_="source") if source else "",
        class_=kinds,
        data_at=f"{at}",
    )
    return Markup("").join([*above, row])


def _coloured(instruction: Instruction) -> Markup:
    """The text with the words that say how it is ordered set apart."""
    text = one_line(instruction.text.strip(), LONGEST)
    parts: list[str] = []
    end = 0
    for match in ORDERING.finditer(text):
        parts += [text[end : match.start()], element("b", match[0])]
        end = match.end()
    return Markup("").join([*parts, text[end:]])


def _note(finding: Finding, places: _Places) -> Markup:
    """The reason, beside its line; the script puts it there and draws its arrows."""
    at = places.of(finding.instruction)
    others = [places.of(other) for other in finding.others[:MOST_ARROWS]]
    line = "" if finding.instruction is None else f", line {finding.instruction.listing_line}"
    return element(
        "article",
        element(
            "h3",
            element("span", MARKS[finding.verdict], class_=f"mark {finding.verdict}"),
            f" {finding.verdict}: {finding.kind}{line}",
        ),
        element("p", finding.why),
        element("p", element("b", "Fix: "), finding.fix, class_="fix") if finding.fix else "",
        element("p", _rule_text(finding), class_="rule"),
        class_=f"reason {finding.verdict}",
        tabindex="0",
        data_at=None if at is None else f"{at}",
        data_others=" ".join(f"{other}" for other in others if other is not None),
    )


def _rule_text(finding: Finding) -> str:
    """The rule, and what breaks it where it is not right."""
    rule = RULES.get(finding.rule)
    if rule is None or finding.verdict == "right":
        return f"held to {finding.rule}" if finding.rule else ""
    return f"{finding.rule}: {rule.wrong}"
