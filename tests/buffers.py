"""Whether glibc keeps freed buffers, which TensorFlow turns off for the data sets of generators."""

import ctypes

import pytest


class Mallinfo2(ctypes.Structure):
    """What glibc's `mallinfo2` returns: `hblks` buffers are mapped one by one."""

    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "uordblks fordblks keepcost".split()]


def keeps_buffers(use):
    """Returns whether buffers of 8 MiB are kept after `use` is called; skips the test without glibc 2.33 or later."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("not glibc 2.33 or later")
    libc.mallinfo2.restype = Mallinfo2
    libc.malloc.restype = ctypes.c_void_p

    def are_mapped():
        before = libc.mallinfo2().hblks
        for _ in range(32):
            libc.malloc(2**23)  # not freed, lest the next calls get it; not written to either, so it takes no memory
        return libc.mallinfo2().hblks - before > 16

    libc.mallopt(-3, 2**17)  # M_MMAP_THRESHOLD, as the first generator of a process does in TensorFlow 2.21
    assert are_mapped()
    use()
    return not are_mapped()
