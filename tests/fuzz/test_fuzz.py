"""The fuzzing suite itself, and its first seconds: every input of the corpus, then as many as fit.

`make fuzz` runs the same for ten minutes.
"""

import signal
from pathlib import Path

import harness
import pytest
from harness import TARGETS, NonsenseError, Target, Worker, fuzz, input_of, outcome, smaller, target_of
from judging import require_finite, require_plain

from wavesim.errors import RecordingError

SECONDS = 30 / len(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_judged_as_its_folders_say_and_any_input_ends_with_sense_or_one_clear_line(
    name: str, tmp_path: Path
):
    missing = target_of(name).missing
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    tally = fuzz(name, SECONDS, tmp_path)
    assert tally.wrong == []
    assert tally.inputs >= len(harness.corpus_of(name))


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_makes_the_same_input_again(name: str):
    assert target_of(name).missing or [input_of(name, seed) for seed in range(40, 46)] == [
        input_of(name, seed) for seed in range(40, 46)
    ]


def called(path: Path) -> bool:
    """A target that goes wrong in the way that its input says."""
    data = path.read_bytes()
    if b"slow" in data:
        while True:
            pass
    if b"large" in data:
        bytearray(harness.MAX_BYTES)
    if b"ended" in data:
        signal.raise_signal(signal.SIGSEGV)
    for word, error in {
        b"crash": ZeroDivisionError(),
        b"lines": RecordingError("one\ntwo"),
        b"nonsense": NonsenseError("a negative time"),
        b"refused": RecordingError("not read"),
    }.items():
        if word in data:
            raise error
    return True


TARGET = Target(lambda chance, data: data, called)


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"good", "accepted"),
        (b"refused", "refused"),
        (b"crash", "ZeroDivisionError"),
        (b"lines", "not one clear line"),
        (b"nonsense", "NonsenseError: 'a negative time'"),
    ],
)
def test_what_is_wrong_is_told_from_what_is_right(data: bytes, result: str, tmp_path: Path):
    (tmp_path / "x").write_bytes(data)
    assert outcome(TARGET, tmp_path / "x").startswith(result)


@pytest.mark.slow
def test_time_memory_and_crashes_are_judged_and_the_next_input_runs(monkeypatch: pytest.MonkeyPatch):
    code = "import harness, test_fuzz; harness.target_of = lambda name: test_fuzz.TARGET; "
    monkeypatch.setattr(harness, "WORK", f"{code}harness.MAX_CPU_SECONDS = 1; {harness.WORK}")
    worker = Worker("this")
    assert worker.judged(b"slow")[0].startswith("over")
    assert worker.judged(b"large")[0].startswith("MemoryError")
    assert worker.judged(b"ended")[0] == f"the process ended with {-signal.SIGSEGV}"
    assert worker.judged(b"good")[0] == "accepted"
    assert smaller(worker, b"x" * 40 + b"crash" + b"y" * 40, "ZeroDivisionError: ''") == b"crash"
    worker.close()


@pytest.mark.parametrize("text", ["a\x1b[31m", "a\rb", "a\u2028b", "a\x07"])
def test_control_characters_are_no_plain_text(text: str):
    require_plain("two lines\nare plain µ\n")
    with pytest.raises(NonsenseError):
        require_plain(text)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 2**63, 1e300])
def test_numbers_beyond_64_bits_are_no_result(number: float):
    require_finite({"a": [1, -2.5, None, "x", {"b": 2**63 - 1}]})
    with pytest.raises(NonsenseError):
        require_finite({"a": [1, {"b": number}]})
