"""A pair of kernels in twenty forms, checked by lint, as notebook 15 shows their instructions.

Example: `checked("tile_pair.no-acquire.WAIT-volatile")` is lint's report on a pair whose consumer polls by
volatile loads; `kernel_shown(...)` is a kernel's instructions with the
reasons beside them.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ipywidgets

from wavesim.errors import DescriptionError
from wavesim.lint.check import findings_of
from wavesim.lint.finding import Finding, Known
from wavesim.lint.instruction import Instruction, KernelCode, Listing
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.report import WORST_FIRST, LintReport
from wavesim.lint.sass import listing_of_sass
from wavesim.safe_io.annotated import require_type, typed
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.theme import LIGHT
from wavesim.widgets.explorer import Explorer, menu, require_offered
from wavesim.widgets.words import Words

# PTX and machine code of cases of lint's corpus; a test compares them with the corpus.
FORMS = Path(__file__).with_name("tile_pair.json.gz")
# What a user would say of the parameters: the tile and the flag, of either kernel.
KNOWN = Known(produced=frozenset({"produce:1", "consume:0"}), flags=frozenset({"produce:2", "consume:2"}))
# Compiled by tests/support/hoisted_load.py, as not every compiler moves this load for every GPU.
HOISTED = Path(__file__).with_name("hoisted_load.json")
PAIR, CONSUMER = "tile_pair", "consume"
CONTEXT = 2  # lines shown before and after one that a reason names
LANGUAGES = {"PTX": "ptx", "machine code": "sass"}
WAITS = {
    "ld.acquire": "",
    "an atomic that acquires": ".WAIT-atom_acquire",
    "volatile loads, then a fence": ".WAIT-volatile",
    "relaxed atomic adds of 0, then a fence": ".WAIT-atomic_add",
}
FAULTS = {
    "none": "right",
    "no acquire": "no-acquire",
    "no block barrier behind the wait": "no-barrier-after-wait",
    "scope of the block": "narrow-wait",
    "tile read before the wait": "load-above-wait",
}
MARKS = {"wrong": ("✗", LIGHT.bad), "unknown": ("?", LIGHT.muted), "right": ("✓", LIGHT.good)}
CELL = "text-align:left;vertical-align:top;padding:0 12px 0 0;line-height:1.5;max-width:40em"


@cache
def forms() -> Mapping[str, Mapping[str, str]]:
    """PTX and machine code of each form, by its name."""
    forms: Mapping[str, Mapping[str, str]] = json.loads(gzip.decompress(FORMS.read_bytes()))
    return forms


@typed
@cache
def checked(name: str, language: str = "ptx") -> LintReport:
    """Lint's report on the form of that name. Raises `DescriptionError` where there is none."""
    listing = listing_of(name, language)
    return LintReport(name, (listing,), findings_of(listing, KNOWN), 0.0)


@typed
def hoisted(language: str, form: str = "wrong") -> LintReport:
    """Lint's report on a kernel whose load the compiler moves above the wait; "right" is its twin."""
    forms = json.loads(HOISTED.read_text(encoding="utf-8"))
    require_offered("form", form, list(forms))
    require_offered("language", language, list(LANGUAGES.values()))
    text = forms[form][language]
    listing = (listing_of_ptx if language == "ptx" else listing_of_sass)(text, "scale_rows")
    known = Known(produced=frozenset({"0"}))
    return LintReport("scale_rows", (listing,), findings_of(listing, known), 0.0)


@typed
def listing_of(name: str, language: str) -> Listing:
    """The form's instructions, from "ptx" or "sass". Raises `DescriptionError`."""
    require_offered("language", language, list(LANGUAGES.values()))
    if name not in forms():
        raise DescriptionError(f"name is {name!r}; there are such as {next(iter(forms()))!r}")
    return (listing_of_ptx if language == "ptx" else listing_of_sass)(forms()[name][language], name)


# An instruction, a label, or None for what is left out; and what is said of the instruction.
Line = tuple[Instruction | str | None, list[Finding]]


@dataclass(frozen=True)
class KernelShown:
    """A kernel of a case: its instructions, and where `is_checked` what lint says beside them.

    Unchecked it is shown whole, checked without the lines that no reason is near.
    """

    report: LintReport
    kernel: str
    is_checked: bool = True

    def __post_init__(self) -> None:
        require_type("KernelShown", "report", self.report, LintReport)
        require_offered("kernel", self.kernel, [one.name for one in self._codes])

    @property
    def _codes(self) -> list[KernelCode]:
        return [one for listing in self.report.listings for one in listing.kernels]

    @property
    def code(self) -> KernelCode:
        """The kernel's instructions."""
        return next(one for one in self._codes if one.name == self.kernel)

    @property
    def findings(self) -> list[Finding]:
        """What is said of it, worst first; of each instruction the first of its kind."""
        found = [one for one in self.report.findings if one.kernel == self.kernel and one.kind != "spin"]
        return sorted(found, key=lambda one: WORST_FIRST.index(one.verdict))

    def lines(self) -> list[Line]:
        """Instructions with what is said of them; None stands for those left out."""
        found = self.findings if self.is_checked else []
        told = {id(one): [f for f in found if f.instruction is one] for one in self.code.instructions}
        named = {id(one) for finding in found for one in finding.others}
        places = [at for at, one in enumerate(self.code.instructions) if told[id(one)] or id(one) in named]
        rows: list[Line] = []
        for at, one in enumerate(self.code.instructions):
            if not self.is_checked or any(abs(at - place) <= CONTEXT for place in places):
                rows += [(f"{name}:", []) for name, place in self.code.labels.items() if place == at]
                rows.append((one, told[id(one)]))
            elif not rows or rows[-1][0] is not None:
                rows.append((None, []))
        return rows

    def html(self) -> Markup:
        """The lines with lint's reasons as a table."""
        return element("table", *(_row(one, found) for one, found in self.lines()))

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return "\n".join(_text(one, found) for one, found in self.lines())


@typed
def kernel_shown(name: str, kernel: str, language: str = "ptx", *, is_checked: bool = True) -> KernelShown:
    """A kernel of a case, to look at. Raises `DescriptionError` for a case that is not there."""
    return KernelShown(checked(name, language), kernel, is_checked)


def _text(instruction: Instruction | str | None, found: list[Finding]) -> str:
    if instruction is None or isinstance(instruction, str):
        return instruction or "..."
    reasons = (f"\n    {MARKS[one.verdict][0]} {_said(one)}" for one in found)
    return f"{instruction.listing_line:4} {instruction.text.strip()}{''.join(reasons)}"


def _row(instruction: Instruction | str | None, found: list[Finding]) -> Markup:
    if instruction is None or isinstance(instruction, str):
        label = element("code", instruction, style="background:none;opacity:0.6") if instruction else "⋯"
        return element("tr", element("td", ""), element("td", label, style=CELL))
    colour = LIGHT.translucent(MARKS[found[0].verdict][1], 0.15) if found else "transparent"
    return element(
        "tr",
        element("td", f"{instruction.listing_line}", style=f"{CELL};opacity:0.6"),
        element("td", element("code", instruction.text.strip(), style="background:none"), style=CELL),
        element("td", *map(_reason, found), style=CELL),
        style=f"background:{colour}",
    )


def _reason(finding: Finding) -> Markup:
    mark, colour = MARKS[finding.verdict]
    fix = element("i", f" {finding.fix}") if finding.fix else ""
    return element("div", element("b", mark, style=f"color:{colour}"), f" {_said(finding)}.", fix)


def _said(finding: Finding) -> str:
    rule = f", {finding.rule}" if finding.verdict == "wrong" else ""
    return f"{finding.verdict}{rule}: {finding.why}"


class LintExplorer(Explorer):
    """A consumer that waits in one of several ways, with a fault or none, in PTX or machine code, checked."""

    @typed
    def __init__(self, wait: str = "ld.acquire", fault: str = "none") -> None:
        self.table = Words()
        controls = {
            "wait": menu("waits by", WAITS, wait),
            "fault": menu("fault", FAULTS, fault),
            "language": ipywidgets.ToggleButtons(options=list(LANGUAGES)),
        }
        super().__init__(controls, above=[self.table])

    def _say(self) -> None:
        name = f"{PAIR}.{FAULTS[self.fault.value]}{WAITS[self.wait.value]}"
        self.table.value = kernel_shown(name, CONSUMER, LANGUAGES[self.language.value]).html()
