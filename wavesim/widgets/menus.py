"""Menus, and explorers, that say what they offer when told to start with something else.

Example: `WhatIf(workload="gpt3mlp")` ends with "Workload is 'gpt3mlp'; did you mean 'gpt3-mlp'? There are
toy, gpt3-mlp, ...", not with "Invalid selection: value not found".
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, get_type_hints

import ipywidgets

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import require_type
from wavesim.safe_io.bounds import shown

LABEL = {"description_width": "112px"}


def menu(label: str, options: Sequence[Any], value: Any, **more: Any) -> ipywidgets.Dropdown:
    """A menu of values, or of (words, value), that shows `value`. Raises `DescriptionError`."""
    require_offered(label, value, [one[1] if isinstance(one, tuple) else one for one in options])
    return ipywidgets.Dropdown(description=label, options=options, value=value, **{"style": LABEL, **more})


def require_offered(name: str, value: Any, known: Sequence[Any]) -> None:
    """A value is one of those that there are. Raises `DescriptionError`."""
    if value not in known:
        raise DescriptionError(f"{name} is {shown(value)}; {_offered(value, known)}")


def require_start_values(explorer: str, scenario: type, start: Mapping[str, Any]) -> None:
    """Start values of an explorer are fields of its scenario, of their types. Raises `DescriptionError`."""
    known, hints = [field.name for field in fields(scenario)], get_type_hints(scenario)
    for name, value in start.items():
        if name not in known:
            raise DescriptionError(f"{explorer} has no start value {shown(name)}; {_offered(name, known)}")
        require_type(explorer, name, value, hints[name])


def _offered(value: object, known: Sequence[Any]) -> str:
    names = [str(one) for one in known]
    near = (
        get_close_matches(value, names, 1) if isinstance(value, str) else []
    )  # numbers are no typing errors
    hint = f"did you mean {near[0]!r}? There are" if near else "there are"
    return f"{hint} {', '.join(names)}"
