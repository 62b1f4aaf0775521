"""Plain data from a pickle, by its opcodes: nothing that the file names is imported, and nothing is called.

Example: a dict of lists, texts and numbers, as PyTorch writes NCCL's flight recorder. A file that asks for a
class or a function is refused with the name that it asks for.
"""

import io
import pickletools
from pathlib import Path
from typing import Any

from wavesim.errors import RecordingError

MOST_OPCODES = 20_000_000
_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": set}
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
_TEXTS = (
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
    "UNICODE",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
)
_OTHER_TEXTS = ("STRING", "BINSTRING", "SHORT_BINSTRING")
_VALUES = frozenset((*_NUMBERS, *_TEXTS, *_OTHER_TEXTS))
_PUTS, _GETS = ("PUT", "BINPUT", "LONG_BINPUT"), frozenset(("GET", "BINGET", "LONG_BINGET"))


def data_of_pickle(data: bytes, path: Path) -> Any:
    """What a pickle holds. Raises `RecordingError`: it is damaged, asks for code, or is over the limits."""
    machine = _Machine(path)
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return machine.stack[-1]
            machine.run(opcode.name, argument)
    except RecordingError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, UnicodeDecodeError, AttributeError) as error:
        raise RecordingError(f"{path}: a damaged pickle: {str(error)[:80]}") from None
    raise RecordingError(f"{path}: a pickle that does not end")


class _Machine:
    """The stack and memo of a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._left = MOST_OPCODES

    def run(self, name: str, argument: Any) -> None:
        """One opcode."""
        self._left -= 1
        if self._left < 0:
            raise RecordingError(f"{self.path}: a pickle of more than {MOST_OPCODES:,} opcodes")
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "MEMOIZE" or name in _PUTS:
            self._memo[len(self._memo) if name == "MEMOIZE" else int(argument)] = stack[-1]
        elif name in _GETS:
            stack.append(self._memo[int(argument)])
        elif name not in ("PROTO", "FRAME"):
            self._collect(name, argument)

    def _collect(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            stack[-1][key] = value
        elif name in ("TUPLE", "LIST", "DICT", "EMPTY_TUPLE", "APPENDS", "SETITEMS", "ADDITEMS"):
            self._from_mark(name)
        else:
            said = f" of {argument!s:.60}" if argument else ""
            raise RecordingError(f"{self.path}: a pickle that asks for code ({name}{said}), and is not run")

    def _from_mark(self, name: str) -> None:
        if name == "EMPTY_TUPLE":
            self.stack.append(())
            return
        place = max(i for i, value in enumerate(self.stack) if value is _MARK)
        values = self.stack[place + 1 :]
        del self.stack[place:]
        if name in ("TUPLE", "LIST"):
            self.stack.append(tuple(values) if name == "TUPLE" else values)
        elif name == "APPENDS":
            self.stack[-1].extend(values)
        elif name == "ADDITEMS":
            self.stack[-1].update(values)
        else:
            pairs = dict(zip(values[::2], values[1::2], strict=True))
            if name == "DICT":
                self.stack.append(pairs)
            else:
                self.stack[-1].update(pairs)
