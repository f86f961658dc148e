# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for the tests of pages."""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread


class Browser:
    """Headless Chromium, driven over its own protocol (https://chromedevtools.github.io/devtools-protocol) by pipes."""

    def __init__(self, program: str, profile: Path):
        reads, self.out = os.pipe()
        into, writes = os.pipe()
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-gpu-rasterization",  # which some distributions ask for: without a GPU it takes twice as long
            "--disable-quic",
            "--no-first-run",
            "--hide-scrollbars",
            "--enable-unsafe-swiftshader",
            "--use-angle=swiftshader",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        move = f"import os, sys; os.dup2({reads}, 3); os.dup2({writes}, 4); os.execv(sys.argv[1], sys.argv[1:])"
        launcher = [sys.executable, "-c", move, *command]  # Chromium reads from 3 and writes to 4
        self.process = subprocess.Popen(launcher, pass_fds=(reads, writes), stderr=subprocess.DEVNULL)
        os.close(reads)
        os.close(writes)
        self.answers = os.fdopen(into, "rb")
        self.number, self.session, self.faults, self.requests = 0, None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **parameters) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            if answer["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.faults.append(answer["params"])
            elif answer["method"] == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _next(self) -> dict:
        message = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        return json.loads(message)

    def open(self, page: str | Path, folder: Path, before: str = "") -> None:
        """Show a page, its text or its file, and wait until it says that it is ready (or says why not)."""
        file = page if isinstance(page, Path) else folder / "page.html"
        if isinstance(page, str):
            file.write_text(page, encoding="utf-8")
        script = self.call("Page.addScriptToEvaluateOnNewDocument", source=before)["identifier"]
        self.faults.clear()
        self.requests.clear()
        self.call("Page.navigate", url=file.as_uri())
        ready = 'document.body && (document.body.dataset.ready || document.querySelector("#failure:not([hidden])"))'
        deadline = time.monotonic() + 60
        while not self.run(f"Boolean(document.readyState === 'complete' && ({ready}))"):
            assert time.monotonic() < deadline, self.faults
            time.sleep(0.02)
        self.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)

    def run(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self) -> None:
        self.run("new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(() => next(0))))")

    def screen(self, width: int, height: int, touch: bool = False) -> None:
        """The size of the window in CSS pixels, and whether it belongs to a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch, maxTouchPoints=1)

    def shot(self, selector: str) -> np.ndarray:
        """What an element shows on the screen, (height, width, 3) 0 to 255."""
        box = self.run(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)}); element.scrollIntoView();"
            " const { x, y, width, height } = element.getBoundingClientRect();"
            " return { x: x + scrollX, y: y + scrollY, width, height, scale: 1 }; })()"
        )
        self.settle()
        png = base64.b64decode(self.call("Page.captureScreenshot", clip=box, captureBeyondViewport=True)["data"])
        return np.rint(imread(io.BytesIO(png))[..., :3] * 255).astype(int)

    def close(self) -> None:
        self.call("Browser.close")
        self.process.wait(timeout=30)


def start(profile: Path, kind: type[Browser] = Browser) -> Browser:
    """The browser, or a skipped test where there is none."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not program:
        pytest.skip("no Chromium: install chromium to test the page")
    return kind(program, profile)
