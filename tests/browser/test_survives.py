"""A widget after its kernel has restarted and after the notebook was opened again: picture and sentence."""

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

SOURCE = "from wavesim.widgets import WhatIf\n\nWhatIf(workload='toy', policy='tile')"
RESTART = """async () => {
  const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
  await kernel.restart();
}"""
# What a reader sees: canvases with a size, and sentences, that nothing hides.
SEEN = """() => ({
  pictures: [...document.querySelectorAll('.wavesim-drawn canvas')]
    .filter(at => at.offsetParent && at.width > 0).length,
  sentence: [...document.querySelectorAll('.wavesim-still > p')].filter(at => at.offsetParent).length,
  sliders: [...document.querySelectorAll('.widget-slider')].filter(at => at.offsetParent).length,
  errors: [...document.querySelectorAll('.jp-OutputArea-output')]
    .filter(at => at.offsetParent && /Error displaying widget/.test(at.textContent)).length,
})"""
LIVE = {"pictures": 1, "sentence": 0, "sliders": True, "errors": 0}
LEFT = {"pictures": 1, "sentence": 1, "sliders": False, "errors": 0}


def await_seen(page, expected):
    page.wait_for_function(f"""expected => {{
      const seen = ({SEEN})();
      return Object.keys(expected).every(name => name === 'sliders'
        ? Boolean(seen.sliders) === expected.sliders : seen[name] === expected[name]);
    }}""", arg=expected)  # fmt: skip


def test_a_restarted_kernel_and_a_new_visit_leave_the_picture(lab, first_visit):
    visit = first_visit
    page = visit.page
    visit.open(lab, lab.write("left.ipynb", SOURCE))
    assert visit.run_all() == []
    await_seen(page, LIVE)
    page.wait_for_function("() => !document.querySelector('.wavesim [title=null]')")
    page.evaluate(RESTART)
    await_seen(page, LEFT)
    visit.save_and_reload(lab, "left.ipynb")
    await_seen(page, LEFT)
    assert visit.run_all() == []
    await_seen(page, LIVE)
    assert visit.outside == []
