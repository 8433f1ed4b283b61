"""A real browser: Chromium without a window, told what to do over its debugging pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ("background-networking", "component-update", "sync", "quic", "gpu", "extensions")
ANSWER_SECONDS = 30.0
POLL_SECONDS = 0.1


def find_chromium() -> str | None:
    """The path of Chromium; None: there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class Chromium:
    """A context manager: it starts the browser with one page, and ends it.

    Args:
        path: of the program.
        profile: a folder for its profile.
        width, height: of the page, in pixels.
    """

    def __init__(self, path: str, profile: Path, width: int = 1280, height: int = 900) -> None:
        self._path, self._profile, self._size = path, profile, (width, height)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session = ""
        self.messages: list[dict[str, Any]] = []

    def __enter__(self) -> Chromium:
        """Start."""
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [
            *(self._path, "--headless", "--no-sandbox", "--no-first-run", "--hide-scrollbars"),
            *(f"--disable-{what}" for what in QUIET),
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile}",
            f"--window-size={self._size[0]},{self._size[1]}",
            "about:blank",
        ]
        # The browser reads at descriptor 3 and writes at 4. Python gives a program descriptors under their own numbers
        # only, so a second Python renumbers them and becomes the browser.
        renumber = (
            f"import os, sys; os.dup2({to_browser}, 1003); os.dup2({from_browser}, 1004); "
            "os.dup2(1003, 3); os.dup2(1004, 4); os.execv(sys.argv[1], sys.argv[1:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", renumber, *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.tell(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def tell(self, method: str, **values: object) -> Any:
        """Have it do something, and return what came of it. Events that come meanwhile go into ``messages``."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            reply = self._next(deadline - time.monotonic())
            if reply.get("id") == number:
                assert "error" not in reply, (method, reply["error"])
                return reply["result"]
            self.messages.append(reply)

    def _next(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            assert part, "the browser does not answer"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    # --- what people do ----------------------------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self.tell("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result)
        return result["result"].get("value")

    def until(self, script: str, seconds: float = 20.0) -> Any:
        """Wait until an expression is true; returns its value."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {script}"
            time.sleep(POLL_SECONDS)
        return value

    def text(self, selector: str = "body") -> str:
        """What a part of the page says."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def press(self, key: str) -> None:
        """Press a key, such as ``Tab``."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            number = KEYS.get(key, 0)
            self.tell("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number, **more)

    def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element, which is scrolled into view."""
        place = self.evaluate(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); "
            "found.scrollIntoView({ block: 'center' }); const box = found.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.tell(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1, buttons=1
            )

    def write(self, text: str) -> None:
        """Write into the element that has the focus."""
        self.tell("Input.insertText", text=text)

    def resize(self, width: int, height: int = 900) -> None:
        """Another size of the page, in pixels."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, colours: str) -> None:
        """``light`` or ``dark``: what the user prefers, with colours that change at once."""
        features = {"prefers-color-scheme": colours, "prefers-reduced-motion": "reduce"}
        given = [{"name": name, "value": value} for name, value in features.items()]
        self.tell("Emulation.setEmulatedMedia", features=given)

    def screenshot(self, target: Path) -> None:
        """The whole page as a picture."""
        shot = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        target.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """What the console of the browser says so far: exceptions, and what the policy of content forbids."""
        self.evaluate("1")
        found = []
        for message in self.messages:
            given: Mapping[str, Any] = message.get("params", {})
            if message.get("method") == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"]))
            elif message.get("method") == "Log.entryAdded" and given["entry"]["level"] == "error":
                found.append(given["entry"]["text"])
        return found


KEYS = {"Tab": 9, "Enter": 13, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
