"""What cells show behind a prediction that nobody has committed to, folded: also where all cells run at once.

Example: the reader runs the whole notebook. Behind "waves on one stream" the timeline that shows them is a
line, "Predict first"; it opens by a click, and is open when the cell runs again after a commitment.
"""

from typing import Any

from IPython.display import display

from wavesim.safe_io.escaping import Markup, element

# In a cell's source: an exercise, a question, free play.
ENDS_BEFORE = ("check(", "Prediction(", "WhatIf(", "Explorer(", "Mend(")
ENDS_BEHIND = "assert "
# In JupyterLab's pages the outputs behind the line are its next siblings. Elsewhere the line hides nothing.
STYLE = Markup(
    ".jp-OutputArea-child:has(.wavesim-veil:not([open])) ~ .jp-OutputArea-child "
    "{ display: none !important }\n"
    ".jp-OutputArea-child:has(.wavesim-veil):not(:has(~ .jp-OutputArea-child)) { display: none }\n"
)
WORDS = "Predict first: commit above and run this cell again. Or open it."


class Veil:
    """Between a question and the cell that checks its answer, on the events of IPython's shell."""

    def __init__(self) -> None:
        self._asked: Any = None

    def draw(self, prediction: Any) -> None:
        """From now on what this prediction is about is folded until it is committed to."""
        self._asked = prediction

    def before(self, info: Any) -> None:
        """Before a cell runs."""
        if any(words in info.raw_cell for words in ENDS_BEFORE):
            self._asked = None
        if self._asked is not None and self._asked.committed is None:
            line = element("details", element("summary", WORDS), class_="wavesim-veil")
            bundle = {"text/html": element("style", STYLE) + line, "text/plain": WORDS}
            display(bundle, raw=True)  # type: ignore[no-untyped-call]  # IPython's

    def after(self, result: Any) -> None:
        """After a cell has run."""
        if ENDS_BEHIND in result.info.raw_cell:
            self._asked = None


veil = Veil()
