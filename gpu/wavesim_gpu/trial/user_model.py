"""The model of a user's own file: the file is run as Python runs it, and must leave a model and its inputs.

Example: `model.py` with `model = ...` and `inputs = (tokens,)`, or with functions `make_model()` and
`make_inputs()`; `model.py:encoder` takes the model from another name. `step(model, inputs)`, if there is
one, is what is timed; else the model is called without gradients.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import bounded_text, shown
from wavesim.safe_io.escaping import one_line

LONGEST_NAME = 4096
FILE_MODULE = (
    "wavesim_model_under_trial"  # in sys.modules, so that what is pickled in the file finds its classes
)
ADVICE = (
    "it defines `model` or `make_model()`, `inputs` or `make_inputs()`, and `step(model, inputs)` if need be"
)


@dataclass(frozen=True)
class UserModel:
    """A model, what it is called with and how; `place` is the file or module that it came from."""

    place: str
    model: Any
    inputs: Any
    step: Callable[[Any, Any], Any]

    def run(self) -> Any:
        """One step. An exception of the user's code becomes a `DescriptionError` with its file and line."""
        return told(self.place, lambda: self.step(self.model, self.inputs))


def load_user_model(text: str) -> UserModel:
    """Runs the file or imports the module. Raises `DescriptionError` in one line for whatever is missing."""
    bounded_text("MODEL", text, LONGEST_NAME, "model.py")
    place, name = _parted(text)
    module = told(place, lambda: module_of(place))
    model = told(place, lambda: _made(module, place, name or "model", "" if name else "make_model"))
    _require_module(place, name or "model", model)
    inputs = told(place, lambda: _made(module, place, "inputs", "make_inputs"))
    step = getattr(module, "step", call_model)
    if not callable(step):
        raise DescriptionError(f"{place}: step is {shown(step)}; it must be a function step(model, inputs)")
    return UserModel(place, model, inputs, step)


def call_model(model: Any, inputs: Any) -> Any:
    """The step where a file has none: one call without gradients, by name, by position or of one tensor."""
    import torch  # noqa: PLC0415  # optional

    with torch.no_grad():
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def told(place: str, run: Callable[[], Any]) -> Any:
    """What `run` returns; whatever the user's code raises becomes one line with the line that raised it."""
    try:
        return run()
    except DescriptionError:
        raise
    except (Exception, SystemExit) as error:
        said = one_line(f"{type(error).__name__}: {error}", 400)
        raise DescriptionError(f"{_where(place, error)}: {said}{_fix(said)}") from error


def _fix(said: str) -> str:
    """What helps where a file asks for a GPU that is not there."""
    torch = sys.modules.get("torch")  # optional
    is_missing = torch is not None and ("CUDA" in said or "NVIDIA" in said) and not torch.cuda.is_available()
    return "; without a GPU, let the file make model and inputs on the CPU" if is_missing else ""


def _where(place: str, error: BaseException) -> str:
    """The last line of the user's file that an exception passed through, else the last line of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name == Path(place).name]
    last = own or [frame for frame in frames if Path(frame.filename).parent != Path(__file__).parent]
    return f"{last[-1].filename}:{last[-1].lineno}" if last else place


def _parted(text: str) -> tuple[str, str]:
    """The file or module, and the name behind the last colon."""
    place, colon, name = text.rpartition(":")
    if not colon:
        return text, ""
    if not place or not name.isidentifier():
        raise DescriptionError(f"MODEL is {shown(text)}; write FILE.py:NAME or package.module:NAME")
    return place, name


def module_of(place: str) -> ModuleType:
    """The user's file, run, or module, imported. Raises `DescriptionError` for one that is not there."""
    if not place.endswith(".py"):
        return _imported(place)
    path = Path(place)
    if not path.is_file():
        raise DescriptionError(f"{place}: no such file; give the path of a Python file or a module's name")
    spec = importlib.util.spec_from_file_location(FILE_MODULE, path)
    if spec is None or spec.loader is None:
        raise DescriptionError(f"{place}: Python cannot load it; give the path of a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # as Python does for a script
    sys.modules[FILE_MODULE] = module
    spec.loader.exec_module(module)
    return module


def _imported(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise DescriptionError(f"MODEL is {shown(name)}; give the path of a Python file or a module's name")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise DescriptionError(
            f"MODEL is {shown(name)}: no module named {error.name!r} here; a file's path ends in .py"
        ) from None


def _made(module: ModuleType, place: str, name: str, maker: str) -> Any:
    """An attribute, or what the function `maker` returns; a model's name may be that of a function too."""
    import torch  # noqa: PLC0415  # optional

    if hasattr(module, name):
        made = getattr(module, name)
        is_function = callable(made) and not isinstance(made, torch.nn.Module)
        return made() if is_function and name != "inputs" else made
    if maker and callable(getattr(module, maker, None)):
        return getattr(module, maker)()
    missing = f"neither {name} nor {maker}()" if maker else f"no {name}"
    raise DescriptionError(f"{place} defines {missing}; a file to try is right when {ADVICE}")


def _require_module(place: str, name: str, model: Any) -> None:
    import torch  # noqa: PLC0415  # optional

    if not isinstance(model, torch.nn.Module):
        raise DescriptionError(f"{place}: {name} is {shown(model)}; it must be a torch.nn.Module")
