"""The player, the dependency, occupancy, tuner and comparison views in JupyterLab, keyboard only."""

import re
import sys

import pytest
from slider_speed import slowdown

from wavesim.teaching.published_view import published_prediction, published_rows

pytestmark = [
    pytest.mark.browser,
    # Sockets of browser and server that end with the process are warned about at collection.
    pytest.mark.filterwarnings("default"),
]

LABEL_OF_PLANS = """() => document.querySelector('.wavesim-picture .wavesim-drawn canvas')
  .getAttribute('aria-label')"""
# The comparison's timelines, which its errors come after.
LABEL_OF_RUN = """() => [...document.querySelectorAll('.wavesim-picture .wavesim-drawn canvas')]
  .at(-2)?.getAttribute('aria-label')"""
OCCUPANCY_NOTEBOOK = "02_waves_and_occupancy.ipynb"
PLAYER, TOLD, EXPLORER = ".wavesim-player", ".wavesim-told", ".wavesim-explorer"
PLAYED = """from wavesim import SemaphoreSync, device, workload
from wavesim.widgets import WavePlayer

WavePlayer(workload("gpt3-mlp", 1024, (128, 256)), SemaphoreSync(), device("h200"))"""
CHOSEN = """from IPython.display import display
from wavesim import SemaphoreSync, TileSync, toy
from wavesim.widgets import ComparisonView, DependencyExplorer, TunerView

display(DependencyExplorer(toy(), SemaphoreSync(TileSync())))
display(TunerView.recorded())
display(ComparisonView.recorded())"""
PUBLISHED = "from wavesim.teaching.published_view import PublishedView\n\nPublishedView()"
LEAST_STEPS_PER_S = 20
PLAY_MS = 1_000
ROUNDS = 5  # other processes only take time away: the best round is the player's


def told(page):
    return page.locator(TOLD).first.text_content()


def await_told(page, words):
    page.wait_for_function(
        "words => document.querySelector('.wavesim-told')?.textContent.includes(words)", arg=words
    )


def test_the_player_steps_plays_and_keeps_its_place(lab, visit, capsys):
    page = visit.page
    name = lab.write("player.ipynb", PLAYED)
    visit.open(lab, name)
    assert visit.run_all() == []
    page.wait_for_selector(PLAYER)
    root = page.locator(PLAYER)
    root.focus()
    assert int(root.get_attribute("data-step")) > 2 * 132  # it opens in the middle of the run, and not empty
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    await_told(page, "gemm1 tile (2, 0) is dispatched to SM 2")
    page.keyboard.press("ArrowLeft")
    await_told(page, "gemm1 tile (1, 0) is dispatched to SM 1")
    page.keyboard.press("End")
    await_told(page, "finishes")
    last = int(root.get_attribute("data-step"))
    # A dispatch and a finish of each of 576 tiles, and a post of each of the 192 producer tiles, at least.
    assert last >= 2 * 576 + 192
    rates = []
    while not rates or (rates[-1] <= LEAST_STEPS_PER_S and len(rates) < ROUNDS):
        page.keyboard.press("Home")
        await_told(page, "Nothing has been dispatched yet")
        rate, busy = played(page)
        rates.append(rate * busy)
        with capsys.disabled():
            sys.stdout.write(
                f"\nwave player: {rate:.0f} pictures a second at 576 tiles (target {LEAST_STEPS_PER_S}); "
                f"computing takes {busy:.2f} times as long here\n"
            )
    assert max(rates) > LEAST_STEPS_PER_S
    place, words = root.get_attribute("data-step"), told(page)
    assert 0 < int(place) < last

    visit.save_and_reload(lab, name)
    page.wait_for_selector(f"{PLAYER}[data-step='{place}']")
    assert told(page) == words
    assert visit.outside == []
    assert visit.console_errors == []


def played(page):
    """Pictures a second while it plays, and how many times longer others make a process take meanwhile."""
    busy, drawn, began = slowdown(), drawings(page), page.evaluate("() => performance.now()")
    page.keyboard.press("Space")
    page.wait_for_timeout(PLAY_MS)
    page.keyboard.press("Space")
    rate = 1000 * (drawings(page) - drawn) / (page.evaluate("() => performance.now()") - began)
    return rate, max(1.0, (busy + slowdown()) / 2)


def drawings(page):
    """How often the player's picture has been drawn."""
    return int(page.locator(f"{PLAYER} canvas").get_attribute("data-drawn"))


def test_the_occupancy_notebook_runs_refuses_and_survives_a_reload(lab, visit):
    page = visit.page
    visit.open(lab, OCCUPANCY_NOTEBOOK)
    assert visit.run_all() == []
    visit.show("OccupancyExplorer(")
    shared = visit.slider("Shared memory (KiB)")
    shared.first.wait_for()
    first = visit.picture(".wavesim").get_attribute("aria-label")
    assert re.match(r"\d+ blocks? per SM", first)
    shared.press("Home")
    visit.await_label("0 KiB of shared memory", ".wavesim")
    freed = visit.pixels(".wavesim")
    shared.press("End")
    page.wait_for_selector(".wavesim-problem")
    assert (
        "bytes. Use smaller tiles or fewer pipeline stages" in page.locator(".wavesim-problem").text_content()
    )
    assert visit.pixels(".wavesim") == freed
    shared.press("Home")
    page.wait_for_selector(".wavesim-problem", state="detached")

    visit.save_and_reload(lab, OCCUPANCY_NOTEBOOK)
    visit.show("OccupancyExplorer(")
    visit.await_label("0 KiB of shared memory", ".wavesim")
    assert visit.outside == []
    assert visit.console_errors == []


def test_tiles_gains_and_runs_are_chosen_by_keyboard(lab, visit):
    page = visit.page
    name = lab.write("chosen.ipynb", CHOSEN)
    visit.open(lab, name)
    assert visit.run_all() == []
    page.wait_for_selector(f"{EXPLORER} >> nth=1")
    dependencies, gains = page.locator(EXPLORER).nth(0), page.locator(EXPLORER).nth(1)
    dependencies.focus()
    page.keyboard.press("ArrowDown")
    await_told(page, "Tile (0, 2) of gemm2 reads 2 tiles of gemm1, awaits 2 semaphores: number 5 of 6")
    page.keyboard.press("PageUp")
    await_told(page, "Tile (0, 2) of gemm1 is read by 2 tiles of gemm2: number 5 of 6")

    gains.focus()
    chosen = gains.get_attribute("data-chosen")
    before = visit.picture(".wavesim-picture").get_attribute("aria-label")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"before => ({LABEL_OF_PLANS})() !== before", arg=before)
    assert gains.get_attribute("data-chosen") != chosen

    was = page.evaluate(LABEL_OF_RUN)
    assert "predicted" in was
    page.get_by_label("Run", exact=True).focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function(f"was => ({LABEL_OF_RUN})() !== was", arg=was)
    now = page.evaluate(LABEL_OF_RUN)

    visit.save_and_reload(lab, name)
    await_told(page, "Tile (0, 2) of gemm1")
    page.wait_for_function(f"now => ({LABEL_OF_RUN})() === now", arg=now)
    assert visit.outside == []
    assert visit.console_errors == []


def test_the_papers_gains_follow_the_switch_and_the_choice_of_a_figure(lab, visit):
    page = visit.page
    visit.open(lab, lab.write("published.ipynb", PUBLISHED))
    assert visit.run_all() == []
    page.locator(EXPLORER).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    row = next(one for one in published_rows("V100", "gpt3") if (one.size, one.policy) == (2048, "row"))
    for has_constants in (True, False):
        points = published_prediction(row, has_constants=has_constants).points
        words = f"predicted {points:+.1f} points, measured −0.6"
        await_told(page, f"2,048 rows (B × S), row semaphores: {words}")
        page.get_by_role("checkbox").press("Space")
    page.get_by_label("Figure", exact=True).select_option("A100, LLaMA's MLP")
    await_told(page, "2,560 rows (B × S), tile semaphores: predicted")
    visit.await_label("on A100-80GB", ".wavesim-picture")
    assert visit.outside == []
    assert visit.console_errors == []
