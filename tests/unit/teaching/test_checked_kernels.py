"""What notebook 15 shows: kernels with reasons beside their lines, a tile handed over, launches that hang."""

import itertools

import pytest
from lint_cases import cases

from wavesim.teaching.checked_kernels import (
    FAULTS,
    LANGUAGES,
    PAIR,
    WAITS,
    LintExplorer,
    checked,
    forms,
    kernel_shown,
)
from wavesim.teaching.proof import OTHER_GPU, SAME_BLOCK, handover, tiles_read

BROKEN = "tile_pair.no-acquire.WAIT-volatile"


def test_unchecked_a_kernel_is_shown_whole_and_without_a_verdict():
    found = kernel_shown(BROKEN, "consume", is_checked=False)
    lines = repr(found).splitlines()
    assert len([line for line in lines if not line.endswith(":")]) == len(found.code.instructions)
    assert "wrong" not in repr(found) + found._repr_html_()


def test_checked_a_reason_stands_at_its_line_and_the_rest_is_left_out():
    lines = repr(kernel_shown(BROKEN, "consume")).splitlines()
    poll = next(at for at, line in enumerate(lines) if "ld.volatile" in line)
    assert lines[poll + 1].strip().startswith("✗ wrong, no-acquire: line")
    assert any("ld.global.f32" in line for line in lines)
    assert "..." in lines
    assert "$L__BB1_2:" in lines
    assert "✗</b> wrong, no-acquire" in kernel_shown(BROKEN, "consume")._repr_html_()


@pytest.mark.parametrize(("wait", "fault", "language"), list(itertools.product(WAITS, FAULTS, LANGUAGES)))
def test_the_explorer_shows_every_choice_as_what_it_is(wait, fault, language):
    report = checked(f"{PAIR}.{FAULTS[fault]}{WAITS[wait]}", LANGUAGES[language])
    assert report.is_wrong == (fault != "none")


def test_the_explorer_follows_its_controls():
    explorer = LintExplorer()
    assert "✗" not in explorer.html()
    explorer.fault.value = "scope of the block"
    assert "✗</b> wrong, narrow-scope" in explorer.html()
    explorer.language.value = "machine code"
    assert "CTA" in explorer.html() or "SM" in explorer.html()
    explorer.wait.value, explorer.fault.value = "volatile loads, then a fence", "none"
    assert "✗" not in explorer.html()


def test_the_forms_are_those_of_the_corpus():
    by_name = {case.name: case for case in cases()}
    for name, texts in forms().items():
        case = by_name[name]
        assert texts["ptx"] == case.text("ptx", case.archs[0])
        assert texts["sass"] in {case.text("sass", arch) for arch in case.archs}


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, {42}),
        ({"poll": "ld.volatile"}, {0, 42}),
        ({"poll": "ld.relaxed.gpu", "fence": "fence.acq_rel.gpu"}, {42}),
        ({"post": "st.relaxed.gpu"}, {0, 42}),
        ({"poll": "ld.acquire.cta", "post": "st.release.cta"}, {0, 42}),
        ({"poll": "ld.acquire.cta", "post": "st.release.cta", "reader": SAME_BLOCK}, {42}),
        ({"reader": OTHER_GPU}, {0, 42}),
    ],
)
def test_what_a_reader_may_read_of_a_tile(changes, read):
    assert tiles_read(handover(**changes)) == read
