"""What a reader has solved is kept in a file, told with each right answer, and shown in a table."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from wavesim.teaching import WrongAnswer, check, load_ipython_extension, progress, unload_ipython_extension
from wavesim.teaching.solved_file import FILE, keep_in, solved


@pytest.fixture
def kept(tmp_path):
    keep_in(tmp_path)
    yield tmp_path
    keep_in(None)


def test_a_right_answer_is_kept_and_a_wrong_or_missing_one_is_not(kept):
    check("1.1", ...)
    with pytest.raises(WrongAnswer):
        check("1.1", (3, 3))
    assert solved() == set()
    assert check("1.1", (4, 3)).text.endswith("(1 of 3 of this notebook solved.)")
    assert check("2.1", 264).text.endswith("(1 of 3 of this notebook solved.)")
    check("1.1", (4, 3))
    assert (kept / FILE).read_text() == "1.1\n2.1\n"


def test_what_is_kept_is_shown_by_a_kernel_that_comes_later(kept):
    (kept / FILE).write_text("1.2\n\n1.3\n")
    table = progress()
    assert table.titles[1].startswith("2 of ")
    assert table.cells[0] == ("1", "○ 1.1  ✓ 1.2  ✓ 1.3")
    assert len(table.cells) == 25


@pytest.mark.parametrize("make", [lambda path: path.write_text("milk\neggs\n"), os.mkfifo])
def test_what_another_program_owns_is_left_as_it_is(kept, make):
    path = kept / FILE
    make(path)
    before = path.lstat()
    told = check("1.1", (4, 3))
    assert told.is_right
    assert "(Not kept: " in told.text
    assert (path.lstat().st_ino, path.lstat().st_size) == (before.st_ino, before.st_size)
    assert solved() == set()


KERNEL = """
import sys
from pathlib import Path
from types import SimpleNamespace
from wavesim.teaching.solved_file import keep_in, remember
keep_in(Path(sys.argv[1]))
for number in range(1, 60):
    remember(f"{sys.argv[2]}.{number}", ())
"""


def test_what_two_kernels_solve_is_all_kept(kept):
    kernels = [subprocess.Popen([sys.executable, "-c", KERNEL, kept, first]) for first in "12"]
    assert [kernel.wait() for kernel in kernels] == [0, 0]
    assert len(solved()) == 118


def test_a_folder_that_cannot_be_written_leaves_the_answer_right_and_says_so(kept):
    (kept / FILE).mkdir()
    told = check("1.1", (4, 3))
    assert told.is_right
    assert "(Not kept: " in told.text


def test_nothing_is_written_before_the_extension_is_loaded_and_after_it_is_unloaded(tmp_path, monkeypatch):
    class Shell:
        events = SimpleNamespace(register=lambda *_: None, unregister=lambda *_: None)

        def set_custom_exc(self, kinds, handler):
            self.handled = kinds

    monkeypatch.chdir(tmp_path)
    shell = Shell()
    check("1.1", (4, 3))
    assert list(tmp_path.iterdir()) == []
    load_ipython_extension(shell)
    check("1.1", (4, 3))
    unload_ipython_extension(shell)
    (tmp_path / FILE).unlink()
    check("1.1", (4, 3))
    assert list(tmp_path.iterdir()) == []
