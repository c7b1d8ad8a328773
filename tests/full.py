"""How much of the tests runs: all with HEADATTN_FULL=1, as `make test-all` sets it, else a sample of what is alike."""

import os

FULL = os.environ.get("HEADATTN_FULL", "0") not in ("", "0")


def sample(cases, names):
    """Those of a list of cases that have one of the names; all in a full run."""
    return [case for case in cases if FULL or case.name in names]
