"""Copies of wheels without what a page never reads, as each file that a start unpacks there costs time.

Example: of jedi's 5,600 files, 4,900 are descriptions of packages and of Django that no notebook has.
"""

import zipfile
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

PLOTLY_UNUSED = """
barpolar candlestick carpet choropleth choroplethmap cone contour contourcarpet densitymap funnel funnelarea
histogram histogram2d histogram2dcontour icicle image indicator isosurface mesh3d ohlc parcats parcoords
sankey scatter3d scattercarpet scattergeo scattermap scatterpolar scatterpolargl scattersmith scatterternary
splom streamtube sunburst surface treemap volume
"""
# By wheel, what is left out: patterns of names, in which `*` also stands for slashes.
NOT_READ = {
    "jedi": ("jedi/third_party/django-stubs/*", "jedi/third_party/typeshed/stubs/*"),
    "pygments": ("pygments/lexers/_*_builtins.py",),
    # Scripts that the page has as extensions.
    "plotly": (
        "plotly/labextension/*",
        "plotly-*.data/data/share/jupyter/*",
        "plotly/package_data/plotly.min.js",
        "plotly/package_data/widgetbundle.js",
        # Kinds of series that no figure of ours has, each some forty files.
        *(f"plotly/graph_objs/{kind}/*" for kind in PLOTLY_UNUSED.split()),
    ),
}


def slim_copy(wheel: Path, folder: Path) -> Path:
    """The wheel in that folder without what `NOT_READ` names. `ValueError` if a pattern finds nothing."""
    patterns = NOT_READ.get(wheel.name.split("-")[0], ())
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as slim:
        names = whole.namelist()
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ValueError(f"{wheel.name} has no {pattern}; lite/slim_wheel.py is for another version")
        for name in names:
            if is_read(name, patterns):
                content = whole.read(name)
                is_record = name.endswith(".dist-info/RECORD")
                slim.writestr(name, record_without(content, patterns) if is_record else content)
    return copy


def is_read(name: str, patterns: Iterable[str]) -> bool:
    """Whether a page may read the file of that name."""
    return not any(fnmatchcase(name, pattern) for pattern in patterns)


def record_without(record: bytes, patterns: Iterable[str]) -> bytes:
    """The list of a wheel's files, without those left out."""
    lines = record.decode().splitlines(keepends=True)
    return "".join(line for line in lines if is_read(line.split(",")[0], patterns)).encode()
