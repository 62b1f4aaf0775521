"""Solutions to notebook 23: the programs, mended."""

from wavesim.teaching.mending import puzzles

ANSWERS = {mended.number: mended.solution for mended in puzzles()}
