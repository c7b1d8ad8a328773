"""Work on many items in several processes, which end with this one."""

import collections
import concurrent.futures
import multiprocessing
import os
import signal
import threading


def in_processes(function, items, processes, begin=None):
    """Yields the results of a function for each item, in order, from several processes; 1: in this process.

    The processes import the program's main module, and then call `begin`; both functions are picklable. Few items are
    held at a time. If a process is ended from outside, that is an `OSError`.

    >>> list(in_processes(abs, [-1, 2], processes=1))
    [1, 2]
    """
    if processes == 1:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    with concurrent.futures.ProcessPoolExecutor(processes, context, _begin_process, (begin,)) as pool:
        waiting = collections.deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.BrokenExecutor as error:
            raise OSError(
                f"A process that wrote a shard was ended, by a lack of memory perhaps. Received: {processes} processes"
            ) from error
        finally:
            for future in waiting:
                future.cancel()


def _begin_process(begin):
    """Ignores Ctrl-C and exits with the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end():
        multiprocessing.parent_process().join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    if begin is not None:
        begin()
