"""A litmus test to play with: fences on and off, which outcomes remain, and all orders that lead to each.

Example: "A = 1, B = 20: possible, in 6 of 24 orders" becomes impossible with both fences, which leave 6.
"""

from html import escape
from typing import Any

import ipywidgets

from wavesim.teaching.litmus import Litmus, Outcome, guide_test, semaphore_test

CELL = "text-align:left;vertical-align:top;padding:2px 28px 2px 0;line-height:1.5"
TESTS = {"two variables (the CUDA guide's X and Y)": "guide", "a tile and its semaphore": "semaphore"}
WRONG = {(("A", 1), ("B", 20)): "new Y with old X", (("read", 0),): "the tile before it was written"}
SWITCHES = {
    "guide": ("fence between the writer's stores", "fence between the reader's loads"),
    "semaphore": ("post is a release", "wait is an acquire"),
}


def litmus_table(test: Litmus, *, reorder: bool = True) -> str:
    """An HTML table of the outcomes of the test's weakest form: which this one allows, in which orders."""
    allowed = test.orders(reorder=reorder)
    count = sum(map(len, allowed.values()))
    every = sorted({*allowed, *_weakest(test).outcomes()})
    rows = "".join(_row(outcome, allowed.get(outcome, []), count) for outcome in every)
    programs = "".join(
        f"<td style='{CELL}'><b>{escape(name)}</b><br>"
        + "<br>".join(f"<code>{escape(str(operation))}</code>" for operation in operations)
        + "</td>"
        for name, operations in test.threads.items()
    )
    titles = ("outcome", "possible?", f"in how many of the {count} orders of performing the accesses")
    head = "<tr>" + "".join(f"<th style='{CELL}'>{title}</th>" for title in titles) + "</tr>"
    start = ", ".join(f"{name} = {value}" for name, value in test.memory.items())
    return f"<p>At first {start}.</p><table><tr>{programs}</tr></table><table>{head}{rows}</table>"


def _weakest(test: Litmus) -> Litmus:
    return semaphore_test() if "semaphore" in test.memory else guide_test()


def _row(outcome: Outcome, orders: list[tuple[str, ...]], count: int) -> str:
    words = ", ".join(f"{name} = {value}" for name, value in outcome)
    wrong = f"<br><small>{WRONG[outcome]}</small>" if outcome in WRONG else ""
    verdict = "● possible" if orders else "✗ impossible"
    cells = (f"{words}{wrong}", verdict, _listed(orders, count))
    return "<tr>" + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in cells) + "</tr>"


def _listed(orders: list[tuple[str, ...]], count: int) -> str:
    """How many orders, and behind that all of them."""
    if not orders:
        return ""
    lines = "".join(f"<li>{' → '.join(map(escape, order))}</li>" for order in orders)
    return f"<details><summary>{len(orders)} of {count}</summary><ol><small>{lines}</small></ol></details>"


class LitmusExplorer(ipywidgets.VBox):
    """Both litmus tests with switches for reordering and for the two orderings; starts with none of them."""

    def __init__(self, test: str = "guide") -> None:
        options = list(TESTS.items())
        wide = {"width": "36em"}
        self.test = ipywidgets.Dropdown(description="Test", options=options, value=test, layout=wide)
        self.reorder = ipywidgets.Checkbox(value=False, description="accesses may be reordered", indent=False)
        self.first = ipywidgets.Checkbox(value=False, indent=False, layout=wide)
        self.second = ipywidgets.Checkbox(value=False, indent=False, layout=wide)
        self.table = ipywidgets.HTML()
        for control in (self.test, self.reorder, self.first, self.second):
            control.observe(lambda _: self._show(), names="value")
        self._show()
        super().__init__([self.test, self.reorder, self.first, self.second, self.table])

    @property
    def litmus(self) -> Litmus:
        """The test that the controls describe."""
        if self.test.value == "guide":
            return guide_test(writer_fence=self.first.value, reader_fence=self.second.value)
        return semaphore_test(release=self.first.value, acquire=self.second.value)

    def _show(self) -> None:
        self.first.description, self.second.description = SWITCHES[self.test.value]
        self.table.value = f"<div role='status'>{litmus_table(self.litmus, reorder=self.reorder.value)}</div>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and for pages without a kernel the table of the test with reordering and no fences."""
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        data["text/html"] = litmus_table(self.litmus)
        return bundle
