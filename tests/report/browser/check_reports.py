"""Opens planted reports in a headless Chromium: every chart has marks, nothing complains, hovering shows values, sliders and
tabs work by keyboard, and a phone does not scroll sideways. Usage: check_reports.py WRITE_PLANTED_REPORT [SCREENSHOT_FOLDER].
Status: 0 all holds, 1 something does not, 77 there is no Chromium."""

import base64
import pathlib
import subprocess
import sys
import tempfile

import browser

LIMIT = 200  # seconds; about ten are used
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


# Marks that hold data, by chart of the section that is shown.
MARKS = """[...document.querySelectorAll('section:not([hidden]) .view')].map((view) => ({
  title: view.closest('article').id,
  marks: view.querySelectorAll('.cell path, .bar path, .curve path, .points path').length,
  drawn: [...view.querySelectorAll('.cell path, .bar path, .curve path, .points path')].filter((p) => p.getBoundingClientRect().width > 0).length
}))"""


def check_sections(page, expected, screenshots, name, width):
    """Goes through all tabs by keyboard; `expected` has the number of charts of each section."""
    page.evaluate("document.querySelector('[role=tab]').focus()")
    for number, (section, charts) in enumerate(expected):
        if number > 0:
            page.press("ArrowRight")
        expect(page.evaluate("document.querySelector('section:not([hidden])').id") == section, "the arrow leads to " + section)
        found = page.evaluate(MARKS)
        expect(len(found) == charts, "%s: %d charts in %s, expected %d" % (name, len(found), section, charts))
        for chart in found:
            expect(chart["drawn"] > 0, "%s: %s has marks (%s)" % (name, chart["title"], chart))
        if section in ("overview", "configuration"):
            expect(page.evaluate("document.querySelectorAll('section:not([hidden]) td').length") > 3, section + " has a table")
        expect(page.evaluate("document.documentElement.scrollWidth") <= width,
               "%s: %s does not scroll sideways" % (name, section))
        if screenshots:
            size = page.call("Page.getLayoutMetrics")["cssContentSize"]
            shot = page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                             clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1})
            (screenshots / ("%s-%s.png" % (name, section))).write_bytes(base64.b64decode(shot["data"]))


def hover(page, section, selector):
    """The tooltip over the middle of an element."""
    page.evaluate("document.getElementById('tab-%s').click()" % section)
    place = page.evaluate("""(() => { const e = document.querySelector(%r); e.scrollIntoView({block: 'center'});
      const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()""" % selector)
    page.move(place[0] - 3, place[1])
    page.move(place[0], place[1])
    page.wait_for("!document.getElementById('tip').hidden")
    return page.evaluate("document.getElementById('tip').innerText")


def check_hovering(page):
    text = hover(page, "routing", "#entropy .cell path")
    expect("loop 1, layer 0" in text and "entropy of the load" in text, "a cell says its loop, layer and value: " + text)
    text = hover(page, "training", "#loss .cover path")
    expect("step " in text and "nine loops: " in text and " to " in text, "a curve says its step, run and range: " + text)
    text = hover(page, "memory", "#memory .bar path")
    expect("weights" in text and "peak: 105M" in text, "a bar says its purpose and bytes: " + text)
    text = hover(page, "probe", "#skipped-blocks .cell path")
    expect("\u00b1 0.01" in text, "an effect has its standard error: " + text)
    page.move(1, 1)


def check_slider(page):
    """The slider of the load starts at the end; Home takes it to the start, where all experts took as much."""
    page.evaluate("document.getElementById('tab-routing').click()")
    fills = "[...document.querySelectorAll('#load .cell path')].map((p) => p.getAttribute('fill')).join()"
    before, slider = page.evaluate(fills), "document.querySelector('#load input[type=range]')"
    page.evaluate(slider + ".focus()")
    page.press("Home")
    page.wait_for("%s !== %r" % (fills, before))
    at_start = page.evaluate(fills)
    text = page.evaluate(slider + ".getAttribute('aria-valuetext')")
    expect(text.startswith("steps 1 to "), "the slider names its steps: " + text)
    page.press("ArrowRight")
    page.wait_for("%s !== %r" % (fills, at_start))
    page.evaluate("document.querySelector('#load details').open = true")
    page.wait_for("document.querySelectorAll('#load details tr').length === 270")


def main():
    program = browser.find()
    if program is None:
        print("skipped: there is no Chromium (Debian package chromium)")
        return 77
    screenshots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        page = browser.Page(program, LIMIT)
        try:
            one = [("overview", 0), ("training", 5), ("routing", 7), ("states", 6), ("probe", 12), ("memory", 1),
                   ("configuration", 0)]
            several = [("overview", 0), ("training", 5), ("routing", 14), ("states", 14), ("probe", 12), ("memory", 1),
                       ("configuration", 0)]
            page.open(folder + "/one.html")
            check_sections(page, one, screenshots, "one", 1280)
            check_hovering(page)
            check_slider(page)
            page.open(folder + "/one.html", width=390, height=844)
            check_sections(page, one, screenshots, "phone", 390)
            page.open(folder + "/several.html", dark=True)
            check_sections(page, several, screenshots, "several", 1280)
            expect(page.evaluate("document.querySelectorAll('img').length") == 0, "a run's name is text")
            expect("<img" in page.evaluate("document.body.innerText"), "and stands there as it is")
        finally:
            page.close()
            expect(not page.messages, "the console is silent:\n  " + "\n  ".join(page.messages))
    print("failed" if failures else "all charts are drawn")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
