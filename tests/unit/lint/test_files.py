"""Whatever the file is, its PTX and its machine code are found in it, or one line says why not."""

import re
import struct

import pytest

from wavesim.errors import RecordingError
from wavesim.lint import disassembler
from wavesim.lint.files import listings_of

PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry NAME()\n{\n  ret;\n}\n"
SASS = '\t.target\tsm_80\n\t.section\t.text.k,"ax",@progbits\n  /*0000*/  EXIT ;\n'


def fatbin(*images):
    """A fat binary of (kind, flags, bytes): kind 1 is PTX."""
    entries = b""
    for kind, flags, data in images:
        head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(data), 0, 0, 8, 8, 90, 0, 0, flags, 0, 0)
        entries += head + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def library(section, data):
    """An ELF file of the host's machine with one section."""
    names = f"\0{section}\0".encode()
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 2)
    )
    place = 64 + 3 * 64

    def header(name, offset, size):
        return struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, 0, 0, 1, 0)

    table = bytes(64) + header(1, place, len(data)) + header(0, place + len(data), len(names))
    return head + table + data + names


def image(name):
    return PTX.replace("NAME", name).encode()


def write(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def names(listings):
    return [(listing.language, [kernel.name for kernel in listing.kernels]) for listing in listings]


def test_text_is_ptx_or_a_disassembly(tmp_path):
    assert names(listings_of(write(tmp_path, "a", image("up")))) == [("ptx", ["up"])]
    assert names(listings_of(write(tmp_path, "b", SASS.encode()))) == [("sass", ["k"])]


@pytest.mark.parametrize("section", [".nv_fatbin", "__nv_relfatbin"])
def test_a_library_holds_fat_binaries_one_after_the_other(tmp_path, section):
    data = fatbin((1, 0, image("up")), (1, 0, image("down"))) + bytes(8) + fatbin((1, 0, image("sum")))
    listings = listings_of(write(tmp_path, "l.so", library(section, data)))
    assert names(listings) == [("ptx", [name]) for name in ("up", "down", "sum")]
    assert [listing.where.rpartition(" (")[2] for listing in listings] == [
        f"PTX {number}, sm_90)" for number in (1, 2, 3)
    ]


def test_what_is_compressed_is_named_where_nothing_can_unpack_it(tmp_path, monkeypatch):
    monkeypatch.setattr(disassembler.shutil, "which", lambda name: None)
    monkeypatch.setattr(disassembler.importlib.util, "find_spec", lambda name: None)
    for key in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(key, raising=False)
    data = fatbin((1, 0, image("up")), (1, 0x8000, b"\x28\xb5\x2f\xfd"))
    listings = listings_of(write(tmp_path, "f.fatbin", data))
    assert names(listings) == [("ptx", ["up"]), ("sass", [])]
    assert "PTX 2, sm_90) is compressed and was not read" in listings[1].notes[0]
    assert "pip install nvidia-cuda-cuobjdump" in listings[1].notes[0]


def test_a_folder_is_read_file_by_file_and_what_is_damaged_is_noted(tmp_path):
    for folder, name in (("abc", "k.ptx"), ("abc", "k.ttgir"), ("def", "k.json"), ("def", "q.ptx")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(image(name[0]))
    (tmp_path / "def" / "torn.cubin").write_bytes(b"\x7fELF\x02\x01")
    listings = listings_of(tmp_path)
    assert names(listings) == [("ptx", ["k"]), ("ptx", ["q"]), ("sass", [])]
    assert "damaged" in listings[2].notes[0]


def test_kernels_are_chosen_by_name(tmp_path):
    path = write(tmp_path, "a.ptx", image("up") + image("down"))
    assert names(listings_of(path, re.compile("ow"))) == [("ptx", ["down"])]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not PTX"),
        (b"\xff\xfe\x00", "neither PTX nor a cubin"),
        (b"!<arch>\nfoo", "a static library"),
        (library(".text", b"code"), "no GPU code in it"),
        (library(".nv_fatbin", b"nothing"), "a fat binary without PTX and without cubins"),
        (library(".nv_fatbin", b"x")[:100], "a damaged ELF file"),
        (b"\x7fELF\x01\x01" + bytes(12) + b"\xbe\x00" + bytes(60), "no 64-bit ELF file"),
        (b"\x7fELF\x02\x01" + bytes(12) + b"\xbe\x00" + bytes(10), "a damaged cubin"),
    ],
)
def test_what_is_none_of_these_is_refused_in_one_line(tmp_path, data, words):
    with pytest.raises(RecordingError, match=words) as caught:
        listings_of(write(tmp_path, "x", data))
    assert "\n" not in str(caught.value)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(RecordingError, match=r"no file that ends in \.ptx"):
        listings_of(tmp_path)
