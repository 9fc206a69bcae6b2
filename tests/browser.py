"""A real headless Chromium, driven over its debugging pipe: no package, no port, no driver."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium: install one (Debian: apt-get install chromium), or name it in the environment as CHROMIUM"
# key: code that the browser wants for keys that type nothing
CODES = {"ArrowLeft": 37, "ArrowRight": 39, "Backspace": 8, "Escape": 27, "Enter": 13}


def executable() -> str:
    """Return the browser; skip the test where there is none, but fail it in CI, where there must be one."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(MISSING)
    if found is None:
        pytest.skip(MISSING)
    return str(found)


class Browser:
    """One browser with one page.

    Attributes:
        requested: addresses that the page asked for.
        reported: errors that the page's console showed.
        events: what the browser said since the page was opened.
    """

    def __init__(self, folder: Path, timeout: float = 60) -> None:
        self.folder, self._timeout = folder, timeout
        self.requested: list[str] = []
        self.reported: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._number, self._buffer = 0, b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (to_read, to_write)]

        def as_three_and_four() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile"]
        self._process = subprocess.Popen(
            [executable(), *options, "about:blank"],
            preexec_fn=as_three_and_four,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (to_read, to_write, *ends):
            os.close(end)
        self._session: str | None = None

    def open(self, address: str, width: int = 1000, height: int = 760) -> None:
        """Open a page and wait until it has loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.folder), eventsEnabled=True)
        self.size(width, height)
        self.events.clear()
        self.call("Page.navigate", url=address)
        self._wait(lambda event: event["method"] == "Page.loadEventFired")

    def reload(self) -> None:
        """Load the page again."""
        self.events.clear()
        self.call("Page.reload")
        self._wait(lambda event: event["method"] == "Page.loadEventFired")

    def size(self, width: int, height: int) -> None:
        """Set the size of the window in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def dark(self, on: bool = True) -> None:
        """Prefer dark colours."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """Return the value of a script, awaited."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text that an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def press(self, *keys: str) -> None:
        """Press keys, each as a person would: down and up."""
        for key in keys:
            code = CODES.get(key) or ord(key.upper())
            typed = {} if key in CODES else {"text": key}
            names = {"key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown", **names, **typed)
            self.call("Input.dispatchKeyEvent", type="keyUp", **names)

    def hold(self, key: str, times: int) -> None:
        """Hold a key down until it has repeated that often."""
        for time_ in range(times):
            names = {"key": key, "windowsVirtualKeyCode": ord(key.upper()), "text": key, "autoRepeat": time_ > 0}
            self.call("Input.dispatchKeyEvent", type="keyDown", **names)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            place = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def downloaded(self, click: str) -> Path:
        """Click what downloads a file; return the file."""
        self.events.clear()
        self.click(click)
        begun = self._wait(lambda event: event["method"] == "Browser.downloadWillBegin")
        self._wait(
            lambda event: event["method"] == "Browser.downloadProgress" and event["params"]["state"] == "completed"
        )
        return self.folder / str(begun["params"]["suggestedFilename"])

    def choose(self, selector: str, path: Path) -> None:
        """Choose a file in an input for files."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a command of the browser's protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number = self._number
        found = self._until(lambda m: m if m.get("id") == number else None)
        assert "error" not in found, (method, found)
        return found["result"]

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for event in self.events:
            if wanted(event):
                return event
        return self._until(lambda m: m if "method" in m and wanted(m) else None)

    def _until(self, found: Callable[[dict[str, Any]], dict[str, Any] | None]) -> dict[str, Any]:
        end = time.monotonic() + self._timeout
        while True:
            while b"\0" in self._buffer:
                line, self._buffer = self._buffer.split(b"\0", 1)
                message = json.loads(line)
                self._note(message)
                result = found(message)
                if result is not None:
                    return result
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser did not answer in time"
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more

    def _note(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            return
        self.events.append(message)
        if method == "Network.requestWillBeSent":
            self.requested.append(message["params"]["request"]["url"])
        if method == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.reported.append(message["params"]["entry"]["text"])
        if method == "Runtime.exceptionThrown":
            self.reported.append(json.dumps(message["params"]))
