"""Predictions that a reader commits to before running a cell, and the results they are compared with
afterwards.

Example: two fields, "Waves on one stream" and "Waves with tile semaphores", and a button Commit. Committed,
the fields are locked; `reveal(4, 3)` in the next cell sets "you said 4 and 2" beside "it is 4 and 3".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import real
from wavesim.safe_io.escaping import Markup, element
from wavesim.teaching.folded_answers import veil
from wavesim.widgets.words import Words, style_sheet

Value = float | str
LABEL = {"description_width": "initial"}


HIDDEN = "Predict first, then open this."


@dataclass(frozen=True)
class Revealed:
    """Questions, the committed answers (None: none) and the true ones; `within` is the tolerance for
    numbers. Without an answer the truth is folded, also where all cells were run at once.
    """

    questions: tuple[str, ...]
    said: tuple[Value, ...] | None
    truths: tuple[Value, ...]
    within: float

    def is_right(self, index: int) -> bool:
        """Whether one of the committed values is the truth, or a number near enough."""
        if self.said is None:
            return False
        said, truth = self.said[index], self.truths[index]
        if isinstance(said, str) or isinstance(truth, str):
            return said == truth
        return abs(said - truth) <= self.within + 1e-9

    def _repr_html_(self) -> str:
        head = element("tr", *(element("th", title) for title in ("", "you said", "it is", "")))
        rows = (element("tr", *self._cells(index)) for index in range(len(self.questions)))
        table = element("table", head, *rows)
        return str(table if self.said is not None else element("details", element("summary", HIDDEN), table))

    def _cells(self, index: int) -> list[Markup]:
        said = "nothing yet" if self.said is None else _plain(self.said[index])
        mark = "" if self.said is None else "✓" if self.is_right(index) else "✗"
        cells = (self.questions[index], said, element("b", _plain(self.truths[index])), mark)
        return [element("td", cell, style="text-align:left") for cell in cells]

    def __repr__(self) -> str:
        said = ("nothing",) * len(self.truths) if self.said is None else self.said
        rows = zip(self.questions, said, self.truths, strict=True)
        return "\n".join(f"{what}: you said {_plain(ours)}, it is {_plain(is_)}" for what, ours, is_ in rows)


class Prediction(ipywidgets.VBox):
    """Asks for one number per question, or, with `choices`, for one choice; locked once committed.

    Raises `DescriptionError` for no question, and for choices to more than one.
    """

    @typed
    def __init__(self, *questions: str, choices: Sequence[str] = ()) -> None:
        if not questions or (choices and len(questions) > 1):
            raise DescriptionError(
                f"Prediction: {len(questions)} questions with {len(choices)} choices; ask for numbers, "
                "or one question with choices"
            )
        self.questions = questions
        self.choices = tuple(choices)
        self.committed: tuple[Value, ...] | None = None
        veil.draw(self)
        self.fields = self._choice() if choices else [_number(question) for question in questions]
        self.button = ipywidgets.Button(description="Commit", tooltip="Commits and locks this prediction")
        self.words = Words()
        self.button.on_click(lambda _: self._commit_fields())
        row = ipywidgets.HBox([self.button, self.words])
        super().__init__([*self.fields, row, style_sheet()])

    def commit(self, *values: Value) -> None:
        """Commits to values in the questions' order. Raises `DescriptionError` the second time."""
        if self.committed is not None:
            raise DescriptionError(f"Prediction: already committed to {self.committed}; run its cell again")
        self.committed = self._checked(values)
        for field, value in zip(self.fields, self.committed, strict=True):
            field.value = value if self.choices else f"{value:g}"
            field.disabled = True
        self.button.disabled = True
        self.words.value = element("span", "Committed. Run the next cell.", role="status")

    @typed
    def reveal(self, *truths: Value, within: float = 0.0) -> Revealed:
        """The committed answers beside the true ones.

        Raises `DescriptionError` for another number of values, and for what is no number or no choice.
        """
        if len(truths) != len(self.questions):
            raise DescriptionError(f"Prediction: {len(truths)} truths for {len(self.questions)} questions")
        if self.choices and truths[0] not in self.choices:
            raise DescriptionError(f"Prediction: {truths[0]!r} is none of the choices {self.choices}")
        if not self.choices:
            asked = zip(self.questions, truths, strict=True)
            truths = tuple(real(question, value, -1e18) for question, value in asked)
        real("within", within)
        return Revealed(self.questions, self.committed, truths, within)

    def _checked(self, values: tuple[Any, ...]) -> tuple[Value, ...]:
        if len(values) != len(self.questions):
            raise DescriptionError(f"Prediction: {len(values)} values for {len(self.questions)} questions")
        if self.choices:
            if values[0] not in self.choices:
                raise DescriptionError(f"choose one of: {', '.join(self.choices)}")
            return values
        return tuple(
            _as_number(question, value) for question, value in zip(self.questions, values, strict=True)
        )

    def _commit_fields(self) -> None:
        try:
            self.commit(*(field.value for field in self.fields))
        except DescriptionError as error:
            self.words.value = element("span", str(error), role="alert")

    def _choice(self) -> list[Any]:
        layout = {"width": "auto"}
        radio = ipywidgets.RadioButtons(options=self.choices, value=None, style=LABEL, layout=layout)
        radio.description = self.questions[0]
        return [radio]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and for pages without a kernel the questions as text."""
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        asked = element("ul", *(element("li", line) for line in self.choices or self.questions))
        head = element("b", "Commit to an answer before you read on.")
        first = f" {self.questions[0]}:" if self.choices else " "
        data["text/html"] = str(element("div", head, first, asked, class_="prediction"))
        return bundle


def _number(question: str) -> Any:
    return ipywidgets.Text(
        placeholder="a number", description=question, style=LABEL, layout={"width": "36em"}
    )


def _plain(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _as_number(question: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DescriptionError(
            f"a number in every field, please, such as 2.5: {question} has {str(value)!r}"
        ) from None
