"""Processes begin and end in one way: commands through `run_program`, workers through `worker_pool`."""

import ast
import re

from source_trees import ROOT, WAVESIM, sources, text_of, tree_of

GUARD = WAVESIM / "safe_io"
STARTS = re.compile(r"\b(ProcessPoolExecutor|Process|fork)$")
NO_COMMANDS = {
    "wavesim/__main__.py": "calls `main` of the command line, which is one",
    "gpu/wavesim_gpu/driver/user_sources.py": "the bounded process that compiles for a parent",
    "wavesim/codegen/stream_k_text.py": "writes a file of the sources; in a checkout only",
}


def test_every_command_meets_signals_and_broken_outputs_in_one_way():
    texts = {str(path.relative_to(ROOT)): text_of(path) for path in sources()}
    begin = {name for name, text in texts.items() if '__name__ == "__main__"' in text}
    assert {"wavesim/cli/command_line.py", "gpu/wavesim_gpu/__main__.py"} <= begin
    assert {name for name in begin if "run_program(" not in texts[name]} == set(NO_COMMANDS)


def test_worker_processes_are_started_where_they_end_with_their_parent():
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for path in sources()
        if GUARD not in path.parents
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and STARTS.search(ast.unparse(node.func))
    ]
    # One process that is replaced when its GPU fails; it watches its parent itself.
    assert [text.split(":")[0] for text in found] == ["gpu/wavesim_gpu/bench/measuring_process.py"], found


def test_handlers_of_signals_are_set_in_one_place():
    pattern = re.compile(r"\bsignal\.(signal|sigaction|pthread_sigmask)\(")
    users = [path for path in sources() if pattern.search(text_of(path))]
    assert users == [GUARD / "signals.py"]
