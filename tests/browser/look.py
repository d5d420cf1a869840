#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""look.py URL FOLDER [SECONDS]: opens the page of `verbena web` in Chromium without a window, clicks, and prints what is to be seen as
one JSON object. Pictures go to FOLDER, after SECONDS for the plots to grow. Speaks WebDriver (https://www.w3.org/TR/webdriver2/) with
chromedriver, which it starts and ends."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

PATIENCE = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1400,2000"]


class Browser:
    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder = folder
        self.base = "http://127.0.0.1:%d" % port
        self.driver = subprocess.Popen(["chromedriver", "--port=%d" % port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until(self.is_ready, "chromedriver answers")
        options = {"args": ARGUMENTS + ["--user-data-dir=" + os.path.join(folder, "profile")], "binary": "/usr/bin/chromium"}
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = "/session/" + answer["sessionId"]

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, data=json.dumps(body).encode() if body is not None else None,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise RuntimeError("%s %s: %s" % (method, path, problem.read().decode()[:500])) from None

    def is_ready(self):
        try:
            return self.ask("GET", "/status")["ready"]
        except OSError:
            return False

    def until(self, condition, what):
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise RuntimeError("not within %d seconds: %s" % (PATIENCE, what))

    def do(self, script, *arguments):
        return self.ask("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector):
        """On what is there at this moment: rows are made anew once a second."""
        for _ in range(20):
            found = self.ask("POST", self.session + "/element", {"using": "css selector", "value": selector})
            try:
                return self.ask("POST", self.session + "/element/%s/click" % found[ELEMENT], {})
            except RuntimeError as problem:
                if "stale element" not in str(problem):
                    raise
        raise RuntimeError("%s does not hold still" % selector)

    def picture(self, name):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(base64.b64decode(self.ask("GET", self.session + "/screenshot")))

    def complaints(self):
        return [entry["message"] for entry in self.ask("POST", self.session + "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def close(self):
        try:
            self.ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()


ROWS = """return [...document.querySelectorAll('#qps tbody tr')].map(row => [...row.cells].map(cell => cell.textContent));"""


def look(browser, url, wait):
    seen = {}
    browser.ask("POST", browser.session + "/url", {"url": url})
    browser.until(lambda: browser.do("return document.getElementById('live').textContent") == "live", "the page is live")
    browser.until(lambda: len(browser.do(ROWS)) >= 2, "two queue pairs are listed")
    # Two looks: a line needs two points.
    browser.until(lambda: browser.do("return document.querySelectorAll('#plot-rate path').length") >= 2, "rates are plotted")
    browser.until(lambda: "L" in browser.do("return document.querySelector('#plot-rate path').getAttribute('d')"), "the plot moves")
    browser.until(lambda: "L" in browser.do("return document.querySelector('#plot-control path')?.getAttribute('d') || ''"), "control is plotted")
    seen["control"] = browser.do("return [...document.querySelectorAll('#legend-control span')].map(entry => entry.textContent)")
    browser.until(lambda: browser.do("return document.getElementById('fabric').naturalWidth") > 0, "the fabric is drawn")
    seen["fabric"] = browser.do("return document.getElementById('fabric-count').textContent")
    seen["rows"] = browser.do(ROWS)
    seen["devices"] = browser.do("return [...document.querySelectorAll('#devices b')].map(name => name.textContent)")
    seen["boxes"] = browser.do("return [...document.querySelectorAll('#graph rect')].length")
    seen["edges"] = browser.do("return [...document.querySelectorAll('#graph path')].length")
    seen["edge"] = browser.do("return document.querySelector('#graph text').textContent")
    time.sleep(wait)
    browser.picture("page.png")
    browser.click("#qps tbody tr")
    browser.until(lambda: browser.do("return document.getElementById('ladder').open"), "the ladder opens")
    browser.until(lambda: browser.do("return document.getElementById('ladder-picture').src || document.getElementById('ladder-why').textContent"),
                  "the ladder is drawn or refused")
    seen["ladder"] = browser.do("return document.getElementById('ladder-picture').src.startsWith('blob:')")
    seen["ladder_why"] = browser.do("return document.getElementById('ladder-why').textContent")
    frame = browser.ask("POST", browser.session + "/element", {"using": "css selector", "value": "#ladder-picture"})
    if seen["ladder"]:
        browser.ask("POST", browser.session + "/frame", {"id": frame})
        browser.until(lambda: browser.do("return document.querySelectorAll('svg text').length") > 0, "the frame has the picture")
        seen["ladder_text"] = browser.do("return document.querySelector('svg').textContent")
        browser.ask("POST", browser.session + "/frame", {"id": None})
    browser.picture("ladder.png")
    browser.do("document.getElementById('ladder').close()")
    browser.until(lambda: browser.do("return document.querySelectorAll('#news li').length") >= 1, "an explanation is shown")
    seen["news"] = browser.do("return [...document.querySelectorAll('#news li')].map(item => item.textContent)")
    # A page that is opened without the token says so, and shows nothing.
    browser.do("sessionStorage.clear()")
    browser.ask("POST", browser.session + "/url", {"url": url.split("?")[0]})
    seen["without_token"] = browser.until(
        lambda: browser.do("return document.querySelector('#live.bad')?.textContent"), "it is refused")
    seen["rows_without_token"] = len(browser.do(ROWS))
    return seen


def main():
    url, folder = sys.argv[1:3]
    browser = Browser(folder)
    try:
        seen = look(browser, url, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
        # 403: without the token. 503: a process was too busy to answer in time; the page asks again.
        seen["complaints"] = [text for text in browser.complaints() if "403" not in text and "503" not in text]
    finally:
        browser.close()
    print(json.dumps(seen))


main()
