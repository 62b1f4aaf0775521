"""Lines of Python per room, the tracked bytes, and the totals: `make lines`.

Example: a change that makes a room grow says why in its commit. Committed files count, notebooks do not.
"""

import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("product", "bench", "tests")


def tracked() -> list[Path]:
    """Every file that git knows, as it is now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def room_of(path: Path) -> tuple[str, str]:
    """The part of the project that a file counts for, and its room."""
    folders = path.relative_to(ROOT).parts[:-1]
    room = "/".join(folders[:3] if folders[:1] == ("gpu",) else folders[:2])
    if folders[0] == "tests":
        return "tests", room
    return ("bench" if "bench" in folders else "product"), room


def lines_of_rooms(paths: list[Path]) -> Counter[tuple[str, str]]:
    """Lines by (part, room) of the packages and the tests."""
    lines: Counter[tuple[str, str]] = Counter()
    for path in paths:
        top = path.relative_to(ROOT).parts[0]
        if path.suffix == ".py" and top in ("wavesim", "gpu", "tests"):
            lines[room_of(path)] += path.read_text(encoding="utf-8").count("\n")
    return lines


def main() -> None:
    """Prints a line per room, largest first, and the totals."""
    paths = tracked()
    lines = lines_of_rooms(paths)
    for part in PARTS:
        rooms = {room: count for (of, room), count in lines.items() if of == part}
        print(f"{part}: {sum(rooms.values()):,} lines of Python")  # noqa: T201
        for room, count in sorted(rooms.items(), key=lambda item: -item[1]):
            print(f"  {count:6,} {room}")  # noqa: T201
    print(f"{len(paths):,} tracked files, {sum(path.stat().st_size for path in paths) / 1e6:.1f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
