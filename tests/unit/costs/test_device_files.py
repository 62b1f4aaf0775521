"""Device data files: what a bad one says, what stands in for a missing constant, what a new one takes."""

import json
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.comparison import compare
from wavesim.costs import constants, device_costs
from wavesim.costs.constants import UNITS, read_device_file
from wavesim.costs.cost_model import FIXED_COSTS
from wavesim.costs.device_costs import costs_of, own_file
from wavesim.errors import DescriptionError
from wavesim.model import device_files
from wavesim.model.device import Device, catalogue_name, default_device, load, names
from wavesim.model.device_files import capability_limits
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim.predict.intervals import committed_widths, half_width
from wavesim.predict.recommendation import verdict_on
from wavesim.workloads.mlps import gpt3_mlp

GOOD = """
[overheads.post_ns]
value = 700
unit = "ns"
source = "a stopwatch"
date = "2026-11-22"

[clock.gain]
value = 0.04
unit = "share"
source = "a stopwatch"
date = 2026-11-22
"""
KERNEL_NS = {"gemm1": 330_000, "gemm2": 330_000}


def bad_file(tmp_path: Path, old: str, new: str) -> Path:
    assert old in GOOD
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    return path


def test_a_good_file_gives_every_constant_with_unit_source_date_and_device(tmp_path: Path):
    found = read_device_file(bad_file(tmp_path, "700", "800"))
    assert found.constants["overheads.post_ns"].value == 800
    assert str(found.constants["clock.gain"]) == "clock.gain = 0.04 share, as on mine (2026-11-22)"
    assert (found.stand_in, found.is_default) == ("", False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[overheads.post_ns]",
            "[overheads.post]",
            "'overheads.post' is unknown; known are launch_ns,",
        ),
        ("[overheads.post_ns]", "[costs.post_ns]", "field 'costs' is unknown; known are overheads,"),
        (
            "value = 700",
            "value = 700\nsigma = 1",
            "'overheads.post_ns.sigma' is unknown; known are value,",
        ),
        ('unit = "ns"\n', "", "field 'overheads.post_ns.unit' is missing; write unit = \"ns\""),
        ('unit = "ns"', 'unit = "us"', "field 'overheads.post_ns.unit' is 'us'; write 'ns'"),
        ('source = "a stopwatch"\n', "", "field 'overheads.post_ns.source' is missing; write source ="),
        ('source = "a stopwatch"', 'source = " "', "field 'overheads.post_ns.source' is ' '; write source ="),
        ('date = "2026-11-22"\n', "", "field 'overheads.post_ns.date' is missing; write date ="),
        (
            'date = "2026-11-22"',
            'date = "lately"',
            "'overheads.post_ns.date' is 'lately'; write date =",
        ),
        ("value = 700\n", "", "field 'overheads.post_ns.value' is missing; write value = the constant in ns"),
        ("value = 700", "value = -1", "'overheads.post_ns.value' is -1; write an integer of at least 0"),
        ("value = 700", "value = 0.5", "'overheads.post_ns.value' is 0.5; write an integer of at least 0"),
        ("value = 700", "value = true", "'overheads.post_ns.value' is True; write an integer"),
        ("value = 700", 'value = "700"', "'overheads.post_ns.value' is '700'; write an integer"),
        ("value = 0.04", "value = 1.5", "'clock.gain.value' is 1.5; write a number from 0 to 1"),
        ("value = 0.04", "value = nan", "'clock.gain.value' is nan; write a finite number"),
        ("[overheads.post_ns]", "overheads = 3\n[other]", "field 'overheads' is 3; write a table"),
        (
            "[overheads.post_ns]",
            "[backends.mine.tile.speed]",
            "'backends.mine.tile.speed' is unknown; known are",
        ),
        (
            "[overheads.post_ns]",
            "[backends.mine.tiles.post_ns]",
            "'backends.mine.tiles' is unknown; known are tile, persistent, fused, stream-k",
        ),
        ("[overheads.post_ns]", "stand_in = 3\n[overheads.post_ns]", "stand_in is a device name in quotes"),
        ("[overheads.post_ns]", "[overheads.post_ns", "not TOML"),
    ],
)
def test_a_bad_file_is_refused_by_file_field_and_fix(tmp_path: Path, old: str, new: str, message: str):
    path = bad_file(tmp_path, old, new)
    with pytest.raises(DescriptionError, match=message) as error:
        read_device_file(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value).partition("not TOML")[0]


def test_half_of_a_section_that_only_works_as_a_whole_is_refused(tmp_path: Path):
    path = bad_file(tmp_path, "[clock.gain]", "[interval.idle_share]")
    with pytest.raises(DescriptionError, match=r"'interval.least_points' is missing; give all of"):
        read_device_file(path)


def test_the_default_device_has_every_constant_that_may_stand_in_for_another_devices():
    own = {one.name for one in device_costs.own_file(default_device().name).constants.values()}
    expected = {f"{section}.{key}" for section, known in UNITS.items() for key in known}
    may_stand_in = expected - set(device_costs.NOT_BY_DEFAULT)
    assert may_stand_in <= own
    assert costs_of(default_device().name).defaults == ()
    assert set(costs_of("v100").overheads) == set(FIXED_COSTS)


def test_a_device_goes_by_its_catalogue_name_or_its_drivers():
    assert catalogue_name("NVIDIA H200") == "h200"
    assert costs_of("NVIDIA H200") is costs_of("h200")


def test_what_stands_in_for_a_missing_constant_is_named_with_device_and_date():
    defaults = [str(one) for one in costs_of("h100").defaults]
    assert "overheads.boundary_ns = 1080 ns, as on h200 (2026-11-20)" in defaults
    assert {one.device for one in costs_of("a100-40gb").defaults} == {"a100-80gb", "h200"}
    assert costs_of("a100-40gb").overheads == costs_of("a100-80gb").overheads


def test_what_makes_predictions_hard_is_the_same_on_every_device():
    assert costs_of("h100").spread == costs_of("h200").spread


def test_memory_and_clock_gain_of_a_device_that_nobody_characterised_are_scaled_by_the_catalogue_and_named():
    h100, h200 = costs_of("h100"), costs_of("h200")
    assert h100.memory is not None
    assert h200.memory is not None
    ratios = (load("h100").l2_bytes / load("h200").l2_bytes, 3350 / 4800)
    assert h100.memory.l2_bytes == round(h200.memory.l2_bytes * ratios[0])
    assert h100.memory.dram_bytes_per_s == round(h200.memory.dram_bytes_per_s * ratios[1])
    assert h100.memory.scattered_share == h200.memory.scattered_share
    assert h100.clock_gain == h200.clock_gain
    defaults = [str(one) for one in h100.defaults]
    assert "memory.l2_bytes = 3e+07 bytes, scaled by l2_bytes from h200 (2026-11-22)" in defaults
    assert "clock.gain = 0.05 share, as on h200 (2026-11-21)" in defaults
    assert not [one for one in h200.defaults if one.scaled_by]


def test_what_was_fitted_on_a_device_is_not_scaled_and_a_device_without_a_data_sheet_has_no_memory():
    v100 = costs_of("v100").memory
    assert v100 is not None
    assert v100.l2_bytes == own_file("v100").constants["memory.l2_bytes"].value
    assert costs_of("a device of the future").memory is None


def test_no_other_device_gets_the_interval_of_one_that_was_scored():
    widths = committed_widths()
    for kind, own in widths.kinds.items():
        assert half_width(kind, 1.0, "b200") == max(own.half_width_over_spread, widths.unseen)
    pipeline = gpt3_mlp(256, (128, 128))
    for name in ("h200", "v100", "a100-80gb", "a100-40gb", "h100", "b200"):
        found = verdict_on(pipeline, load(name), KERNEL_NS)
        for option in found.tried[1:]:
            kind = option.forecast.kind
            known = widths.kinds.get(kind)
            assert option.scored == (known is not None and known.cases > 0 and name in known.devices)
            if not option.scored:
                assert half_width(kind, 1.0, name) >= widths.unseen


@pytest.fixture
def new_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of the two folders of device files, read instead of the package's."""
    shutil.copytree(device_files.FOLDER, tmp_path / "catalogue")
    monkeypatch.setattr(device_files, "FOLDER", tmp_path / "catalogue")
    folders = (tmp_path / "costs", tmp_path / "fitted")
    for folder, copied in zip(constants.FOLDERS, folders, strict=True):
        shutil.copytree(folder, copied)
    monkeypatch.setattr(device_costs, "FOLDERS", folders)
    text = (tmp_path / "catalogue" / "h100.toml").read_text()
    text = text.replace("sm_count = 132\n", "sm_count = 144\n").replace("NVIDIA H100 80GB HBM3", "NVIDIA X1")
    (tmp_path / "catalogue" / "x1.toml").write_text(text)
    return tmp_path


@pytest.mark.usefixtures("new_device")
def test_a_new_device_is_one_new_file_and_predictions_on_it_say_what_they_assume(
    capsys: pytest.CaptureFixture[str],
):
    assert load("x1").sm_count == 144
    found = verdict_on(gpt3_mlp(1024), load("x1"), KERNEL_NS)
    assert not found.scored
    assert {option.forecast.support for option in found.tried} == {"elsewhere", "never"}
    assert found.high - found.low >= 2 * committed_widths().unseen * costs_of("x1").spread.least_points
    assert "overheads.post_ns = 400 ns, as on h200 (2026-11-20)" in found.defaults
    assert "not measured on this device: overheads" in found.basis
    notes = compare(gpt3_mlp(1024), [SemaphoreSync(RowSync())], load("x1")).notes
    assert any("not measured on this device: overheads, as on h200 (" in note for note in notes)
    assert main(["simulate", "gpt3-mlp", "--device", "x1", "--sync", "row", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["scored"], shown["support"]) == (False, "never")
    assert shown["high"] - shown["low"] >= committed_widths().unseen
    assert shown["defaults"][0] == "tile_ns: a roofline from x1's data sheet"
    assert "not measured on this device" in shown["basis"]


def test_a_file_of_its_own_replaces_what_stood_in_and_the_list_of_devices_shows_it(
    new_device: Path, capsys: pytest.CaptureFixture[str]
):
    (new_device / "costs" / "x1.toml").write_text('source = "my desk"\n' + GOOD)
    assert (costs_of("NVIDIA X1").overheads["post_ns"], costs_of("x1").gain(1)) == (700, 0.04)
    assert "overheads.post_ns" not in {one.name for one in costs_of("x1").defaults}
    assert main(["devices", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    expected = {"name": "x1", "characterised": True, "date": "2026-11-22", "source": "my desk"}
    assert listed["x1"] == expected | {"measured": 2, "fitted": 0}
    states = {name: listed[name]["characterised"] for name in ("h200", "h100", "v100")}
    assert states == {"h200": True, "h100": False, "v100": False}
    assert listed["v100"]["fitted"] > 0
    assert all(row["source"] for row in listed.values())


@pytest.mark.usefixtures("new_device")
def test_the_list_of_devices_is_also_text(capsys: pytest.CaptureFixture[str]):
    assert main(["devices"]) == 0
    first = capsys.readouterr().out.partition("From a data sheet")[0]
    listed = [name.strip() for line in first.splitlines() for name in line.partition(":")[2].split(",")]
    assert sorted(listed) == sorted(names())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sm_count = 144\n", "sm_count = [144]\n", r"x1.toml: field 'sm_count' is \[144\]; write a number"),
        ("sm_count = 144\n", 'sm_count = "144"\n', "x1.toml: field 'sm_count' is '144'; write a number"),
        ("power_w = 700", "power_w = [700, 1]", r"field 'power_w' is \[700, 1\]; write a number"),
        ('["NVIDIA X1"]', "[1]", r"field 'driver_names' is \[1\]; write driver_names = "),
        (
            "[sources]",
            "[sources]\nsm_cuont = 'typo'",
            "field 'sources.sm_cuont' is of no figure; known are sm_",
        ),
        ("[sources]\n", "[sources]\nsms = 1\n", "field 'sources.sms' is of no figure"),
        (
            "[sources]\nsm_count = ",
            "[sources]\nsm_count = ' ' #",
            "'sources.sm_count' is missing; write where",
        ),
        (
            "sm_count = 144\n",
            "sm_count = 144\ndefault = 'no'\n",
            "field 'default' is 'no'; write default = tr",
        ),
        (
            'date = "2026-11-22"\n',
            "",
            r"field 'issue_order' is .*; write \[issue_order\] with texts source and date",
        ),
        ("sm_count = 144\n", "sm_count = 144\ndefault = true\n", r"default = true is in \['h200', 'x1'\]"),
    ],
)
def test_a_bad_entry_of_the_catalogue_is_refused_by_file_field_and_fix(
    new_device: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
):
    path = new_device / "catalogue" / "x1.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DescriptionError, match=message):
        load("x1")
    assert main(["simulate", "gpt3-mlp", "--device", "x1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("wavesim: ")
    assert error.count("\n") == 1


def test_without_a_default_device_the_catalogue_says_so(new_device: Path):
    path = new_device / "catalogue" / "h200.toml"
    path.write_text(path.read_text().replace("default = true", "default = false"))
    with pytest.raises(DescriptionError, match="default = true is in no file; write it in one file"):
        default_device()


def user_file(tmp_path: Path, extra: str = "") -> str:
    """A file of one's own: the catalogue's figures of a device that nobody listed, and two constants."""
    catalogue = (device_files.FOLDER / "h100.toml").read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA X2")
    path = tmp_path / "mine.toml"
    path.write_text(catalogue.replace("sm_count = 132\n", "sm_count = 120\n") + GOOD + extra)
    return str(path)


def test_a_file_of_ones_own_is_a_device_and_its_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = user_file(tmp_path)
    assert (load(path).name, load(path).sm_count) == (path, 120)
    assert (costs_of(path).overheads["post_ns"], costs_of(path).gain(1)) == (700, 0.04)
    assert main(["simulate", "gpt3-mlp", "--device", path, "--sync", "row", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["device"] == path
    assert "overheads.post_ns" not in "".join(shown["defaults"])


def test_a_file_that_was_changed_is_read_again(tmp_path: Path):
    path = user_file(tmp_path)
    assert costs_of(path).overheads["post_ns"] == 700
    Path(path).write_text(Path(path).read_text().replace("value = 700", "value = 70000"))
    assert costs_of(path).overheads["post_ns"] == 70_000


def test_a_worker_process_knows_the_file_too(tmp_path: Path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(post_ns, load(user_file(tmp_path))).result() == 700


def post_ns(device: Device) -> int:
    return int(costs_of(device.name).overheads["post_ns"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sm_count = 120\n", "", "field 'sm_count' is missing; write sm_count ="),
        (
            "sm_count = 120\n",
            "sm_count = 120\nsm_cuont = 3\n",
            "field 'sm_cuont' is unknown; known are sm_count",
        ),
        ("[overheads.post_ns]", "[overheads.post]", "field 'overheads.post' is unknown; known are"),
        ("[clock.gain]", "[clocks.gain]", "field 'clocks' is unknown; known are overheads,"),
        ("[9, 0]", "[99, 0]", "field 'max_threads_per_sm' is missing"),
        ("[clock.gain]", "[conditions]\ndriver = [1]\n[clock.gain]", "field 'conditions.driver' is"),
        ('unit = "share"', 'unit = "share"\nspread = -1', "field 'clock.gain.spread' is -1; write a share"),
    ],
)
def test_a_bad_file_of_ones_own_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
):
    path = Path(user_file(tmp_path))
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    assert main(["simulate", "gpt3-mlp", "--device", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"wavesim: {path}: {message}")
    assert error.count("\n") == 1


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]):
    assert main(["simulate", "gpt3-mlp", "--device", "nowhere.toml"]) == 2
    assert "nowhere.toml" in capsys.readouterr().err


def test_a_compute_capability_that_nobody_listed_takes_its_limits_from_the_file(tmp_path: Path):
    path = Path(user_file(tmp_path))
    limits = {name: value for name, value in capability_limits()["9.0"].items() if name != "source"}
    given = "".join(f"{name} = {value}\n" for name, value in limits.items())
    said = "".join(f'{name} = "by the driver"\n' for name in limits)
    text = (
        path.read_text().replace("[9, 0]", "[99, 0]").replace("sm_count = 120\n", f"sm_count = 120\n{given}")
    )
    path.write_text(text.replace("[sources]\n", f"[sources]\n{said}", 1))
    assert load(str(path)).max_warps_per_sm == 64


def test_tiles_come_with_the_rate_and_the_memory_that_they_go_with(tmp_path: Path):
    shipped = own_file("h200").constants
    path = tmp_path / "mine.toml"

    def written(*sections: str) -> Path:
        entry = '[{}]\nvalue = {}\nunit = "{}"\nsource = "a stopwatch"\ndate = 2026-11-22\n'
        chosen = {name: one for name, one in shipped.items() if name.partition(".")[0] in sections}
        path.write_text("".join(entry.format(name, one.value, one.unit) for name, one in chosen.items()))
        return path

    assert read_device_file(written("tiles", "products", "memory")).constants
    with pytest.raises(DescriptionError, match=r"'memory\.dram_bytes_per_s' is missing; \[tiles"):
        read_device_file(written("tiles", "products"))
    with pytest.raises(DescriptionError, match=r"'products\.multiply_adds_per_cycle' is missing"):
        read_device_file(written("tiles", "memory"))
