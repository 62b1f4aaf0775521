"""What a prediction is about stays folded until it is committed to, also where all cells run at once."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from wavesim.teaching.folded_answers import WORDS
from wavesim.teaching.solved_file import keep_in


@pytest.fixture
def shell(monkeypatch):
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_cell("%load_ext wavesim.teaching")
    keep_in(None)
    yield shell
    shell.run_cell("%unload_ext wavesim.teaching")


@pytest.fixture
def folded(shell, monkeypatch):
    """Runs a cell; whether what it shows is folded."""
    shown = []
    monkeypatch.setattr("wavesim.teaching.folded_answers.display", lambda bundle, raw: shown.append(bundle))

    def run(cell):
        shown.clear()
        assert shell.run_cell(cell).success
        return [bundle["text/plain"] for bundle in shown] == [WORDS]

    return run


def test_results_are_folded_from_the_question_to_the_cell_that_checks(folded):
    assert not folded("from wavesim.teaching import Prediction\nwaves = Prediction('waves')")
    assert folded("waves.reveal(4)")
    assert folded("'a picture'")
    assert folded("assert 2 + 2 == 4\nwaves.reveal(4)")
    assert not folded("'free play'")


def test_who_has_committed_sees_results_at_once(folded):
    folded("from wavesim.teaching import Prediction\nwaves = Prediction('waves')")
    assert folded("waves.reveal(4)")
    folded("waves.commit(3)")
    assert not folded("waves.reveal(4)")


def test_an_exercise_is_never_folded(folded):
    folded("from wavesim.teaching import Prediction, check\nwaves = Prediction('waves')")
    assert not folded("check('1.1', ...)")
