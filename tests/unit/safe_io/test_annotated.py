"""A function held to its annotations: what it takes and refuses, and that it is otherwise the same."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import conforms, typed

TAKEN = [
    (3, int),
    (np.int64(3), int),
    (3, float),
    (np.float32(0.5), float),
    (float("inf"), float),
    (None, int | None),
    ("row", Literal["row", "tile"]),
    ((1, 2), tuple[int, int]),
    ((1.0,) * 5, tuple[float, ...]),
    ([1, 2], Sequence[int]),
    (range(3), Sequence[int]),
    (np.arange(3), Sequence[int]),
    ({"a": 1}, Mapping[str, int]),
    (iter("ab"), Iterable[str]),
    (len, Callable[[Any], int]),
    (object(), Any),
    ([], list[int]),
]
REFUSED = [
    (True, int),
    (3.0, int),
    ("3", int),
    (None, int),
    (float("nan"), float),
    (True, float),
    (1, bool),
    ("rows", Literal["row", "tile"]),
    (True, Literal[1]),
    ((1,), tuple[int, int]),
    ([1, 2], tuple[int, int]),
    ((1, "2"), tuple[int, int]),
    ("ab", Sequence[str]),
    ([1, "2"], Sequence[int]),
    ({1: 2}, Sequence[int]),
    ({1: 1}, Mapping[str, int]),
    ({"a": "1"}, Mapping[str, int]),
    ("ab", Iterable[str]),
    (3, Callable[[Any], int]),
    ([None], list[int]),
]


@pytest.mark.parametrize(("value", "hint"), TAKEN)
def test_what_is_as_annotated_is_taken(value, hint):
    assert conforms(value, hint)


@pytest.mark.parametrize(("value", "hint"), REFUSED)
def test_what_is_not_is_refused(value, hint):
    assert not conforms(value, hint)


@typed
def scale(blocks: Sequence[int], by: float = 2.0, *more: int, name: str = "it", **others: Any) -> list[float]:
    """What it does."""
    return [block * by for block in (*blocks, *more)]


def test_a_function_gives_what_it_gave_and_keeps_its_name_and_words():
    assert scale([1, 2], 3, 4, other=object()) == [3, 6, 12]
    assert (scale.__name__, scale.__doc__) == ("scale", "What it does.")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scale(3), "scale: blocks is 3; it must be a list, each entry an int"),
        (lambda: scale([1], "2"), "scale: by is '2'; it must be a float"),
        (lambda: scale([1], 2.0, "4"), "scale: more is '4'; it must be an int"),
        (lambda: scale([1], name=None), "scale: name is None; it must be a str"),
        (scale, "scale: missing a required argument: 'blocks'; it takes blocks, by"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(call, words):
    with pytest.raises(DescriptionError) as told:
        call()
    assert str(told.value).startswith(words)


def test_an_error_of_its_own_body_stays_one():
    @typed
    def broken(count: int) -> int:
        return count + "1"

    with pytest.raises(TypeError, match="unsupported operand"):
        broken(1)
