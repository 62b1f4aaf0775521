"""Numbers and words from outside: what is one, and that the line of an error stays short."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import bounded_text, listed, real, shown, whole

NO_INTEGERS = ["", "²", "٣", "1_0", "+1", " 1", "1.0", "1e3", "0x10", "--1", "9" * 20, "9" * 400, "9" * 5000]
NO_NUMBERS = ["", "nan", "inf", "-inf", "1e400", "1_0", "²", " 1", "0x1", "1e", "9" * 400, "1e1000000"]


@pytest.mark.parametrize("text", NO_INTEGERS)
def test_what_is_no_plain_integer_is_refused_in_a_short_line(text: str):
    with pytest.raises(
        DescriptionError, match=r"^tokens is '.*; it must be an integer from 1 to 1,000$"
    ) as caught:
        whole("tokens", text, 1, 1000)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    "value", [True, 1.0, None, [], 10**400, 1 << 100_000, -1, 0, 1001, "0", "1001", "-1"], ids=shown
)
def test_other_types_and_integers_out_of_bounds_are_refused(value: object):
    with pytest.raises(DescriptionError, match="from 1 to 1,000"):
        whole("tokens", value, 1, 1000)


def test_integers_and_their_digits_are_integers():
    assert (whole("n", "7"), whole("n", 7), whole("n", "-3", -5), whole("n", "007")) == (7, 7, -3, 7)
    assert whole("n", str(2**63 - 1)) == 2**63 - 1


@pytest.mark.parametrize(
    "value", [*NO_NUMBERS, True, None, [1], 10**400, float("nan"), float("inf"), -0.1, "1.01"]
)
def test_what_is_no_finite_number_in_bounds_is_refused(value: object):
    with pytest.raises(DescriptionError, match=r"^share is .*; it must be a number from 0 to 1$") as caught:
        real("share", value, 0, 1)
    assert len(str(caught.value)) < 100


def test_numbers_and_their_texts_are_numbers():
    assert [real("share", value, 0, 1) for value in ("0.5", ".5", "5e-1", "1.", 1, 0.25)] == [
        0.5,
        0.5,
        0.5,
        1,
        1,
        0.25,
    ]


def test_a_word_is_a_text_of_bounded_length():
    assert bounded_text("order", "grouped:8") == "grouped:8"
    with pytest.raises(
        DescriptionError, match=r"^order is 'reversed:.*\.\.\., 27,003 characters; at most 200 are read$"
    ):
        bounded_text("order", "reversed:" * 3000 + "row")
    with pytest.raises(DescriptionError, match="order is 3; write it as a text"):
        bounded_text("order", 3)


def test_a_list_says_every_entry_once():
    assert listed("sync", "row,tile") == ["row", "tile"]
    with pytest.raises(DescriptionError, match="entry 2 is empty"):
        listed("sync", "row,,tile")
    with pytest.raises(DescriptionError, match="entry 3 is 'row' again"):
        listed("sync", "row,tile,row")
    with pytest.raises(DescriptionError, match="sync lists 1,000; at most 16 are tried"):
        listed("sync", ",".join(map(str, range(1000))))


@pytest.mark.parametrize(
    "value",
    [10**4999, 10**400, "x" * 10**6, ["x" * 10**6] * 9, {"a": 10**5000}, object()],
    ids=["4999 digits", "400 digits", "long text", "long list", "mapping", "object"],
)
def test_any_value_is_shown_in_few_letters(value: object):
    assert len(shown(value)) <= 40
