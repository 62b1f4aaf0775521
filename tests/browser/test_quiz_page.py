"""The quiz in a page of its own: told why, kept over a reload, and at work where nothing can be kept."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "course" / "quiz.html"
pytestmark = pytest.mark.browser
BLOCKED = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('blocked') }})"


def answered(page) -> str:
    return page.locator(".wavesim-quiz-told").inner_text()


def test_an_answer_is_explained_counted_and_kept(first_visit):
    page = first_visit.page
    page.goto(PAGE.as_uri())
    first = page.locator("fieldset").first
    first.get_by_label("3", exact=True).check()
    assert "✗ No. 12 tiles on 4 SMs" in first.inner_text()
    first.get_by_label("4", exact=True).check()
    assert "✓ Right." in first.inner_text()
    page.locator(".wavesim-quiz-exercise input").first.check()
    assert answered(page).startswith("1 of ")
    assert "0 right at the first try · 1 of" in answered(page)
    page.reload()
    assert answered(page).startswith("1 of ")
    assert "✓ Right." in page.locator("fieldset").first.inner_text()
    page.get_by_role("button", name="Begin again").click()
    assert answered(page).startswith("0 of ")
    assert first_visit.console_errors == []


def test_where_storage_is_blocked_the_quiz_says_so_and_goes_on(first_visit):
    page = first_visit.page
    page.add_init_script(BLOCKED)
    page.goto(PAGE.as_uri())
    assert "This browser keeps nothing" in page.locator(".wavesim-quiz-blocked").inner_text()
    page.locator("fieldset").first.get_by_label("4", exact=True).check()
    assert answered(page).startswith("1 of ")
    assert first_visit.console_errors == []
