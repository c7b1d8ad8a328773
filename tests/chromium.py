"""A headless Chromium, driven by its DevTools protocol over two pipes: no package is needed."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
    "--remote-debugging-pipe",
)
# Chromium reads the pipe that is its file 3 and writes that which is 4.
LAUNCH = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for number, pipe in enumerate(pipes, 3):
    os.dup2(pipe, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
MIDDLE = """selector => {
    const element = document.querySelector(selector);
    element.scrollIntoView({block: "center"});
    const box = element.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
}"""


@contextlib.contextmanager
def chromium(url, width=1200, height=900):
    """A `Page` of a Chromium of its own, or a skipped test where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no Chromium is installed: none of {', '.join(PROGRAMS)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, contextlib.ExitStack() as stack:
        read, write = os.pipe(), os.pipe()  # what it reads, and what it writes
        command = [program, *OPTIONS, f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(read[0]), str(write[1]), *command],
            pass_fds=(read[0], write[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read[0]), os.close(write[1])
        stack.callback(_end, process)
        requests = stack.enter_context(os.fdopen(read[1], "wb", buffering=0))
        answers = stack.enter_context(os.fdopen(write[0], "rb"))
        page = Page(requests, answers)
        page.open(url)
        yield page


def _end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Page:
    """A page that is open, and what it wrote to its console and asked the network for."""

    def __init__(self, requests, answers):
        self._requests, self._answers = requests, answers
        self._number, self._session = 0, None
        self.console, self.asked = [], []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method, **params):
        """Calls a method of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._requests.write(json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                assert "error" not in found, found["error"]
                return found["result"]
            self._note(found)

    def _read(self):
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            data += byte
        return json.loads(data)

    def _note(self, event):
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"].get("exception", {}).get("description", "an error"))
        elif event.get("method") == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, url):
        self("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def js(self, expression):
        """The value of an expression, as JSON has it."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression, seconds=30):
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not self.js(f"Boolean({expression})"):
            assert time.monotonic() < end, f"not within {seconds} s: {expression}\n{self.console}"
            time.sleep(0.05)

    def fill(self, selector, text):
        """Types into a field, in place of what is there."""
        self.js(f"document.querySelector({json.dumps(selector)}).select()")
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self("Input.insertText", text=text)
        self.wait(f"document.querySelector({json.dumps(selector)}).value === {json.dumps(text)}")

    def press(self, key):
        """Presses a key such as Enter or ArrowRight."""
        codes = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}
        common = dict(key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=codes[key])
        text = {"Enter": "\r", " ": " "}.get(key)
        self("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self("Input.dispatchKeyEvent", type="keyUp", **common)

    def hover(self, selector):
        """Moves the pointer to the middle of an element."""
        x, y = self.js(f"({MIDDLE})({json.dumps(selector)})")
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def media(self, scheme):
        """Has the system prefer light or dark."""
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path, **params):
        """Writes a PNG file of what is seen."""
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png", **params)["data"]))
