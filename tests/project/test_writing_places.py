"""Files are written through `wavesim.safe_io`, so that each is whole or not there, whatever fails."""

import ast
from collections.abc import Iterator

from source_trees import ROOT, WAVESIM, sources, tree_of

GUARD = WAVESIM / "safe_io"
METHODS = {"write_text", "write_bytes", "touch", "tofile", "to_csv", "write_html", "write_image", "dump"}
MODULES = {
    "np": {"save", "savez", "savez_compressed", "savetxt"},
    "os": {"open", "fdopen", "replace", "rename", "truncate"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move"},
    "tempfile": {"NamedTemporaryFile", "mkstemp"},
}
OPENERS = {"open", "ZipFile", "GzipFile", "TarFile"}
ALLOWED = {
    # Reads through a copy of a descriptor that the guard has opened.
    "wavesim/tuning/results_file.py: os.fdopen(os.dup(self._number), 'rb')",
    # A line for each launch, in one write at the end of a file that the guard made: a lock and a flush to the
    # disk would cost more than the launch.
    "gpu/wavesim_gpu/hang/launch_recorder.py: os.open(self.path, os.O_WRONLY | os.O_APPEND)",
    # Maps a file that the guard made; what is in it is old as soon as it is written.
    "gpu/wavesim_gpu/hang/semaphore_mirror.py: Path(path).open('r+b')",
    # Writes into memory.
    "wavesim/trace/trace_archive.py: np.savez(data, allow_pickle=False, **columns)",
}


def writes() -> Iterator[str]:
    """Calls that write files, but for those into a file that the guard has opened."""
    for path in sources():
        if GUARD not in path.parents:
            guarded = set(guarded_files(tree_of(path)))
            for node in ast.walk(tree_of(path)):
                into = ast.unparse(node.args[0]) if isinstance(node, ast.Call) and node.args else ""
                if isinstance(node, ast.Call) and is_write(node) and into not in guarded:
                    yield f"{path.relative_to(ROOT)}: {ast.unparse(node)}"


def guarded_files(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.withitem) and ast.unparse(node).startswith("replacing("):
            yield ast.unparse(node.optional_vars or node)


def is_write(call: ast.Call) -> bool:
    """Whether a call writes a file by a path, judged by its name and, if it opens one, by its mode."""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if name in OPENERS and owner != "os":
        words = [*call.args, *(keyword.value for keyword in call.keywords)]
        modes = [set(str(word.value)) for word in words if isinstance(word, ast.Constant)]
        return any(mode <= set("rwaxbt+") and mode & set("wax+") for mode in modes)
    if owner in MODULES:
        return name in MODULES[owner]
    # A path's `replace` and `rename` take one argument; a text's take two.
    is_renaming = name in {"replace", "rename"} and len(call.args) == 1 and not call.keywords
    return bool(owner) and owner != "ast" and (name in METHODS or is_renaming)


def test_every_file_is_written_through_the_guard():
    assert set(writes()) - ALLOWED == set()


def test_what_writes_is_seen():
    found = [
        ast.parse(text, mode="eval").body
        for text in (
            "path.write_text(text)",
            "path.open('a')",
            "open(path, mode='wb')",
            "np.savez(path)",
            "os.replace(one, other)",
            "draft.replace(path)",
            "json.dump(value, file)",
            "zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED)",
        )
    ]
    assert all(isinstance(call, ast.Call) and is_write(call) for call in found)
    harmless = ("path.open('rb')", "text.replace('a', 'b')", "write_text(path, text)", "ast.dump(node)")
    calls = [ast.parse(text, mode="eval").body for text in harmless]
    assert not any(isinstance(call, ast.Call) and is_write(call) for call in calls)
