"""Opens the status page in a real browser (Debian's chromium and chromium-driver) and uses it like a person.

Usage: browser.py URL OUTPUT-DIRECTORY [watch]. Only the standard library; ends with status 77 when there is no browser.
The page's server must have traffic in its rings, the default capacities and security status 3. With `watch`, each line of the
input is a JSON object that says what the page must come to show; a line "seen" answers it.
"""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


class Browser:
    """The few commands of WebDriver (W3C) that are needed."""

    def __init__(self, dark=False, scripts=True, size=(1280, 900)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.base = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                if self.call("GET", "/status")["ready"]:
                    break
            except OSError:
                time.sleep(0.2)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--force-prefers-color-scheme=" + ("dark" if dark else "light"),
                     f"--window-size={size[0]},{size[1]}"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"args": arguments}
        if not scripts:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        if shutil.which("chromium"):
            options["binary"] = shutil.which("chromium")
        self.session = "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]

    def call(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)["value"]

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css):
        found = self.call("POST", self.session + "/element", {"using": "css selector", "value": css})
        return self.session + "/element/" + next(iter(found.values()))

    def click(self, css):
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        self.call("POST", self.find(css) + "/click")

    def type(self, css, text):
        self.call("POST", self.find(css) + "/value", {"text": text})

    def text(self, css):
        return self.call("GET", self.find(css) + "/text")

    def messages(self):
        entries = self.call("POST", self.session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    def picture(self, path, device=None):
        """The whole page, with `device` (width, height) as a telephone would show it."""
        if device:
            self.devtools("Emulation.setDeviceMetricsOverride",
                          {"width": device[0], "height": device[1], "deviceScaleFactor": 2, "mobile": True})
            time.sleep(0.5)
        shot = self.devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def devtools(self, command, parameters):
        return self.call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def close(self):
        try:
            self.call("DELETE", self.session)
        except OSError:
            pass
        os.killpg(self.driver.pid, signal.SIGTERM)
        self.driver.wait()


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except urllib.error.HTTPError:
            # The page changed between finding an element and reading it.
            pass
        time.sleep(0.2)
    raise AssertionError(f"waited in vain for {what}")


def use_the_page(url, output):
    browser = Browser()
    try:
        browser.open(url)
        assert browser.text("h1").startswith("Nameward "), browser.text("h1")
        assert "upgrade of this server is mandatory" in browser.text("#security"), browser.text("#security")
        browser.picture(f"{output}/light.png")
        stops = browser.run("return [...document.querySelectorAll('a, button, input, select, summary, [tabindex]')]"
                            ".filter(e => e.tabIndex >= 0 && e.checkVisibility() && e.type !== 'hidden').length")
        assert stops <= 42, f"{stops} stops of the tab key"

        check_page(browser)
        check_chart_rows(browser)
        check_focus(browser)

        # Reset and resize lead back to the page and show their effect.
        assert browser.text("#rows-remotes .total .count") != "0"
        # The address is the same before and after: a document that was made since is the page it leads back to.
        browser.run("window.isBeforeReset = true")
        browser.click("#ring-nxdomain-queries form:first-of-type button")
        wait_for("the reset to lead back", lambda: browser.run(
            "return !window.isBeforeReset && document.readyState === 'complete' && location.search === ''"))
        browser.click("#ring-queries summary")
        browser.run("document.querySelector('#ring-queries select').value = '500'")
        browser.click("#ring-queries details button")
        wait_for("the new capacity", lambda: browser.text("#var-ring-queries-capacity .count") == "500")
        assert browser.run("return document.querySelector('#ring-queries select').value") == "500"

        # Filters.
        browser.type("#filter-variables", "uptime")
        shown = "return [...document.querySelectorAll('#rows-variables tbody tr')].filter(row => !row.hidden).length"
        assert browser.run(shown) == 1, browser.run(shown)

        # The search finds entries that the page does not list, in all of the ring.
        assert "192.0.2.137" not in browser.text("#rows-remotes")
        browser.type("#filter-tables", "2.137")
        wait_for("the entry that was searched for", lambda: "192.0.2.137" in browser.text("#rows-remotes"))
        assert browser.run("return document.querySelectorAll('#rows-remotes .entry').length") == 3, "it, Rest and Total"
        browser.run("const s = document.querySelector('#filter-tables'); s.value = ''; s.dispatchEvent(new Event('input'))")
        wait_for("all entries again", lambda: "192.0.2.137" not in browser.text("#rows-remotes"))

        # Refresh in place, no sooner than every five seconds, off by the switch; the filter stays.
        browser.run("const s = document.querySelector('#interval'); s.value = '5'; s.dispatchEvent(new Event('change'))")
        updates = "return Number(document.documentElement.dataset.updates || 0)"
        began, before = time.monotonic(), browser.run(updates)
        wait_for("a refresh", lambda: browser.run(updates) > before)
        assert time.monotonic() - began > 3, "refreshed too soon"
        assert browser.run(shown) == 1, "the filter was lost"
        browser.click("#refresh")
        time.sleep(2)  # a refresh that was under way may end
        before = browser.run(updates)
        time.sleep(7)
        assert browser.run(updates) == before, "refreshed though switched off"
        browser.open(url)
        assert browser.run("return document.querySelector('#refresh').checked") is False, "the switch was forgotten"

        # One ring.
        browser.click("#ring-remotes .links a")
        wait_for("the page of one ring", lambda: browser.run("return location.search") == "?ring=remotes")
        assert browser.run("return document.querySelectorAll('section').length") == 1
        assert browser.run("return document.querySelectorAll('#rows-remotes tbody tr').length") > 10
        check_page(browser)
        browser.picture(f"{output}/ring.png")

        # Nothing stands out of a telephone's screen.
        browser.open(url)
        browser.picture(f"{output}/narrow.png", device=(390, 844))
        width = browser.run("return document.documentElement.scrollWidth")
        assert width <= 390, f"{width} pixels wide on a telephone"
        check_page(browser)
        check_chart_rows(browser)
        # There is a list to jump by, on a telephone only.
        assert browser.run("return getComputedStyle(document.querySelector('.jump')).display") == "block"
        browser.click(".jump a[href='#variables']")
        wait_for("the jump", lambda: browser.run("return location.hash") == "#variables")
        for page in ("?ring=logmessages", "?zones=", "?zone=none.example"):
            browser.open(url + page)
            width = browser.run("return document.documentElement.scrollWidth")
            assert width <= 390, f"{page}: {width} pixels wide on a telephone"
            check_page(browser)
            # Level and time of a message are shown without hovering, once.
            shown = browser.run("return [...document.querySelectorAll('.logmessages tbody .entry[data-level]')]"
                                ".every(e => getComputedStyle(e, '::before').display !== 'none')")
            assert shown, "a message without level and time"
        complaints = [text for text in browser.messages() if "404 (Not Found)" not in text]
        assert complaints == [], complaints

        # A page without a server does not go on saying that all is well.
        browser.open(url)
        browser.click("#refresh")
        offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        browser.devtools("Network.enable", {})
        browser.devtools("Network.emulateNetworkConditions", offline)
        wait_for("the outage", lambda: browser.text("#state").startswith("No response from the server"))
        assert browser.run("return document.title").startswith("No response – "), browser.run("return document.title")
        browser.devtools("Network.emulateNetworkConditions", offline | {"offline": False})
        wait_for("the state to be back", lambda: browser.text("#state").startswith("All is well"))
    finally:
        browser.close()


def watch_the_page(url, output):
    """For each line {"name", "texts": [[selector, text]], "prominent": selector or null} waits until each text is on the page;
    an empty text must be all there is."""
    browser = Browser()
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            wanted = json.loads(line)

            def is_shown():
                browser.open(url)
                shown = [(text, browser.text(css)) for css, text in wanted["texts"]]
                return all(text in found if text else found == "" for text, found in shown)

            wait_for(f"{wanted['texts']} on the page", is_shown, 120)
            browser.picture(f"{output}/{wanted['name']}.png")
            if wanted["prominent"]:
                check_prominent(browser, wanted["prominent"])
            print("seen", flush=True)
    finally:
        browser.close()


def check_prominent(browser, css):
    """On the first screen, as wide as the page, and with the contrast that WCAG asks for."""
    top, bottom, height, width, page, color, back = browser.run(
        "const e = document.querySelector(arguments[0]), r = e.getBoundingClientRect(), s = getComputedStyle(e);"
        "return [r.top, r.bottom, innerHeight, r.width, document.body.clientWidth, s.color, s.backgroundColor]", css)
    assert 0 <= top < bottom <= height, f"not on the first screen: {top} to {bottom} of {height}"
    assert width > page / 2, f"{width} of {page} pixels wide"
    bright, dim = sorted((luminance(color), luminance(back)), reverse=True)
    contrast = (bright + 0.05) / (dim + 0.05)
    assert contrast >= 4.5, f"{color} on {back}: contrast {contrast:.1f}"


def check_page(browser):
    """Tables have captions, header cells a scope, ids are unique, and all text has the contrast of WCAG AA."""
    bare = browser.run("return [...document.querySelectorAll('table:not(:has(caption)), th:not([scope])')].map(e => e.outerHTML)")
    assert bare == [], bare
    ids = browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), ids
    texts = browser.run("""
        const back = e => {
          for (; e; e = e.parentElement) {
            const color = getComputedStyle(e).backgroundColor;
            if (color !== 'rgba(0, 0, 0, 0)') return color;
          }
          return 'rgb(255, 255, 255)';
        };
        const hasText = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        const seen = new Map();
        for (const e of document.querySelectorAll('body *')) {
          if (!hasText(e) || !e.checkVisibility() || e.closest('.quiet, .skip, option')) continue;
          const color = getComputedStyle(e).color, behind = back(e);
          seen.set(color + ' on ' + behind, [color, behind, e.outerHTML.slice(0, 80)]);
        }
        return [...seen.values()];
    """)
    assert texts, "no text"
    for color, back, element in texts:
        bright, dim = sorted((luminance(color), luminance(back)), reverse=True)
        contrast = (bright + 0.05) / (dim + 0.05)
        assert contrast >= 4.5, f"{color} on {back}: contrast {contrast:.1f} of {element}"


def check_chart_rows(browser):
    """The charts of a row have one height and fill the width of the page."""
    width, boxes = browser.run(
        "const r = e => e.getBoundingClientRect(); const all = document.querySelector('#charts');"
        "return [r(all).width, [...all.querySelectorAll('figure')].map(f => [r(f).top, r(f).width, r(f).height])]")
    gap = float(browser.run("return getComputedStyle(document.querySelector('#charts')).columnGap.replace('px', '')"))
    rows = {}
    for top, *box in boxes:
        rows.setdefault(round(top), []).append(box)
    for row in rows.values():
        filled = sum(box[0] for box in row) + gap * (len(row) - 1)
        assert abs(filled - width) < 2, f"a row of charts is {filled} of {width} pixels wide"
        assert len({round(box[1]) for box in row}) == 1, f"heights differ: {row}"


def check_focus(browser):
    """The element that the tab key leads to has a visible outline."""
    browser.call("POST", browser.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
        {"type": "keyDown", "value": "\ue004"}, {"type": "keyUp", "value": "\ue004"}] * 2}]})
    style, width = browser.run("const s = getComputedStyle(document.activeElement);"
                               "return [s.outlineStyle, parseFloat(s.outlineWidth)]")
    assert style == "solid" and width >= 2, f"the outline of the focus is {style}, {width} pixels"


def luminance(color):
    """The relative luminance of WCAG of a color such as rgb(1, 2, 3)."""
    parts = [float(part) / 255 for part in color[color.index("(") + 1:-1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def read_the_page(url, output):
    dark = Browser(dark=True)
    try:
        dark.open(url)
        dark.devtools("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        dark.picture(f"{output}/dark.png")
        check_page(dark)
        back = dark.run("return getComputedStyle(document.body).backgroundColor")
        assert sum(int(part) for part in back[4:-1].split(",")) < 150, f"not dark: {back}"
    finally:
        dark.close()
    plain = Browser(scripts=False)
    try:
        plain.open(url)
        plain.picture(f"{output}/without-scripts.png")
        assert "Total:" in plain.text("#rows-remotes")
        assert plain.text("#var-uptime .name") == "uptime"
    finally:
        plain.close()


if __name__ == "__main__":
    if not shutil.which("chromedriver"):
        print("no chromedriver: the page was not opened in a browser")
        sys.exit(77)
    os.makedirs(sys.argv[2], exist_ok=True)
    if sys.argv[3:] == ["watch"]:
        watch_the_page(sys.argv[1], sys.argv[2])
        sys.exit(0)
    use_the_page(sys.argv[1], sys.argv[2])
    read_the_page(sys.argv[1], sys.argv[2])
    print("the page works in a browser")
