"""Packages that others import and hardly ever use, read when something of them is asked for.

Example: plotly imports nbformat wherever it shows a figure, for its version, which `Figure.show` compares.
nbformat checks notebooks, so it imports jsonschema, and that builds a grammar of all URIs: a second in every
kernel that shows a figure. After `import_late("nbformat")` only who uses nbformat waits for that.
"""

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    """A module that is executed, in place, when it is asked for what it has not."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        assert spec is not None, "import_late has set it"
        assert spec.loader is not None, "import_late has seen it"
        self.__class__ = ModuleType  # type: ignore[assignment]  # by which this happens once
        self.__path__ = spec.submodule_search_locations or []
        spec.loader.exec_module(self)
        return getattr(self, name)


def import_late(name: str) -> None:
    """Imports a package on its first use; does nothing where it is imported, or is not installed.

    `importlib.util.LazyLoader` would not do: `import` itself asks for the module's `__spec__`, and that
    already counts as its use.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    module = module_from_spec(spec)
    del module.__path__  # asked for by who imports a part of it
    module.__class__ = _Late
    sys.modules[name] = module
