"""The page of lint: marked lines with reasons, arrows' ends, folds; complete in one file."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from hostile import NAMES
from made_up_findings import report

from wavesim.lint.instruction import Instruction, KernelCode, Op
from wavesim.lint.report import LintReport
from wavesim.view.findings_page import MOST_FINDINGS, MOST_FOLDED, findings_html, write_findings


class Elements(HTMLParser):
    """Every element with its attributes; the text is one string."""

    def __init__(self, text: str):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def of_class(self, name):
        return [one for _, one in self.found if name in (one.get("class") or "").split()]


def test_the_line_that_is_wrong_is_marked_and_its_reason_leads_to_it_and_to_the_loads():
    page = Elements(findings_html(report()))
    (line,) = [one for one in page.of_class("line") if "wrong" in one["class"].split()]
    (reason,) = [one for one in page.of_class("reason") if "wrong" in one["class"].split()]
    assert line["data-at"] == reason["data-at"] == "7"
    assert reason["data-others"] == "13 16"
    assert len(page.of_class("reason")) == 4
    for said in ("the flag is polled relaxed", "Fix: Poll with", "no-acquire: a flag is polled"):
        assert said in page.text


def test_lines_that_no_finding_names_are_folded_and_long_folds_are_cut():
    found = report()
    listing = found.listings[0]
    padding = [Instruction("add.s32 %r1, %r1, 1;", Op.ADD, 100 + at) for at in range(5_000)]
    consumer = listing.kernels[1]
    long = KernelCode(consumer.name, [*consumer.instructions, *padding], consumer.labels)
    page = findings_html(replace(found, listings=(replace(listing, kernels=(listing.kernels[0], long)),)))
    assert f"4,999 instructions that no finding names, {MOST_FOLDED} of them here" in page
    assert page.count("add.s32") < 2 * MOST_FOLDED


def test_of_very_many_findings_the_worst_are_shown_and_the_page_says_so():
    found = report()
    many = LintReport(found.file, found.listings, [*found.findings, *[found.findings[0]] * 5_000], 0.0)
    page = findings_html(many)
    assert len(Elements(page).of_class("reason")) == MOST_FINDINGS
    assert "--json holds all" in page
    assert "Fix: Poll with" in Elements(page).text


def test_the_page_loads_nothing_and_says_what_unknown_means(tmp_path):
    path = write_findings(tmp_path / "page.html", report())
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=|@import|url\(", text)
    assert "Unknown means that lint could not decide" in text
    assert len(text) < 60_000


def test_every_name_in_every_place_stays_words():
    plain = [tag for tag, _ in Elements(findings_html(report())).found]
    for start in range(0, len(NAMES), 20):
        rest = iter((NAMES[start:] + NAMES[:start]) * 3)
        page = Elements(findings_html(report(lambda rest=rest: next(rest))))
        tags = [tag for tag, _ in page.found]
        assert set(tags) <= set(plain)
        assert tags.count("script") == plain.count("script")
        assert not [name for _, one in page.found for name in one if name.startswith("on")]
