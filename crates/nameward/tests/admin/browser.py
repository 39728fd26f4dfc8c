"""Opens the web administration in a real browser (Debian's chromium and chromium-driver) and uses it like a person.

Usage: browser.py URL KEY OUTPUT-DIRECTORY. Ends with status 77 when there is no browser. The server has the zones files.test (a zone
file) and stored.test (in a database, signed).
"""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../control/tests"))
from browser import Browser, check_focus, check_page, wait_for  # noqa: E402

PAGES = {
    "zones": "/zones",
    "new-zone": "/new-zone",
    "search": "/search?q=www",
    "deleted": "/deleted",
    "audit": "/audit",
    "api-keys": "/api-keys",
    "zone": "/zones/stored.test.",
    "rrset": "/zones/stored.test./rrset?name=www&type=A",
    "add": "/zones/stored.test./rrset",
    "import": "/zones/stored.test./import",
    "dnssec": "/zones/stored.test./dnssec",
    "transfers": "/zones/stored.test./transfers?secondaries=1",
    "history": "/zones/files.test./history",
    "difference": "/zones/files.test./history?from=1&to=2",
    "delete": "/zones/stored.test./delete",
    "error": "/zones/none.test.",
}
KEYS = {"tab": "\ue004", "enter": "\ue007"}


def press(browser, *keys):
    actions = []
    for key in keys:
        text = KEYS.get(key, key)
        for one in text:
            actions += [{"type": "keyDown", "value": one}, {"type": "keyUp", "value": one}]
    browser.call("POST", browser.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})


def at(browser, path):
    return lambda: browser.run("return location.pathname") == path and browser.run("return document.readyState") == "complete"


def log_in(browser, url, key):
    browser.open(url + "/login")
    browser.type("#key", key)
    browser.click("button[type=submit]")
    wait_for("the zone list", at(browser, "/admin/zones"))


def check_labels(browser):
    """Every control has a name, and every page one heading of the first level and a main part to skip to."""
    bare = browser.run("""
        return [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')]
          .filter(e => !e.labels?.length && !e.getAttribute('aria-label') && !e.textContent.trim()).map(e => e.outerHTML)""")
    assert bare == [], bare
    assert browser.run("return document.querySelectorAll('h1').length") == 1
    assert browser.run("return document.querySelector('#main') !== null")


def look(url, key, output):
    """Every page in light and dark and on a telephone: contrast, labels, width."""
    for dark in (False, True):
        browser = Browser(dark=dark)
        name = "dark" if dark else "light"
        try:
            if dark:
                browser.open(url + "/login")
                browser.devtools("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
            browser.open(url + "/login")
            browser.picture(f"{output}/login-{name}.png")
            check_page(browser)
            log_in(browser, url, key)
            for page, path in PAGES.items():
                browser.open(url + path)
                check_page(browser)
                check_labels(browser)
                width = browser.run("return document.documentElement.scrollWidth - innerWidth")
                assert width <= 0, f"{page}: {width} pixels too wide"
                browser.picture(f"{output}/{page}-{name}.png")
            for page, path in PAGES.items():
                browser.open(url + path)
                browser.picture(f"{output}/{page}-narrow-{name}.png", device=(375, 812))
                width = browser.run("return document.documentElement.scrollWidth")
                assert width <= 375, f"{page}: {width} pixels wide on a telephone"
                check_page(browser)
            complaints = [text for text in browser.messages() if "404 (Not Found)" not in text]
            assert complaints == [], complaints
        finally:
            browser.close()


def edit_by_keyboard(url, key, output):
    """Adds a record with the keyboard alone, and undoes it."""
    browser = Browser()
    try:
        browser.open(url + "/login")
        press(browser, key, "enter")
        wait_for("the zone list", at(browser, "/admin/zones"))
        check_focus(browser)
        browser.open(url + "/zones/files.test./rrset")
        press(browser, "web", "tab", "A", "tab", "tab", "192.0.2.44", "enter")
        wait_for("the preview", lambda: "192.0.2.44" in browser.text(".difference"))
        browser.picture(f"{output}/preview-light.png")
        check_page(browser)
        press(browser, "enter")
        wait_for("the commit", at(browser, "/admin/zones/files.test."))
        assert "changed, serial 2" in browser.text(".notice"), browser.text(".notice")
        browser.open(url + "/zones/files.test./history")
        browser.click(".act button")
        wait_for("the way back", lambda: "192.0.2.44" in browser.text(".difference"))
        browser.click("button[value=commit]")
        wait_for("the record to be gone", at(browser, "/admin/zones/files.test."))
        assert "192.0.2.44" not in browser.text("#rrsets")
        # A filter while typing, and more rows without a request.
        browser.type("[data-filter]", "ns")
        shown = "return [...document.querySelectorAll('#rrsets tbody tr')].filter(row => !row.hidden).length"
        wait_for("fewer rows", lambda: browser.run(shown) < browser.run("return document.querySelectorAll('#rrsets tbody tr').length"))
        browser.open(url + "/zones/stored.test./rrset?name=www&type=A")
        rows = "return document.querySelectorAll('.data-row').length"
        before = browser.run(rows)
        browser.click("#more-rows")
        assert browser.run(rows) == before + 1
        boxes = browser.run("return [...document.querySelectorAll('input[name=disabled]')].map(e => e.value)")
        assert boxes == [str(n) for n in range(before + 1)], boxes
        assert browser.messages() == [], browser.messages()
    finally:
        browser.close()


def use_without_scripts(url, key, output):
    browser = Browser(scripts=False)
    try:
        log_in(browser, url, key)
        browser.open(url + "/zones/stored.test./rrset?name=www&type=A")
        browser.click("#more-rows")
        wait_for("more rows", lambda: len(browser.call("POST", browser.session + "/elements", {
            "using": "css selector", "value": ".data-row"})) == 6)
        browser.type(".data-row:nth-child(2) input", "192.0.2.45")
        browser.click("button.primary")
        wait_for("the preview", lambda: "192.0.2.45" in browser.text(".difference"))
        browser.click("button[value=commit]")
        wait_for("the commit", lambda: "192.0.2.45" in browser.text("#rrsets"))
        browser.picture(f"{output}/without-scripts.png")
        browser.click(".logout button")
        wait_for("the login page", lambda: browser.text("label") == "API key")
    finally:
        browser.close()


if __name__ == "__main__":
    if not shutil.which("chromedriver"):
        print("no chromedriver: the pages were not opened in a browser")
        sys.exit(77)
    url, key, output = sys.argv[1:4]
    os.makedirs(output, exist_ok=True)
    edit_by_keyboard(url, key, output)
    use_without_scripts(url, key, output)
    look(url, key, output)
    print("the web administration works in a browser")
