"""An error says what is known, and no text is taken for the blocks that wait."""

import pytest

from wavesim.errors import DeadlockError


def test_a_text_is_no_waiter():
    with pytest.raises(TypeError, match="waiters are 'a wait ran out of time'; each must be a Waiter"):
        DeadlockError("a wait ran out of time")


def test_where_nobody_knows_who_waited_no_number_is_said():
    error = DeadlockError(detail="a wait ran out of its time limit of 1 s")
    assert error.summary == "deadlock: blocks wait for semaphores that will not be posted"
    assert str(error).splitlines() == [error.summary, "a wait ran out of its time limit of 1 s"]
