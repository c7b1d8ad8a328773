"""The signals that ask a process to end: SIGINT, which is Ctrl-C, and SIGTERM."""

import contextlib
import signal
import sys
import threading

_MESSAGES = {
    signal.SIGINT: "Saving, then training ends. Press Ctrl-C again to end at once, without saving.",
    signal.SIGTERM: "Saving, then training ends: SIGTERM received. A second one ends it at once, without saving.",
}


class FirstSignal:
    """Catches the first SIGINT or SIGTERM, and reports it in one line. Later ones act as if nothing had been caught.

    A signal that the process ignores stays ignored: shells start commands in the background so. Threads other than
    the main one can catch none.

    Args:
        is_running: Function of the frame that a signal interrupts: whether what is to be ended runs in it. Where it
            does not, as an exception has ended it before, the signal acts as if it had not been caught.
        heard: Function of no arguments, called after `number` is set.

    Attributes:
        number: The signal that was caught; 0 before.
    """

    def __init__(self, is_running, heard):
        self.number = 0
        self._is_running, self._heard = is_running, heard
        self._handlers = {}

    def catch(self):
        self.release()
        self.number = 0
        if threading.current_thread() is threading.main_thread():
            for number in _MESSAGES:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._on_signal) or signal.SIG_DFL

    def release(self):
        """Puts back the handlers that were there before."""
        if threading.current_thread() is threading.main_thread():
            while self._handlers:
                signal.signal(*self._handlers.popitem())

    def _on_signal(self, number, frame):
        self.release()
        if not self._is_running(frame):
            signal.raise_signal(number)
            return
        self.number = number
        # The signal may have interrupted another `print` to the same stream, which allows none within it.
        with contextlib.suppress(RuntimeError, OSError):
            start = "\n" if sys.stderr.isatty() else ""  # a progress bar is there
            print(start + _MESSAGES[number], file=sys.stderr, flush=True)
        self._heard()
