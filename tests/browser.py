"""A browser for tests: headless Chromium over its pipe, without a package of ours.

Chromium speaks the DevTools protocol on two file descriptors (`--remote-debugging-pipe`), messages
of JSON with a zero byte after each. A page is opened from a file, with no network at all.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), "")
WITHOUT = "there is no Chromium here: apt-get install chromium"
_KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}
_KEYS |= {"Escape": 27, "Enter": 13, "Tab": 9}
# Chromium's are 3 and 4, which ours may be as well.
_WITH_DESCRIPTORS = """
import os, sys
to_read, to_write = [os.dup2(int(fd), 100 + n) for n, fd in enumerate(sys.argv[1:3])]
os.dup2(to_read, 3)
os.dup2(to_write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One process, with one page at a time."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self.folder = tempfile.mkdtemp()
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", _WITH_DESCRIPTORS, str(to_read), str(to_write)),
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "--hide-scrollbars",
                f"--user-data-dir={self.folder}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.folder},
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    session: str | None = None

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return dict(found["result"])
            self.events.append(found)

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + self.seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser doesn't answer")
            got = os.read(self._in, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self._rest += got
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(
        self,
        path: Path | str,
        width: int = 1000,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        fragment: str = "",
    ) -> None:
        """Open a file, or an address, and wait until it's loaded."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)
        url = path if isinstance(path, str) else path.resolve().as_uri()
        for address in ("about:blank", f"{url}#{fragment}" if fragment else url):
            self.events.clear()  # and the page, or a change of the fragment would load nothing
            self.send("Page.navigate", url=address)
            while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
                self.events.append(self._read())

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is, or promises, as plain data."""
        how = {"returnByValue": True, "awaitPromise": True}
        found = self.send("Runtime.evaluate", expression=expression, **how)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, modifiers: int = 0) -> None:
        """A key, as a person presses it."""
        code = _KEYS.get(key) or ord(key.upper())
        what = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **what, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **what)

    def click(self, selector: str) -> None:
        """A click in the middle of the first element of a selector."""
        at = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": at[0], "y": at[1], "button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, **where)

    @property
    def complaints(self) -> list[str]:
        """What was written to the console as an error, and exceptions."""
        self.value("0")  # what came before has been read then
        found = []
        for e in self.events:
            if e.get("method") == "Runtime.exceptionThrown":
                found.append(str(e["params"]["exceptionDetails"]))
            if e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error":
                found.append(e["params"]["entry"]["text"])
        return found

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for, but for data that the page has itself."""
        self.value("0")
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [e["params"]["request"]["url"] for e in sent]
        return [u for u in urls if not u.startswith("data:")]

    def picture(self, path: Path, whole: bool = True) -> None:
        """The page as an image."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End it."""
        try:
            self.send("Browser.close")
        except (RuntimeError, OSError, TimeoutError):
            self.process.kill()
        self.process.wait(20)
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        shutil.rmtree(self.folder, ignore_errors=True)
