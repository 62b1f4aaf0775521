"""Standard output and standard error: what cannot be written is an error of one line, never a traceback."""

import os
import subprocess
import sys

import pytest

from wavesim.safe_io.program import error_text

COMMANDS = [
    ("-m", "wavesim", "compare", "toy"),
    ("-m", "wavesim", "simulate", "toy", "--json"),
    ("-m", "wavesim", "gen", "toy", "--sync", "row"),
    ("-m", "wavesim", "--help"),
    ("-m", "wavesim", "--version"),
    ("-m", "wavesim_gpu", "--help"),
]


def in_shell(arguments, redirection, **environment):
    line = " ".join([sys.executable, *arguments, redirection])
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("redirection", ["> /dev/full", ">&-", ">&- <&-"])
def test_output_that_cannot_be_written_is_status_2_and_one_line(arguments, redirection):
    done = in_shell(arguments, redirection)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{arguments[1]}: standard output cannot be written to (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_goes_early_is_status_141_and_no_word(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-", "2>&- <&-"])
def test_messages_that_cannot_be_written_end_nothing(redirection):
    whole = in_shell(("-m", "wavesim", "tune", "toy"), "")
    done = in_shell(("-m", "wavesim", "tune", "toy"), redirection)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:3] == whole.stdout.splitlines()[:3]
    bad = in_shell(("-m", "wavesim", "simulate", "nothing"), redirection)
    assert (bad.returncode, bad.stdout) == (2, "")


def test_where_output_is_closed_a_file_that_is_written_gets_none_of_it(tmp_path):
    path = tmp_path / "pair.cuh"
    done = in_shell(("-m", "wavesim", "gen", "toy", "--sync", "row", "--out", str(path)), ">&-")
    assert done.returncode == 2
    assert "standard output cannot be written to" in done.stderr
    assert str(path) not in path.read_text()
    assert path.read_text().endswith("\n")


def test_a_terminal_for_ascii_shows_other_letters_as_escapes():
    code = (
        "import sys\n"
        "from wavesim.safe_io.program import run_program\n"
        "def command():\n"
        "    print('10 µs \\udcff')\n"
        "    print('10 µs', file=sys.stderr)\n"
        "    return 3\n"
        "sys.exit(run_program('program', command))"
    )
    for encoding in ("ascii", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert done.returncode == 3
        micro = "µ".encode() if encoding == "utf-8" else b"\\xb5"
        assert (done.stdout, done.stderr) == (b"10 " + micro + b"s \\udcff\n", b"10 " + micro + b"s\n")


def test_an_error_of_the_system_names_what_there_is_to_name():
    assert error_text(OSError(28, "No space left on device")) == "No space left on device"
    assert error_text(FileNotFoundError(2, "None there", "a.json")) == "a.json: None there; give another path"
    assert error_text(OSError("one")) == "one"
    assert error_text(OSError()) == "OSError"


@pytest.mark.parametrize(
    ("call", "reason"),
    [("bytearray(2**62)", ""), ("numpy.zeros(2**50)", " (Unable to allocate 8.00 PiB for an array")],
)
def test_too_little_memory_is_status_2_and_one_line(call, reason):
    words = f"sys.exit(run_program('prog', lambda: {call}))"
    code = f"import numpy, sys; from wavesim.safe_io.program import run_program; {words}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"prog: out of memory{reason}")
    assert done.stderr.count("\n") == 1


def test_a_signal_that_an_import_makes_an_error_of_its_own_is_still_a_signal():
    code = (
        "import os, signal, sys\nfrom wavesim.safe_io.program import run_program\n"
        "def command():\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGTERM)\n        signal.pause()\n"
        "    except KeyboardInterrupt as error:\n        raise ImportError('numpy.core') from error\n"
        "sys.exit(run_program('prog', command))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (143, "prog: terminated\n")
