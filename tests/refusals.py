"""What is refused: the error names what is wrong and ends with what was received. Other words of it are free."""

import functools
import re

import pytest


def refused(name, received="", error=ValueError):
    """Expects an error that has `name`, such as that of an argument, and after "Received" the text of `received`.

    Both are literal text. An empty `received` asks for "Received" alone.
    """
    return pytest.raises(error, match=rf"(?s)(?=.*{re.escape(name)}).*Received.*{re.escape(str(received))}")


def refusals(*cases):
    """Makes a test of `(call, name, received)` or `(call, name, received, error)`: each call must be refused."""

    @pytest.mark.parametrize("case", cases, ids=[f"{name}-{received}" for _, name, received, *_ in cases])
    def test(case):
        call, *expected = case
        with refused(*expected):
            call()

    return test


def values(call, **arguments):
    """Makes the cases of `call` with each of the values of each argument."""
    return [(functools.partial(call, **{name: x}), name, x) for name, each in arguments.items() for x in each]
