"""Workers wait for each other, and no longer than they were told to."""

import concurrent.futures
import contextlib
import socket
import time

import pytest

from keras_headattn.training._distribution.rendezvous import _listen, wait_for_all


def addresses(number):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return [f"localhost:{port}" for port in ports]


@pytest.mark.parametrize("last", [0, 2])
def test_nobody_goes_before_the_last_has_come(last):
    workers = addresses(3)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        first = [pool.submit(wait_for_all, workers, index, 30) for index in range(3) if index != last]
        time.sleep(0.3)
        assert not any(future.done() for future in first)
        wait_for_all(workers, last, 30)
        for future in first:
            future.result(timeout=30)


@pytest.mark.parametrize(
    "index, message", [(0, "no answer from localhost:"), (1, "first worker, localhost:.* not answer")]
)
@pytest.mark.parametrize("timeout", [0.6, 0])
def test_alone(index, message, timeout):
    with pytest.raises(TimeoutError, match=message):
        wait_for_all(addresses(2), index, timeout)


def test_strangers_are_not_taken_for_workers():
    workers = addresses(2)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(wait_for_all, workers, 0, 30)
        for hello in (b"", b"GET / HTTP/1.1\n\n", b"keras_headattn worker 7\n"):
            while True:
                try:
                    stranger = socket.create_connection(workers[0].split(":"), timeout=5)
                    break
                except ConnectionRefusedError:
                    time.sleep(0.01)
            with stranger:
                stranger.sendall(hello)
        assert not first.done()
        wait_for_all(workers, 1, 30)
        first.result(timeout=30)


def test_strangers_who_say_nothing_or_too_much_are_not_waited_for():
    """Nor is what they send kept, and nobody hears of a port on the loopback interface from outside."""
    workers = addresses(2)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as strangers:
        first = pool.submit(wait_for_all, workers, 0, 30)
        while True:
            try:
                silent = [socket.create_connection(workers[0].split(":"), timeout=5) for _ in range(4)]
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        for each in silent:
            strangers.enter_context(each)
        with pytest.raises(OSError):  # the other side hangs up
            for _ in range(1_000):
                silent[0].sendall(b"x" * 65_536)
        started = time.monotonic()
        wait_for_all(workers, 1, 30)
        first.result(timeout=30)
        assert time.monotonic() - started < 4  # each of them would have cost 5 seconds


@pytest.mark.parametrize("address, hosts", [
    ("localhost:0", ["127.0.0.1"]), ("127.0.0.1:0", ["127.0.0.1"]), ("worker-0:0", ["::", "0.0.0.0"]),
])  # fmt: skip
def test_who_can_reach_the_port(address, hosts):
    with _listen(address, time.monotonic() + 5) as listener:
        assert listener.getsockname()[0] in hosts


def test_a_port_in_use_is_waited_for():
    workers = addresses(2)
    with (
        socket.create_server(("", int(workers[0].split(":")[1]))),
        pytest.raises(TimeoutError, match="cannot be opened"),
    ):
        wait_for_all(workers, 0, 0.2)
