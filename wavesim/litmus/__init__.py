"""Litmus tests under the PTX memory model: which outcomes it allows of a few threads that share memory."""

from wavesim.litmus.enumeration import Outcome, find_outcome, outcomes
from wavesim.litmus.program import LitmusTest, LitmusThread

__all__ = ["LitmusTest", "LitmusThread", "Outcome", "find_outcome", "outcomes"]
