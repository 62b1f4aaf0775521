"""What the site without an installation leaves out of other people's wheels.

Example: a copy of a little jedi has neither Django's descriptions nor their lines in its list of files.
"""

import sys
import zipfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "lite"))
from slim_wheel import slim_copy

STUB, DJANGO = "jedi/third_party/typeshed/stubs/six/six.pyi", "jedi/third_party/django-stubs/apps.pyi"
KEPT = ("jedi/__init__.py", "jedi/third_party/typeshed/stdlib/os.pyi", "jedi-1.dist-info/METADATA")


def wheel_of(folder, name, files):
    """A wheel with these files, each of which holds its own name, and their list."""
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.writestr(file, file)
        record = "".join(f"{file},sha256=0,{len(file)}\n" for file in files)
        archive.writestr("jedi-1.dist-info/RECORD", record + "jedi-1.dist-info/RECORD,,\n")
    return path


def test_a_copy_lacks_what_no_page_reads_and_lists_what_it_has(tmp_path):
    wheel = wheel_of(tmp_path, "jedi-1-py3-none-any.whl", [STUB, *KEPT, DJANGO])
    (tmp_path / "slim").mkdir()
    with zipfile.ZipFile(slim_copy(wheel, tmp_path / "slim")) as slim:
        names = slim.namelist()
        listed = [line.split(",")[0] for line in slim.read("jedi-1.dist-info/RECORD").decode().splitlines()]
        assert all(slim.read(name).decode() == name for name in KEPT)
    assert names == [*KEPT, "jedi-1.dist-info/RECORD"]
    assert listed == names


def test_a_wheel_of_nothing_superfluous_is_copied_whole(tmp_path):
    wheel = wheel_of(tmp_path, "simpy-1-py3-none-any.whl", [STUB, *KEPT])
    (tmp_path / "slim").mkdir()
    with zipfile.ZipFile(slim_copy(wheel, tmp_path / "slim")) as slim, zipfile.ZipFile(wheel) as whole:
        assert {name: slim.read(name) for name in slim.namelist()} == {
            name: whole.read(name) for name in whole.namelist()
        }


def test_a_version_that_is_laid_out_otherwise_is_noticed(tmp_path):
    wheel = wheel_of(tmp_path, "jedi-1-py3-none-any.whl", [STUB, *KEPT])
    (tmp_path / "slim").mkdir()
    with pytest.raises(ValueError, match="has no jedi/third_party/django-stubs"):
        slim_copy(wheel, tmp_path / "slim")
