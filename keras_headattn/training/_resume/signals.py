"""Handling of SIGINT (Ctrl-C) and SIGTERM."""

import contextlib
import signal
import sys
import threading

_MESSAGES = {
    signal.SIGINT: "Saving, then training ends. Press Ctrl-C again to end at once, without saving.",
    signal.SIGTERM: "Saving, then training ends: SIGTERM received. A second one ends it at once, without saving.",
}


class FirstSignal:
    """Handler of the first SIGINT or SIGTERM: sets `number`, prints a line and calls `heard`. Later ones act as usual.

    So does the first if `is_running` is false of the interrupted frame. Ignored signals stay ignored, as shells ignore
    them for background commands. It works in the main thread only.
    """

    def __init__(self, is_running, heard):
        self.number = 0
        self._is_running, self._heard = is_running, heard
        self._handlers = {}

    def catch(self):
        self.release()
        self.number = 0
        if threading.current_thread() is threading.main_thread():
            for signal_number in _MESSAGES:
                if signal.getsignal(signal_number) != signal.SIG_IGN:
                    self._handlers[signal_number] = signal.signal(signal_number, self._on_signal) or signal.SIG_DFL

    def release(self):
        """Restores the previous handlers."""
        if threading.current_thread() is threading.main_thread():
            while self._handlers:
                signal.signal(*self._handlers.popitem())

    def _on_signal(self, signal_number, frame):
        self.release()
        if not self._is_running(frame):
            signal.raise_signal(signal_number)
            return
        self.number = signal_number
        # The signal may have interrupted a `print`, which is not reentrant.
        with contextlib.suppress(RuntimeError, OSError):
            start = "\n" if sys.stderr.isatty() else ""  # below a progress bar
            print(start + _MESSAGES[signal_number], file=sys.stderr, flush=True)
        self._heard()
