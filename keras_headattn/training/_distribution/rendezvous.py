"""Waiting for the other workers before TensorFlow does."""

import contextlib
import socket
import time

_HELLO, _GO = b"keras_headattn worker %d\n", b"go\n"
_PAUSE = 0.5  # seconds between two attempts


def wait_for_all(addresses, index, timeout):
    """Returns in all workers when the last one has called it.

    TensorFlow itself waits where no signal and no deadline ends it, if it is the first worker that waits. This
    is plain Python: SIGTERM ends it.

    Args:
        addresses: List of `"host:port"` of all workers. On the first worker's port the others report.
        index: Which of them this process is.
        timeout: Seconds to wait.

    Raises:
        TimeoutError: if not all came.
    """
    deadline = time.monotonic() + timeout
    if index:
        _report(addresses[0], index, deadline)
    else:
        _welcome(addresses, deadline)


def _welcome(addresses, deadline):
    port = int(addresses[0].rpartition(":")[2])
    came = {}
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(port, deadline))
        while len(came) < len(addresses) - 1:
            listener.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection = stack.enter_context(listener.accept()[0])
                connection.settimeout(5)
                hello = connection.makefile("rb").readline()
            except TimeoutError as error:
                missing = [address for number, address in enumerate(addresses[1:], 1) if number not in came]
                if time.monotonic() < deadline:
                    continue  # that was somebody who says nothing
                raise TimeoutError(f"no word from {', '.join(missing)}") from error
            except OSError:
                continue
            numbers = [number for number in range(1, len(addresses)) if hello == _HELLO % number]
            came |= {number: connection for number in numbers}  # the newest one, if a worker was restarted
        for connection in came.values():
            with contextlib.suppress(OSError):
                connection.sendall(_GO)


def _listen(port, deadline):
    while True:
        try:
            family = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
            return socket.create_server(("", port), **family)
        except OSError as error:  # the process before this one may not be gone yet
            if time.monotonic() > deadline:
                raise TimeoutError(f"port {port} cannot be opened: {error}") from error
            time.sleep(_PAUSE)


def _report(address, index, deadline):
    host, _, port = address.rpartition(":")
    reason = "there was no time to ask"
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, int(port)), timeout=min(left, 5)) as connection:
                connection.sendall(_HELLO % index)
                connection.settimeout(left)
                if connection.makefile("rb").readline() == _GO:
                    return
        except OSError as error:  # not there yet, or its name is not known yet
            reason = error
        else:
            reason = "it ended"
        time.sleep(_PAUSE)
    raise TimeoutError(f"the first worker, {address}, does not answer: {reason}")
