"""The part of NumPy that wavesim's first notebooks use, in plain Python, for a browser without NumPy.

It stands in for NumPy in the JupyterLite site only, under its name, so that the simulator, the figures and
the notebooks are the same there and everywhere else. Results are NumPy's; times are not: an array is a list.
What is missing says so in a sentence.
"""

import math
from typing import NoReturn

from . import ma, random, typing
from ._array import array, asarray, ndarray
from ._calculating import *
from ._files import load, savez_compressed
from ._finding import *
from ._making import *
from ._reductions import *
from ._types import *

__version__ = "0+wavesim.lite"
pi, e, inf, nan = math.pi, math.e, math.inf, math.nan


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"numpy.{name} is not in this page, which has the part of NumPy that wavesim's first notebooks use; "
        "run the notebook with wavesim installed (README.md, Quickstart) for all of NumPy"
    )
