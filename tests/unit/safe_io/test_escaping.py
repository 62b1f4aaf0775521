"""Texts from outside in HTML, in a script, on a terminal: they are shown, and nothing in them is done."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from wavesim.safe_io.escaping import Markup, element, lines, markup, one_line, script_json
from wavesim.view.export import FOUND
from wavesim.widgets.words import Words

SCRIPT = "<script>alert(1)</script>"
CONTROLS = "".join(map(chr, (0, 7, 8, 11, 12, 27, 127, 0x85, 0x9B, 0xD800, 0xFFFE)))
TURNED = "\u202egnp.exe\u2066\u200f"


class Elements(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    "text", [SCRIPT, "a & b &lt; c", "\"'`", "${alert(1)}", "%{x} 5 %", "$x$", "</style>"]
)
def test_a_text_in_an_element_is_read_back_as_it_was(text):
    elements = Elements(element("b", text, title=text))
    assert elements.tags == [("b", {"title": text})]
    assert elements.text == text


@pytest.mark.parametrize("text", [CONTROLS, TURNED])
def test_what_no_document_can_hold_is_replaced_in_text_and_attribute(text):
    tree = ET.fromstring(element("text", text, id=text))  # noqa: S314  # our own text
    for read_back in (tree.text, tree.get("id")):
        assert "\ufffd" in read_back
        assert not set(read_back) & set(text) - set("gnp.exe\u200f")
    element("text", text).encode()


def test_markup_is_escaped_once_and_only_where_it_is_none():
    inner = element("i", "a < b")
    assert markup(inner) is inner
    assert element("p", inner, "<") == "<p><i>a &lt; b</i>&lt;</p>"


def test_templates_and_lists_of_markup_escape_the_texts_that_are_put_into_them():
    assert Markup("<b>{}</b>, {n:,}, {more}").format(SCRIPT, n=1000, more=element("i", "x")) == (
        "<b>&lt;script&gt;alert(1)&lt;/script&gt;</b>, 1,000, <i>x</i>"
    )
    assert Markup("<br>").join(["<", element("i", "x")]) == "&lt;<br><i>x</i>"
    assert isinstance(Markup("").join([]), Markup)


def test_markup_that_was_put_together_as_text_is_a_text():
    assert type(element("i", "x") + SCRIPT) is str
    assert type(f"{element('i', 'x')}") is str


@pytest.mark.parametrize(
    "text", ["</script>", "<!--<script>", "]]>", "\u2028", "\U0001f4a5", "&lt;", "\\ud800", TURNED]
)
def test_json_in_a_script_is_read_back_and_ends_nothing(text):
    script = script_json({text: [text, b"1"]}, default=bytes.decode)
    assert json.loads(script) == {text: [text, "1"]}
    assert script.isascii()
    assert not set(script) & set("<>&")


@pytest.mark.parametrize("text", ["\ud800", "\udc00\ud800", "\\\ud800", "a\ud83d!", CONTROLS])
def test_half_a_surrogate_pair_in_json_is_replaced(text):
    read_back = json.loads(script_json(text))
    assert read_back == re.sub("[\ud800-\udfff]", "\ufffd", text)
    read_back.encode()


@pytest.mark.parametrize("text", ["a\nb", "a\r\x1b[31mb", CONTROLS, TURNED, "a\u2028b"])
def test_a_line_for_a_terminal_holds_only_what_is_printed(text):
    assert one_line(text).isprintable()
    assert lines(f"{text}\n{text}").replace("\n", "").isprintable()


def test_lines_keep_their_breaks_and_their_length():
    long = "x" * 1000
    assert lines(f"one\n\n  two {long}\n") == f"one\n\n  two {long}\n"
    assert len(one_line(long)) == 200


def test_a_notebooks_words_are_markup_whoever_assigns_them():
    words = Words(SCRIPT)
    assert words.value == "&lt;script&gt;alert(1)&lt;/script&gt;"
    words.value = element("b", "said")
    assert words.value == "<b>said</b>"
    words.set_state({"value": SCRIPT})  # as a browser would send it
    assert unescape(words.value) == SCRIPT
    assert "<" not in words.value


def test_a_name_that_reads_like_the_pages_picture_is_not_taken_for_it():
    forged = 'id="wavesim-svg" data-svg="forged"'
    text = element("b", forged).replace("&#34;", '"')  # as a browser writes it out
    script = element("script", script_json(forged))
    assert FOUND.search(f'{text}{script}<pre id="wavesim-svg" data-svg="ours">')[1] == "ours"
