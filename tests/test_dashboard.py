"""The dashboard, used in a real browser by mouse and keyboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from rolin.service.keys import Keys
from support.server import Server, served
from support.service import HEADERS, KEY

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys as Press  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

from support.browser import chromium, resize  # noqa: E402

pytestmark = pytest.mark.browser
WAIT = 30.0  # seconds: the machine may be busy
HOSTILE = [
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    '<b>bold</b> & <a href="javascript:window.hacked=1">link</a>',
    "long-" * 100,
    "\u202eright to left \u0645\u0631\u062d\u0628\u0627",
    "rocket 🚀",
    "%{x} ${1} &lt;i&gt;",
    "a/b?c#d %2F",
]


class Site(NamedTuple):
    """A service with some bandits."""

    url: str
    reader: str
    """A key that can only read."""
    http: httpx.Client
    server: Server

    def visit(self, bandit: str, arms: list[str], n: int, start: int = 0) -> None:
        """Make decisions, and report a reward for each."""
        for i in range(start, start + n, 50):
            asked = [
                {"id": f"{bandit}/{k}", "arms": [arms[(k + j) % len(arms)] for j in range(min(len(arms), 100))]}
                for k in range(i, min(i + 50, start + n))
            ]  # fmt: skip
            path = f"/v1/bandits/{bandit}"
            made = self.http.post(f"{path}/decisions/batch", json={"decisions": asked}).json()
            rewards = [
                {"decision": each["id"], "value": len(each["arm"]) % 3 / 2}
                for each in made["results"]
            ]
            self.http.post(f"{path}/rewards", json={"rewards": rewards})

    def read(self, bandit: str, rest: str = "") -> Any:
        """Return the JSON of an answer."""
        return self.http.get(f"/v1/bandits/{bandit}{rest}").raise_for_status().json()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with an empty bandit, one with three arms, one with 5000 and one with hostile names."""
    data = tmp_path_factory.mktemp("service")
    reader, _ = Keys(data).create("viewer", ["read"])
    with served(data) as server:
        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=url, headers=HEADERS, timeout=WAIT) as http:
            found = Site(url, reader, http, server)
            for name in ("three", "hostile", "many"):
                new = {"name": name, "settings": {"control_share": 0.2}}
                http.post("/v1/bandits", json=new).raise_for_status()
            found.visit("three", ["red", "green", "blue"], 300)
            found.visit("hostile", HOSTILE, 200)
            found.visit("many", [f"product-{i:04}" for i in range(5000)], 5000)
            yield found


@pytest.fixture(autouse=True)
def server_log(site: Site) -> Iterator[None]:
    """Print what the service logs during a test; it is shown if the test fails."""
    before = len(site.server.log())
    yield
    print(site.server.log()[before:])


@pytest.fixture
def page() -> Iterator[Any]:
    """A browser."""
    with chromium() as driver:
        yield driver


def until(what: Callable[[], Any], seconds: float = WAIT) -> Any:
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
    return found


def one(page: Any, selector: str) -> Any:
    """Return the first element of a selector."""
    return page.find_element("css selector", selector)


def sign_in(page: Any, site: Site, bandit: str, key: str = KEY) -> None:
    """Enter a key, and wait for the bandit."""
    page.get(f"{site.url}/dashboard#/{bandit}")
    one(page, "#key").send_keys(key, Press.ENTER)
    until(lambda: seen(page) > 0)


def seen(page: Any) -> int:
    """Return how often the page has shown new numbers."""
    return int(page.execute_script("return document.getElementById('dashboard').dataset.seen ?? 0"))


def tile(page: Any, name: str) -> str:
    """Return the number of a tile."""
    return str(
        page.execute_script(
            "return [...document.querySelectorAll('.tile')].find(t => t.querySelector('dt').textContent === arguments[0])"
            ".querySelector('dd').textContent",
            name,
        )
    )


def button(page: Any, text: str, within: str = "body") -> Any:
    """Return the visible button that begins with a text."""
    for each in page.find_elements("css selector", f"{within} button"):
        if each.is_displayed() and each.text.strip(" ●◐■").startswith(text):
            return each
    raise AssertionError(f"there is no button {text!r}")


def no_errors(page: Any) -> None:
    """Check that the console is empty: no exception, no blocked script or style."""
    assert page.get_log("browser") == []


def test_nothing_is_shown_without_a_key(page: Any, site: Site) -> None:
    """Not even the names of bandits are asked for; a wrong key gets a clear message."""
    page.get(f"{site.url}/dashboard")
    until(lambda: one(page, "#sign-in").is_displayed())
    text = one(page, "body").text
    assert "Enter an API key" in text
    assert not any(name in text for name in ("three", "hostile", "default"))
    asked = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert not [url for url in asked if "/v1/" in url]
    no_errors(page)
    one(page, "#key").send_keys("rk_wrong", Press.ENTER)
    until(lambda: one(page, "#key-error").text == "This key is not valid.")
    assert "three" not in one(page, "body").text
    page.get_log("browser")  # the browser notes the status 401
    one(page, "#key").clear()
    one(page, "#key").send_keys(KEY, Press.ENTER)
    until(lambda: seen(page) > 0)
    assert KEY not in page.current_url
    button(page, "Sign out").click()
    assert "three" not in one(page, "body").text
    assert page.execute_script("return sessionStorage.length") == 0
    no_errors(page)


def test_numbers_agree_with_the_api(page: Any, site: Site) -> None:
    """Tiles, lift, arms, recent decisions and promises."""
    sign_in(page, site, "three")
    summary, lift = site.read("three", "/summary?range=15m"), site.read("three", "/lift")
    assert tile(page, "Decisions") == str(sum(summary["decisions"].values()))
    assert tile(page, "Mean reward") == f"{summary['mean_reward']['policy']:.3f}"
    assert tile(page, "Arms") == "3"
    gain = f"{lift['gain']:+.3f}".replace("-", "−")
    assert tile(page, "Lift") == gain
    text = one(page, "main").text
    assert f"effective sample size {lift['effective_n_policy']:.0f}" in text
    assert "not causal" in text
    rows = page.find_elements("css selector", ".arms tbody tr")
    expected = site.read("three", "/estimates")["arms"]
    assert [row.find_element("tag name", "th").text for row in rows] == [
        each["arm"] for each in expected
    ]
    for row, each in zip(rows, expected, strict=True):
        shown = row.find_element("css selector", ".with-interval").text.split()[0]
        decimals = len(shown.partition(".")[2])
        assert shown == f"{each['mean']:.{decimals}f}".replace("-", "−")
        assert f"{each['shrinkage']:.2f}" in row.text
        assert f"{each['pulls']:.0f}" in row.text
    for promise in summary["promises"]:
        assert promise["name"] in text
    newest = site.read("three", "/decisions?last=12")["decisions"]
    recent = page.find_elements("css selector", ".decisions tbody th")
    assert [each.text for each in recent] == [each["arm"] for each in newest]
    bars = page.execute_script(
        "return document.querySelectorAll('.chart')[0].data.flatMap(t => t.y).reduce((a, b) => a + b)"
    )
    assert bars == 300
    until(lambda: "Do the features miss something" in one(page, "main").text)
    no_errors(page)


def test_it_is_live_and_can_be_paused(page: Any, site: Site) -> None:
    """New decisions appear without a reload, unless it is paused or its tab is hidden."""
    site.http.post("/v1/bandits", json={"name": "live"})
    sign_in(page, site, "live")
    assert "No decisions yet" in one(page, "main").text
    page.execute_script("window.same = true")
    site.visit("live", ["x", "y"], 30)
    until(lambda: tile(page, "Decisions") == "30")
    assert "visit-1" not in one(page, "main").text  # the instructions are gone
    button(page, "Live").click()
    until(lambda: one(page, "#live").text.endswith("Paused"))
    time.sleep(1.0)  # for an answer that is on its way
    site.visit("live", ["x", "y"], 20, start=30)
    count = seen(page)
    time.sleep(4.0)
    assert (seen(page), tile(page, "Decisions")) == (count, "30")
    one(page, "#live").click()
    until(lambda: tile(page, "Decisions") == "50")
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    page.execute_script(hide + "document.dispatchEvent(new Event('visibilitychange'))", True)
    time.sleep(1.0)
    count = seen(page)
    time.sleep(4.0)
    assert seen(page) == count
    page.execute_script(hide + "document.dispatchEvent(new Event('visibilitychange'))", False)
    until(lambda: seen(page) > count)
    # Bandits come and go, too.
    site.http.post("/v1/bandits", json={"name": "later"})
    until(lambda: "later" in one(page, "#bandit").text)
    Select(one(page, "#bandit")).select_by_value("later")
    until(lambda: page.title == "later · rolin")
    no_errors(page)
    site.http.delete("/v1/bandits/later")
    until(lambda: page.title != "later · rolin")
    assert page.execute_script("return window.same")


def test_hostile_names_are_only_shown(page: Any, site: Site) -> None:
    """In the table, the legend, labels of charts and dialogs; nothing of them runs, and nothing becomes an element."""
    sign_in(page, site, "hostile")
    shown = [each.text for each in page.find_elements("css selector", ".arms tbody th")]
    for name in HOSTILE:
        assert any(
            text.rstrip("…") and name.strip().startswith(text.rstrip("…")) for text in shown
        ), (name, shown)
    page.execute_script(
        "const chart = document.querySelectorAll('.chart')[2];"
        "const at = chart.data[0].y.findIndex((share) => share !== null);"
        "Plotly.Fx.hover(chart, chart.data.map((_, i) => ({curveNumber: i, pointNumber: at})));"
    )
    labels = page.execute_script(
        "return [...document.querySelectorAll('.hoverlayer text')].map(t => t.textContent).join('|')"
    )
    for arm in HOSTILE[:3]:
        rows = page.find_elements("css selector", ".arms tbody tr")
        row = next(each for each in rows if each.text.startswith(arm[:20]))
        row.find_element("css selector", "button").click()
        until(lambda: one(page, "dialog").is_displayed())
        assert arm[:20] in one(page, "#dialog-title").text
        one(page, "dialog").send_keys(Press.ESCAPE)
        until(lambda: not one(page, "dialog").is_displayed())
    assert page.execute_script("return window.hacked") is None
    made = "#dashboard img, #dashboard script, #dashboard b, #dashboard a[href^='javascript']"
    assert page.find_elements("css selector", made) == []
    names = site.read("hostile", "/summary?range=15m")["over_time"]["traffic"]
    for each in names[:-1]:  # the last one is all others
        assert each["arm"][:12].replace("\u202e", "") in labels.replace("\u202e", ""), labels
    assert "&lt;i&gt;" in labels or "%{x}" not in labels  # escaped once, and shown as it is
    no_errors(page)
    # Even if something were inserted, the browser would not run it.
    page.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", HOSTILE[0])
    time.sleep(0.5)
    assert page.execute_script("return window.hacked") is None


def test_actions_work(page: Any, site: Site) -> None:
    """Modes, shares, the floor, and removing and restoring an arm; each is asked for before."""
    site.http.post("/v1/bandits", json={"name": "acted"})
    site.visit("acted", ["a/1", "b"], 60)
    sign_in(page, site, "acted")

    def settings() -> Any:
        return site.read("acted")["settings"]

    for mode, action in (
        ("apprentice", "Make it an apprentice"), ("stopped", "Stop it"), ("online", "Go online")
    ):  # fmt: skip
        one(page, f".modes [data-mode={mode}]").click()
        assert settings()["mode"] != mode  # not before it is confirmed
        button(page, action, "dialog").click()
        until(lambda mode=mode: settings()["mode"] == mode)
        until(
            lambda mode=mode: (
                one(page, f".modes [data-mode={mode}]").get_attribute("aria-pressed") == "true"
            )
        )
    for name, percent, value in (("share", "50", 0.5), ("control_share", "12.5", 0.125), ("floor", "2", 0.02)):  # fmt: skip
        field = one(page, f"#set-{name}")
        field.clear()
        field.send_keys(percent, Press.ENTER)
        button(page, "Change it", "dialog").click()
        until(lambda name=name, value=value: settings()[name] == value)
    field = one(page, "#set-floor")
    field.clear()
    field.send_keys("40", Press.ENTER)
    button(page, "Change it", "dialog").click()
    until(lambda: not one(page, "dialog").is_displayed())
    assert settings()["floor"] == 0.4
    for action, removed in (("Remove", True), ("Restore", False)):
        one(page, "#arm-search").clear()
        one(page, "#arm-search").send_keys("a/1")
        until(lambda: len(page.find_elements("css selector", ".arms tbody tr")) == 1)
        button(page, action, ".arms").click()
        button(page, f"{action} it", "dialog").click()
        until(lambda: not one(page, "dialog").is_displayed())
        found = site.read("acted", "/estimates?search=a/1")["arms"]
        assert [each["removed"] for each in found] == [removed]
        until(lambda removed=removed: ("removed" in one(page, ".arms").text) == removed)
    no_errors(page)


def test_a_key_that_only_reads_cannot_act(page: Any, site: Site) -> None:
    """The page says so before, and the service refuses it."""
    sign_in(page, site, "three", site.reader)
    assert "This key can only read" in one(page, "main").text
    one(page, ".modes [data-mode=stopped]").click()
    button(page, "Stop it", "dialog").click()
    until(lambda: "has no scope 'admin'" in one(page, "dialog .error").text)
    assert "enter a key with the scope admin" in one(page, "dialog .error").text
    assert site.read("three")["settings"]["mode"] == "online"


def test_it_is_used_by_keyboard(page: Any, site: Site) -> None:
    """Every control can be reached and has a visible focus; Esc closes a dialog, and the focus returns."""
    sign_in(page, site, "three")

    def press(*keys: str) -> None:
        ActionChains(page).send_keys(*keys).perform()

    def focused() -> Any:
        return page.switch_to.active_element

    page.execute_script("document.querySelector('.skip').focus()")
    reached = [focused().text]
    for _ in range(60):
        press(Press.TAB)
        outline = page.execute_script(
            "return getComputedStyle(document.activeElement).outlineStyle"
        )
        tag = focused().tag_name
        if tag == "body":
            break
        assert outline != "none", focused().get_attribute("outerHTML")
        reached.append(focused().get_attribute("id") or focused().text)
    for name in ("Skip to the content", "bandit", "15 min", "live", "API", "■ Stopped", "set-floor", "arm-search"):  # fmt: skip
        assert name in reached, (name, reached)
    sort = button(page, "Posterior mean", ".arms")
    sort.send_keys(Press.ENTER)
    head = one(page, ".arms th:nth-child(3)")
    until(lambda: head.get_attribute("aria-sort") == "descending")
    sort.send_keys(Press.SPACE)
    until(lambda: head.get_attribute("aria-sort") == "ascending")
    stop = one(page, ".modes [data-mode=stopped]")
    stop.send_keys(Press.ENTER)
    assert focused().text == "Cancel"
    press(Press.ESCAPE)
    until(lambda: not one(page, "dialog").is_displayed())
    assert focused() == stop
    assert site.read("three")["settings"]["mode"] == "online"


def test_everything_has_a_name(page: Any, site: Site) -> None:
    """Screen readers find a name for every control, chart and image."""
    sign_in(page, site, "three")
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {
        "button",
        "textbox",
        "searchbox",
        "spinbutton",
        "combobox",
        "link",
        "img",
        "image",
        "dialog",
    }
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and node["role"]["value"] in roles
    ]
    assert len(nodes) > 20
    assert [node for node in nodes if not node[1]] == []
    assert any(
        role in ("img", "image") and name.startswith("Decisions per") for role, name in nodes
    )


def test_five_thousand_arms(page: Any, site: Site) -> None:
    """They are shown in pages, and found by name."""
    sign_in(page, site, "many")
    until(lambda: tile(page, "Arms") == "5,000")  # the journal is read in slices
    until(lambda: "1 to 25 of 5,000 arms" in one(page, "main").text)
    assert len(page.find_elements("css selector", ".arms tbody tr")) == 25
    button(page, "Next").click()
    until(lambda: "26 to 50 of 5,000 arms" in one(page, "main").text)
    one(page, "#arm-search").send_keys("T-4999")
    until(lambda: "1 to 1 of 1 arms" in one(page, "main").text)
    assert one(page, ".arms tbody th").text == "product-4999"
    no_errors(page)


def test_a_decision_is_explained(page: Any, site: Site) -> None:
    """With the numbers of the API."""
    sign_in(page, site, "three")
    Select(one(page, "#decision-outcome")).select_by_value("reward")
    time.sleep(1.0)
    explain = one(page, ".decisions tbody button")
    id = explain.get_attribute("data-id")
    explain.click()
    until(lambda: "The model expected" in one(page, "dialog").text)
    found = site.read("three", f"/decisions/{id}/explanation")
    shown = one(page, "dialog strong").text.split()[0]
    decimals = len(shown.partition(".")[2])
    assert shown == f"{found['mean']:.{decimals}f}".replace("-", "−")
    assert "the arm's own effect" in one(page, "dialog").text
    no_errors(page)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone(site: Site, dark: bool) -> None:
    """Nothing is wider than the screen, and the colors follow the system."""
    with chromium(390, 844, dark=dark) as page:
        for bandit in ("hostile", "many", "default"):
            page.get("about:blank")
            page.get(f"{site.url}/dashboard#/{bandit}")
            if one(page, "#sign-in").is_displayed():
                one(page, "#key").send_keys(KEY, Press.ENTER)
            until(lambda: seen(page) > 0)
            resize(page, 390, 844)
            assert page.execute_script("return document.documentElement.scrollWidth") <= 390
        back = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        red = int(back.split("(")[1].split(",")[0])
        assert (red < 60) == dark
        no_errors(page)


def test_a_service_that_is_gone_is_noticed(page: Any, tmp_path: Path) -> None:
    """What is shown stays, and the page says that it may be old."""
    with served(tmp_path) as server:
        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=url, headers=HEADERS, timeout=WAIT) as http:
            sign_in(page, Site(url, "", http, server), "default")
        server.kill()
        until(lambda: "The service does not answer" in one(page, "#notice").text)
        assert tile(page, "Decisions") == "0"
