"""Versions of what a measurement through PyTorch depends on.

Example: `installed_versions()["torch"]` is "2.11.0+cu130"; packages that are not installed are left out.
"""

import platform
from importlib.metadata import PackageNotFoundError, version

import wavesim

PACKAGES = ("torch", "transformers", "triton", "cupy-cuda13x", "numpy")


def installed_versions() -> dict[str, str]:
    """The interpreter's and the packages' versions."""
    found = {"wavesim": wavesim.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
