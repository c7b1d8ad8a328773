"""Waiting for all workers before TensorFlow starts."""

import contextlib
import ipaddress
import select
import socket
import time

_HELLO, _GO = b"keras_headattn worker %d\n", b"go\n"
_PAUSE = 0.5  # seconds between two attempts
_LONGEST = 64  # bytes of a worker's line
_MOST_CONNECTIONS = 256


def wait_for_all(addresses, index, timeout):
    """Waits until all workers have called it, or raises a `TimeoutError`. They report to the first of `addresses`.

    TensorFlow's own wait has no deadline and ignores SIGTERM.
    """
    deadline = time.monotonic() + timeout
    if index:
        _report(addresses[0], index, deadline)
    else:
        _welcome(addresses, deadline)


def _welcome(addresses, deadline):
    came = {}
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(addresses[0], deadline))
        said = {}  # incomplete lines by connection
        while len(came) < len(addresses) - 1:
            ready = select.select([listener, *said], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready or time.monotonic() > deadline:
                missing = [address for index, address in enumerate(addresses[1:], 1) if index not in came]
                raise TimeoutError(f"no answer from {', '.join(missing)}")
            for connection in ready:
                if connection is listener:
                    _accept(listener, said, stack)
                elif connection in said and (hello := _line(connection, said)):
                    indices = [index for index in range(1, len(addresses)) if hello == _HELLO % index]
                    came |= {index: connection for index in indices}  # the newest, if a worker was restarted
                    if not indices:
                        connection.close()
        for connection in came.values():
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                connection.sendall(_GO)


def _accept(listener, said, stack):
    """Accepts a connection, and closes the oldest unidentified one if there are too many."""
    with contextlib.suppress(OSError):
        connection = stack.enter_context(listener.accept()[0])
        connection.setblocking(False)
        said[connection] = b""
    if len(said) > _MOST_CONNECTIONS:
        oldest = next(iter(said))
        del said[oldest]
        oldest.close()


def _line(connection, said):
    """Returns a connection's line once complete. Connections that end or say too much are closed."""
    try:
        data = connection.recv(_LONGEST)
    except BlockingIOError:
        return None
    except OSError:
        data = b""
    text = said.pop(connection) + data
    if text.endswith(b"\n"):
        return text
    if data and len(text) < _LONGEST:
        said[connection] = text
    else:
        connection.close()
    return None


def _listen(address, deadline):
    """Listens on all interfaces, or on loopback only for a loopback address."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            if _is_loopback(host):
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                return socket.create_server((host.strip("[]"), int(port)), family=family)
            family = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
            return socket.create_server(("", int(port)), **family)
        except OSError as error:  # an earlier process may still have the port
            if time.monotonic() > deadline:
                raise TimeoutError(f"port {port} cannot be opened: {error}") from error
            time.sleep(_PAUSE)


def _is_loopback(host):
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


def _report(address, index, deadline):
    host, _, port = address.rpartition(":")
    reason = "there was no time to ask"
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=min(left, 5)) as connection:
                connection.sendall(_HELLO % index)
                connection.settimeout(left)
                if connection.makefile("rb").readline(_LONGEST) == _GO:
                    return
        except OSError as error:  # not listening or not resolvable yet
            reason = error
        else:
            reason = "it ended"
        time.sleep(_PAUSE)
    raise TimeoutError(f"the first worker, {address}, does not answer: {reason}")
