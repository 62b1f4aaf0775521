"""The cache of compiled kernels: damaged entries are never served, and it may be impossible to keep any."""

import os
import subprocess
import sys

import pytest

from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.driver.cubin_cache import Cubin, keep, read

CUBIN = Cubin(b"\x7fELF" + bytes(range(40)), {"gemm<64>": "_Z4gemmILi64EEvv"}, ".version 8.0 // PTX")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cubin_cache, "_chosen", tmp_path / "cache")
    return tmp_path / "cache"


def test_what_was_kept_is_read_and_nothing_else_lies_beside_it(folder):
    assert read("key") is None
    keep("key", CUBIN)
    assert read("key") == CUBIN
    assert [path.name for path in folder.iterdir()] == ["key.zip"]


def test_an_entry_that_was_cut_off_anywhere_is_not_served_and_is_replaced(folder):
    keep("key", CUBIN)
    whole = (folder / "key.zip").read_bytes()
    for end in range(len(whole)):
        (folder / "key.zip").write_bytes(whole[:end])
        assert read("key") is None
    keep("key", CUBIN)
    assert read("key") == CUBIN


def test_an_entry_with_any_byte_changed_is_not_served_otherwise_than_as_it_was(folder):
    keep("key", CUBIN)
    whole = (folder / "key.zip").read_bytes()
    refused = 0
    for place in range(len(whole)):
        changed = bytes([whole[place] ^ 0xFF])
        (folder / "key.zip").write_bytes(whole[:place] + changed + whole[place + 1 :])
        found = read("key")
        assert found is None or found == CUBIN
        refused += found is None
    assert refused > len(whole) / 2


@pytest.mark.timeout(20)
def test_a_fifo_in_the_place_of_an_entry_does_not_block(folder):
    folder.mkdir()
    os.mkfifo(folder / "key.zip")
    assert read("key") is None
    keep("key", CUBIN)
    assert read("key") is None


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_the_cache(folder):
    folder.write_text("a file in its place")
    keep("key", CUBIN)
    assert read("key") is None
    assert folder.read_text() == "a file in its place"


@pytest.mark.parametrize("home", ["raise RuntimeError('no home')", "return pathlib.PurePosixPath('.')"])
def test_a_user_without_a_home_has_no_cache_and_all_else_works(tmp_path, home):
    code = (
        f"import pathlib\ndef home(cls): {home}\npathlib.Path.home = classmethod(home)\n"
        "from wavesim_gpu.driver import compiler, cubin_cache\n"
        "import wavesim_gpu.run.runner\n"
        "cubin_cache.keep('key', cubin_cache.Cubin(b'', {}, ''))\n"
        "print(cubin_cache.read('key'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"
    assert list(tmp_path.iterdir()) == []
