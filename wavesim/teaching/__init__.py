"""What the notebooks need besides wavesim: predictions, exercises that grade themselves, a litmus test.

Example: a reader commits to "3 waves", runs the cell, and is told 3.5; then writes a policy of two functions,
and `check("7.1", policy)` says what is wrong with it, without giving the solution away.
"""

from wavesim.teaching.exercises import Exercise, WrongAnswer, check
from wavesim.teaching.prediction import Prediction

__all__ = ["Exercise", "Prediction", "WrongAnswer", "check"]
