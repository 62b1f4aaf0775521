"""Predictions and litmus tests in JupyterLab, keyboard only: committed, locked, revealed."""

import pytest

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

NOTEBOOK = "05_semaphores_and_memory.ipynb"
# Runs the cell whose source begins with the words.
RUN_CELL = """async words => {
  const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
  const has = cell => cell.model.sharedModel.source.includes(words);
  notebook.activeCellIndex = notebook.widgets.findIndex(has);
  await app.commands.execute('notebook:run-cell');
}"""
FIELD = "outcomes of all interleavings"


def test_a_reader_commits_to_a_prediction_and_plays_with_the_litmus_test(lab, visit, tmp_path):
    page = visit.page
    visit.open(lab, NOTEBOOK)
    assert visit.run_all() == []
    visit.show("outcomes = Prediction")
    field = page.get_by_label(FIELD)
    field.wait_for(timeout=60_000)
    commit = page.get_by_title("Commits and locks this prediction").first
    field.press_sequentially("6")
    other = page.get_by_label("outcomes that a GPU can produce")
    other.press_sequentially("many")
    other.press("Tab")
    commit.press("Enter")
    page.get_by_text("a number in every field").wait_for()
    other.fill("4")
    other.press("Tab")
    commit.press("Enter")
    page.get_by_text("Committed. Run the next cell.").wait_for()
    assert field.is_disabled()

    page.evaluate(RUN_CELL, "outcomes.reveal(")
    page.wait_for_function("() => document.body.innerText.includes('you said')")
    row = page.locator("tr", has_text=FIELD)
    assert [cell.strip() for cell in row.locator("td").all_text_contents()] == [FIELD, "6", "3", "✗"]

    visit.show("LitmusExplorer(")
    switch = page.get_by_label("accesses may be reordered")
    before = page.get_by_text("✗ impossible").count()
    switch.press("Space")
    page.wait_for_function("() => !document.body.innerText.includes('✗ impossible')")
    assert before == 1
    page.screenshot(path=tmp_path / "litmus.png")
    assert visit.outside == []
    assert visit.console_errors == []
