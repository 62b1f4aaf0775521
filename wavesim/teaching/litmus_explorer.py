"""A litmus test to play with: fences on and off, which outcomes remain, and all orders that lead to each.

Example: "A = 1, B = 20: possible, in 6 of 24 orders" becomes impossible with both fences, which leave 6.
"""

from collections.abc import Iterable

import ipywidgets

from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.teaching.litmus import Litmus, Outcome, guide_test, semaphore_test
from wavesim.widgets.explorer import Explorer, menu
from wavesim.widgets.words import Words

CELL = "text-align:left;vertical-align:top;padding:2px 28px 2px 0;line-height:1.5"
TESTS = {"two variables (the CUDA guide's X and Y)": "guide", "a tile and its semaphore": "semaphore"}
WRONG = {(("A", 1), ("B", 20)): "new Y with old X", (("read", 0),): "the tile before it was written"}
SWITCHES = {
    "guide": ("fence between the writer's stores", "fence between the reader's loads"),
    "semaphore": ("post is a release", "wait is an acquire"),
}


@typed
def litmus_table(test: Litmus, *, reorder: bool = True) -> Markup:
    """An HTML table of the outcomes of the test's weakest form: which this one allows, in which orders."""
    allowed = test.orders(reorder=reorder)
    count = sum(map(len, allowed.values()))
    every = sorted({*allowed, *_weakest(test).outcomes()})
    rows = (_row(outcome, allowed.get(outcome, []), count) for outcome in every)
    programs = (
        BREAK.join([element("b", name), *(element("code", str(operation)) for operation in operations)])
        for name, operations in test.threads.items()
    )
    titles = ("outcome", "possible?", f"in how many of the {count} orders of performing the accesses")
    head = element("tr", *(element("th", title, style=CELL) for title in titles))
    start = ", ".join(f"{name} = {value}" for name, value in test.memory.items())
    parts = (element("p", f"At first {start}."), element("table", _cells(programs)))
    return Markup("").join([*parts, element("table", head, *rows)])


def _cells(contents: Iterable[str]) -> Markup:
    return element("tr", *(element("td", content, style=CELL) for content in contents))


def _weakest(test: Litmus) -> Litmus:
    return semaphore_test() if "semaphore" in test.memory else guide_test()


def _row(outcome: Outcome, orders: list[tuple[str, ...]], count: int) -> Markup:
    words = ", ".join(f"{name} = {value}" for name, value in outcome)
    wrong = [element("small", WRONG[outcome])] if outcome in WRONG else []
    verdict = "● possible" if orders else "✗ impossible"
    return _cells((BREAK.join([words, *wrong]), verdict, _listed(orders, count)))


def _listed(orders: list[tuple[str, ...]], count: int) -> Markup:
    """How many orders, and behind that all of them."""
    if not orders:
        return Markup("")
    lines = element("small", *(element("li", " → ".join(order)) for order in orders))
    return element("details", element("summary", f"{len(orders)} of {count}"), element("ol", lines))


class LitmusExplorer(Explorer):
    """Both litmus tests with switches for reordering and for the two orderings; starts with none of them."""

    @typed
    def __init__(self, test: str = "guide") -> None:
        self.table = Words()
        wide = {"width": "36em"}
        switches = {
            name: ipywidgets.Checkbox(value=False, description=text, indent=False, layout=wide)
            for name, text in (("reorder", "accesses may be reordered"), ("first", ""), ("second", ""))
        }
        super().__init__(
            {"test": menu("Test", TESTS.items(), test, layout=wide), **switches}, above=[self.table]
        )

    @property
    def litmus(self) -> Litmus:
        """The test that the controls describe."""
        if self.test.value == "guide":
            return guide_test(writer_fence=self.first.value, reader_fence=self.second.value)
        return semaphore_test(release=self.first.value, acquire=self.second.value)

    def _enable(self) -> None:
        self.first.description, self.second.description = SWITCHES[self.test.value]

    def _say(self) -> None:
        table = litmus_table(self.litmus, reorder=self.reorder.value)
        self.table.value = element("div", table, role="status")

    def html(self) -> Markup:
        """The table with reordering, for a page that has no kernel."""
        return litmus_table(self.litmus)
