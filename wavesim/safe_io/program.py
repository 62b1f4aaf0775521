"""A command as the whole of a process: its signals, its streams and the status that it ends with.

Example: of `wavesim compare toy | head -1` the reader goes early: no traceback, and status 141, as the shell
has it for programs that a closed pipe ends.
"""

import sys
from collections.abc import Callable

from wavesim.errors import OutputError
from wavesim.safe_io import signals
from wavesim.safe_io.streams import ReaderGoneError, guard_streams

STOPPED = 2
READER_GONE = 141  # 128 and SIGPIPE


def run_program(name: str, command: Callable[[], int]) -> int:
    """Runs a command and returns its status: its own, or 2 where output cannot be written or memory is short.

    After a signal 128 and its number (130, 143, 129), and 141 where nobody reads the output any more.
    """
    guard_streams()
    received = signals.raise_once(name)
    status = _status(name, command)
    signals.end_at_once(name)
    if received:
        sys.stderr.write(f"{name}: {signals.word(received[0])}\n")
        return signals.FIRST_STATUS + received[0]
    return status


def error_text(error: OSError) -> str:
    """One line for an error of the system that no part of ours has explained."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}; give another path"


def _status(name: str, command: Callable[[], int]) -> int:
    try:
        status = _exit_code(command)
        sys.stdout.flush()
    except ReaderGoneError:
        return READER_GONE
    except OutputError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return STOPPED
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""  # numpy's says how much it wanted
        sys.stderr.write(f"{name}: out of memory{reason}; free some, raise its limit, or ask for less\n")
        return STOPPED
    except KeyboardInterrupt:
        return signals.FIRST_STATUS  # and the signal's number
    return status


def _exit_code(command: Callable[[], int]) -> int:
    try:
        return command()
    except SystemExit as end:  # argparse, after its help or its complaint
        return end.code if isinstance(end.code, int) else 0
