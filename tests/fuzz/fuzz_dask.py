"""What answers where a Dask scheduler is expected: greetings with other bytes, sizes and words."""

import random
import socket
import threading
from pathlib import Path

from harness import Target
from judging import require
from mutations import with_bytes_changed

from wavesim.tuning import dask_cluster

dask_cluster.CONNECT_S = 1  # the tests show that whoever is silent is given up


def made(chance: random.Random, data: bytes) -> bytes:
    """Another answer: frames that claim any size, or damaged ones."""
    if chance.random() < 0.3:
        count = chance.choice([0, 1, 3, 2**20, 2**40, 2**63, 2**64 - 1])
        return count.to_bytes(8, "little") + chance.randbytes(chance.choice([0, 8, 64, 4096]))
    return with_bytes_changed(chance, data)


def call(path: Path) -> bool:
    """Asks for a pool where this is answered, once for each connection. Nothing is ever accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer, args=(server, path.read_bytes()))
        thread.start()
        try:
            with dask_cluster.dask_pool(f"tcp://127.0.0.1:{server.getsockname()[1]}"):
                require(False, "a pool on what is no scheduler")
        finally:
            server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, as closing does not
            thread.join()
    return True


def _answer(server: socket.socket, data: bytes) -> None:
    while True:
        try:
            connection, _ = server.accept()
            connection.sendall(data)
            connection.close()
        except OSError:
            return


TARGET = Target(made, call, needs=["distributed"])
