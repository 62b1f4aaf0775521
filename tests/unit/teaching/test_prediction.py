"""A reader's prediction: committed once, locked, and shown beside what is so."""

import pytest

from wavesim import DescriptionError
from wavesim.teaching import Prediction


class TestPrediction:
    def test_a_committed_prediction_is_locked(self):
        asked = Prediction("waves", "points")
        asked.commit(4, 2.5)
        assert asked.committed == (4.0, 2.5)
        assert all(field.disabled for field in asked.fields)
        assert asked.button.disabled
        with pytest.raises(DescriptionError, match="already committed"):
            asked.commit(3, 3)
        assert asked.committed == (4.0, 2.5)

    def test_the_button_commits_what_the_fields_say_and_says_what_is_missing(self):
        asked = Prediction("waves")
        asked.button.click()
        assert asked.committed is None
        assert "a number in every field" in asked.words.value
        asked.fields[0].value = "3.5"
        asked.button.click()
        assert asked.committed == (3.5,)

    def test_what_was_said_stands_beside_what_is_so(self):
        asked = Prediction("waves", "points")
        asked.commit(4, 10)
        shown = asked.reveal(4, 12, within=1)
        assert [shown.is_right(0), shown.is_right(1)] == [True, False]
        assert repr(shown) == "waves: you said 4, it is 4\npoints: you said 10, it is 12"
        assert asked.reveal(4, 11, within=1).is_right(1)

    def test_the_truth_is_folded_until_something_was_predicted(self):
        asked = Prediction("waves")
        assert "<details><summary>Predict first" in asked.reveal(4)._repr_html_()
        asked.commit(4)
        assert "<details>" not in asked.reveal(4)._repr_html_()

    def test_a_choice_takes_one_of_its_words_only(self):
        asked = Prediction("they", choices=["spin", "are done"])
        with pytest.raises(DescriptionError, match="choose one of"):
            asked.commit("sleep")
        asked.fields[0].value = "spin"
        asked.button.click()
        assert asked.reveal("spin").is_right(0)
        assert not asked.reveal("are done").is_right(0)
        with pytest.raises(DescriptionError, match="none of the choices"):
            asked.reveal("sleep")

    def test_a_page_without_a_kernel_gets_the_questions_as_text(self):
        bundle = Prediction("are 3 < 4 waves?")._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        assert "are 3 &lt; 4 waves?" in data["text/html"]


def test_the_field_without_a_number_is_named():
    asked = Prediction("waves on one stream", "with semaphores")
    with pytest.raises(DescriptionError, match="with semaphores has '2,5'"):
        asked.commit("4", "2,5")
