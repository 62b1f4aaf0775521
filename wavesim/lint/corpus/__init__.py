"""Kernels with a known fault and their right twins, compiled: what `wavesim lint` is examined on.

Example: `tile_pair.no-acquire.WAIT-volatile` is a pair of kernels whose consumer polls a flag by volatile
loads and reads the tile with no fence between; lint must call it wrong, by the rule "no-acquire".
"""

from wavesim.lint.corpus.catalogue import Case, cases

__all__ = ["Case", "cases"]
