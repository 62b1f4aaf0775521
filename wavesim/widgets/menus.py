"""Menus, and explorers, that say what they offer when told to start with something else.

Example: `WhatIf(workload="gpt3mlp")` ends with "Workload is 'gpt3mlp'; did you mean 'gpt3-mlp'? There are
toy, gpt3-mlp, ...", not with "Invalid selection: value not found".
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

import ipywidgets

from wavesim.errors import DescriptionError
from wavesim.guard.bounds import shown

LABEL = {"description_width": "112px"}


def menu(label: str, options: Sequence[Any], value: Any, **more: Any) -> ipywidgets.Dropdown:
    """A menu of values, or of (words, value), that shows `value`. Raises `DescriptionError`."""
    known = [one[1] if isinstance(one, tuple) else one for one in options]
    if value not in known:
        raise DescriptionError(f"{label} is {shown(value)}; {_offered(value, known)}")
    return ipywidgets.Dropdown(description=label, options=options, value=value, **{"style": LABEL, **more})


def require_start_values(explorer: str, scenario: type, start: Iterable[str]) -> None:
    """Start values of an explorer are fields of its scenario. Raises `DescriptionError`."""
    known = [field.name for field in fields(scenario)]
    for name in start:
        if name not in known:
            raise DescriptionError(f"{explorer} has no start value {shown(name)}; {_offered(name, known)}")


def _offered(value: object, known: Sequence[Any]) -> str:
    names = [str(one) for one in known]
    near = get_close_matches(str(value), names, 1)
    hint = f"did you mean {near[0]!r}? There are" if near else "there are"
    return f"{hint} {', '.join(names)}"
