"""Damaged, foreign and hostile files of machine code: an answer or one clear line, and soon."""

import contextlib
import random
import struct
import time
from pathlib import Path

import pytest

from wavesim.errors import RecordingError, WavesimError
from wavesim.lint import check, disassembler, sass
from wavesim.lint.check import findings_of
from wavesim.lint.elf import Elf, attribute_lines
from wavesim.lint.files import listings_of
from wavesim.lint.sass import listing_of_sass
from wavesim.safe_io.bounded_process import Bounds

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus" / "lint"
CUBIN = (CORPUS / "pair.cubin").read_bytes()
TEXT = (CORPUS / "pair.txt").read_text()
HOSTILE = [
    "a\nb: .target x",
    "</script><script>alert(1)</script>",
    "\x1b[31m\x07",
    "x" * 100_000,
    "`(.L_x_0)",
    "\u202e",
]


def changed(chance, data):
    """A few bytes flipped, cut out, doubled or written over with extreme numbers."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 3, 10])):
        place = chance.randrange(len(data) or 1)
        match chance.randrange(5):
            case 0 if data:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                del data[place : place + chance.choice([1, 8, 100])]
            case 2:
                data[place:place] = data[place : place + 64]
            case 3 if place + 8 <= len(data):
                struct.pack_into("<Q", data, place, chance.choice([0, 2**16 - 1, 2**31, 2**63, 2**64 - 1]))
            case _:
                data = data[: max(place, 1)]
    return bytes(data)


@contextlib.contextmanager
def refused_in_one_line():
    """What goes wrong inside is told in one clear line."""
    try:
        yield
    except WavesimError as error:
        require_line(error)


def require_line(error):
    assert str(error).isprintable()
    assert 0 < len(str(error)) < 1_000


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_a_changed_cubin_is_read_or_refused_in_one_line(first):
    for seed in range(first, first + 100):
        with refused_in_one_line():
            elf = Elf(changed(random.Random(seed), CUBIN), "x")
            assert all(line.isprintable() for line in attribute_lines(elf)), seed
            assert len(elf.with_plain_names()) == len(elf.data), seed


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_a_changed_disassembly_is_read_or_refused_in_one_line(first):
    for seed in range(first, first + 100):
        text = changed(random.Random(seed), TEXT.encode()).decode(errors="replace")
        with refused_in_one_line():
            for kernel in listing_of_sass(text, "x").kernels:
                assert all(0 <= at <= len(kernel.instructions) for at in kernel.labels.values()), seed


def test_changed_cubins_go_through_the_disassembler_in_bounded_time(nvdisasm, tmp_path):
    results = set()
    for seed in range(8):
        path = tmp_path / "x.cubin"
        path.write_bytes(changed(random.Random(f"whole {seed}"), CUBIN))
        began = time.monotonic()
        with refused_in_one_line():
            for listing in listings_of(path):
                findings_of(listing)
            results.add("read")
        assert time.monotonic() - began < 60
    assert "read" in results


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_on_its_line(name, nvdisasm):
    """In the symbol table of the cubin, in place of the kernel's own."""
    kernel = Elf(CUBIN, "x").kernels[0].encode()
    raw = name.encode()[: len(kernel)]
    data = CUBIN.replace(kernel, raw + b"_" * (len(kernel) - len(raw)))
    text = disassembler.disassembly(data, "x")
    (kernel_read, *_) = listing_of_sass(text, "x").kernels
    assert kernel_read.name.isprintable()
    assert len(kernel_read.instructions) == len(listing_of_sass(TEXT, "x").kernels[0].instructions)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_in_a_disassembly_changes_no_instruction(name):
    listing = listing_of_sass(TEXT.replace("consume", name), "x")
    expected = listing_of_sass(TEXT, "x")
    assert sum(len(k.instructions) for k in listing.kernels) == sum(
        len(k.instructions) for k in expected.kernels
    )


def test_an_architecture_to_come_is_refused_by_the_disassembler_or_read(nvdisasm):
    """The flags of the ELF header name the architecture."""
    data = bytearray(CUBIN)
    struct.pack_into("<I", data, 48, 0xFE00_FE02)
    with pytest.raises(RecordingError, match="can't read it") as caught:
        disassembler.disassembly(bytes(data), "future.cubin")
    require_line(caught.value)


def test_a_program_that_takes_too_long_or_writes_too_much_is_ended(monkeypatch):
    monkeypatch.setattr(disassembler, "BOUNDS", Bounds(1, 900 << 20, 1_000))
    with pytest.raises(RecordingError, match="more than 1 s"):
        disassembler.run(["/bin/sleep", "20"], "x")
    with pytest.raises(RecordingError, match="can't read it"):
        disassembler.run(["/bin/cat", "/dev/zero"], "x")


def test_more_waits_and_posts_than_are_judged_are_unknown(monkeypatch):
    monkeypatch.setattr(check, "MOST_WORK", 10)
    findings = findings_of(listing_of_sass(TEXT, "x"))
    whys = [finding.why for finding in findings if finding.kind == "kernel"]
    assert len(whys) == 2
    assert all("more than is judged of one file" in why for why in whys)
    assert not [finding for finding in findings if finding.verdict == "right"]


def test_more_loops_than_are_searched_are_unknown(monkeypatch):
    monkeypatch.setattr(check, "MOST_SEARCHED", 10)
    findings = findings_of(listing_of_sass(TEXT, "x"))
    (why,) = {finding.why for finding in findings if finding.kernel == "consume"}
    assert why == "the file branches too much to be followed in 10 steps: check its parts one by one"


def test_more_instructions_than_are_read_are_said(monkeypatch):
    monkeypatch.setattr(sass, "MOST_INSTRUCTIONS", 10)
    listing = listing_of_sass(TEXT, "x")
    assert sum(len(kernel.instructions) for kernel in listing.kernels) <= 10
    assert listing.notes == ("only the first 10 instructions were read",)
    monkeypatch.setattr(sass, "MOST_CHARACTERS", 10)
    with pytest.raises(RecordingError, match="at most 10 are read"):
        listing_of_sass(TEXT, "x")
