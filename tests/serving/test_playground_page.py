"""The playground in a real browser, against a real server. Nothing here looks inside: it clicks, types and reads."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.serving.processes import serve

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
QUESTION = "Start with 9, add 12, subtract 5. What is the result?"
ANSWER = re.compile("#### 16")
LONG = {"rule": "low_confidence", "max_tokens": "900", "ignore_eos": "yes"}  # 900 forwards

pytestmark = pytest.mark.skipif(not CHROMIUM.is_file(), reason=f"no browser at {CHROMIUM}; apt-get install chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as api, tempfile.TemporaryDirectory() as directory:
        yield api.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split(), env={"HOME": directory})


class Visit:
    """A page in a profile of its own; what it complains of and what it loads is written down."""

    def __init__(self, browser, url: str, pace: str = "live", **options) -> None:
        self.context = browser.new_context(**options)
        self.context.add_init_script(f"localStorage['unmask.playground.1.pace'] ??= '{json.dumps(pace)}'")
        self.context.set_default_timeout(15_000)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.url = url
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type != "log" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)

    def set(self, lane: str = "A", **settings: str) -> None:
        for name, value in settings.items():
            field = self.page.locator(f"#{lane}-{name}")
            field.select_option(value) if name in ("rule", "cache", "score", "ignore_eos") else field.fill(value)

    def ask(self, prompt: str = QUESTION, **settings: str) -> None:
        self.page.get_by_label("Prompt").fill(prompt)
        self.set(**settings)
        self.page.get_by_role("button", name="Generate").click()

    def done(self, count: int = 1) -> None:
        expect(self.page.locator(".report")).to_have_count(count, timeout=15_000)

    def cells(self, kind: str = "", lane: int = 0) -> int:
        return self.page.locator(".lane").nth(lane).locator(f".cell{kind}").count()

    @property
    def slider(self):
        return self.page.get_by_role("slider", name="Step")

    @property
    def step(self) -> int:
        return int(self.slider.input_value())

    @property
    def last(self) -> int:
        return int(self.slider.get_attribute("max"))


@pytest.fixture
def visit(browser, server):
    """Opens the page; afterwards it must have said nothing and asked nobody else."""
    visits = []

    def opened(**options) -> Visit:
        visits.append(Visit(browser, f"{server.url}/", **options))
        return visits[-1]

    yield opened
    for one in visits:
        one.context.close()
        assert all(url.startswith(one.url) for url in one.requests)
        assert one.complaints == []


def test_an_answer_comes_out_of_the_masks(visit):
    here = visit()
    here.ask(rule="low_confidence", max_tokens="64")
    expect(here.page.locator(".lane .cell").first).to_be_visible()
    here.done()
    expect(here.page.locator(".answer")).to_have_text(ANSWER)
    expect(here.page.get_by_role("status").first).to_contain_text("Done")
    report = here.page.locator(".report").inner_text()
    forwards = int(re.search(r"(\d+)\s+forwards", report)[1])
    tokens = int(re.search(r"(\d+)\ntokens\n", report)[1])
    assert f"{tokens / forwards:.2f}\ntokens per forward" in report
    assert here.last == forwards
    assert here.page.get_by_label(re.compile("^Canvas after")).count() == 1


def test_frames_are_seen_to_change(visit):
    here = visit()
    here.ask(**LONG)
    seen = set()
    for _ in range(200):
        seen.add(here.page.locator(".canvas").first.get_attribute("aria-label"))
        if len(seen) > 5:
            break
        here.page.wait_for_timeout(50)
    assert len(seen) > 5
    expect(here.page.locator(".tail")).to_contain_text("not begun")
    here.page.get_by_role("button", name="Stop").click()


def test_every_step_can_be_gone_back_to(visit):
    here = visit()
    here.ask(rule="low_confidence", max_tokens="32", steps="8")
    here.done()
    expect(here.page.locator(".controls .step")).to_have_text(f"forward {here.last} of {here.last}")
    decided = []
    for step in range(here.last + 1):
        here.slider.fill(str(step))
        expect(here.page.locator(".controls .step")).to_have_text(f"forward {step} of {here.last}")
        decided.append(here.cells(".decided") + here.cells(".final"))
        assert (here.cells(".fresh-0") > 0) == (step > 0)
        assert here.cells(".tentative") == 0 or step > 0
    assert decided[0] == 0
    assert decided == sorted(set(decided)), "each forward decides something"
    assert decided[-1] == here.cells()
    first = here.page.locator(".cell").first
    assert "sure" in first.get_attribute("title")


def test_steps_between_frames_are_those_that_frames_would_have_shown(visit):
    """Of a run's frames every second one is dropped: what the page makes up for them must be what they say."""
    here = visit()
    compared = here.page.evaluate(
        """async (body) => {
          const { Film, MASKED, TENTATIVE } = await import("/playground/film.js");
          const { stream } = await import("/playground/api.js");
          const whole = new Film(), half = new Film(), last = [];
          await stream(body, undefined, (chunk) => chunk.unmask?.canvas && last.push(chunk.unmask.canvas));
          last.forEach((frame, at) => { whole.add(frame); if (at % 2 || at === last.length - 1) half.add(frame); });
          const state = ({ cells }) => cells.map(({ text, state, age }) =>
            state === MASKED || state === TENTATIVE ? null : [text, age]);
          const trim = (cells) => cells.slice(0, cells.findLastIndex((cell) => cell !== null) + 1);
          return last.map(({ step }) => [trim(state(whole.at(step))), trim(state(half.at(step)))]);
        }""",
        {
            "messages": [{"role": "user", "content": "Count from 1 to 15."}],
            "max_tokens": 160,
            "ignore_eos": True,
            "stream": True,
            "unmask": {"rule": "low_confidence", "canvas": "frames"},
        },
    )
    assert len(compared) > 4
    assert all(whole == half for whole, half in compared)


def test_a_run_is_played_again(visit):
    here = visit(pace="2")
    button = here.page.get_by_role
    here.ask(rule="low_confidence", max_tokens="32", steps="8")
    here.done()
    button("button", name="Last step").click()
    expect(button("button", name="Play")).to_be_visible()
    assert here.step == here.last
    button("button", name="Play").click()
    button("button", name="Pause").click()
    expect(button("button", name="Play")).to_be_visible()
    step = here.step
    here.page.wait_for_timeout(600)
    assert here.step == step < here.last
    here.page.get_by_label("Pace").select_option("20")
    button("button", name="Play").click()
    expect(here.page.locator(".controls .step")).to_have_text(f"forward {here.last} of {here.last}")
    expect(button("button", name="Play")).to_be_visible()
    button("button", name="First step").click()
    expect(here.page.locator(".controls .step")).to_have_text(f"forward 0 of {here.last}")


def test_two_settings_side_by_side(visit):
    here = visit()
    here.page.get_by_label("Compare two settings").check()
    here.page.locator("#B-max_tokens").fill("64")
    here.page.locator("#B-rule").select_option("saber")
    here.ask(max_tokens="64")
    here.done(2)
    texts = here.page.locator(".answer").all_inner_texts()
    assert len(texts) == 2
    assert all(ANSWER.search(text) for text in texts)
    forwards = [
        int(found)
        for found in re.findall(r"(\d+)\s+forwards", " ".join(here.page.locator(".report").all_inner_texts()))
    ]
    assert here.last == max(forwards) > min(forwards)
    here.slider.fill(str(min(forwards)))
    assert here.cells(".masked", lane=1) + here.cells(".tentative", lane=1) > 0
    assert here.page.locator(".bars").count() == 2
    assert here.page.locator(".lane .summary").all_inner_texts() == ["threshold, max tokens 64", "saber, max tokens 64"]


def test_a_stopped_run_leaves_the_engine(visit, server):
    here = visit()
    here.ask(**LONG)
    expect(here.page.locator(".lane .cell").first).to_be_visible()
    here.page.get_by_role("button", name="Stop").click()
    expect(here.page.locator(".lane .state")).to_have_text("stopped")
    expect(here.page.get_by_role("button", name="Generate")).to_be_focused()
    running = "fetch('/metrics').then(r => r.text()).then(t => /unmask_requests_running\\S* 0/.test(t))"
    here.page.wait_for_function(running, timeout=5000)
    here.slider.fill("1")
    assert here.cells(".fresh-0") > 0


def test_an_error_says_what_to_do_at_its_field(visit):
    here = visit()
    here.ask(threshold="7")
    problem = here.page.get_by_role("alert")
    expect(problem).to_contain_text("'threshold' is 7.0; it must be a number from 0 to 1.")
    expect(problem).to_contain_text("invalid_value")
    assert here.page.get_by_label("Threshold", exact=True).get_attribute("aria-invalid") == "true"
    here.set(threshold="0.8")
    here.page.get_by_role("button", name="Generate").click()
    here.done()
    assert here.page.get_by_label("Threshold", exact=True).get_attribute("aria-invalid") is None
    assert [text for text in here.complaints if "400" in text]
    here.complaints.clear()  # the browser's own note of the 400


def test_prompt_and_settings_outlive_a_reload(visit):
    here = visit()
    here.page.get_by_label("Prompt").fill("Spell: ocean")
    here.page.locator("summary", has_text="System text").click()
    here.page.get_by_label("System text", exact=True).fill("Be brief.")
    here.set(rule="factor", factor="2", seed="5")
    here.page.get_by_role("button", name="Colours: auto").click()
    here.page.reload()
    expect(here.page.get_by_label("Prompt")).to_have_value("Spell: ocean")
    expect(here.page.get_by_label("System text", exact=True)).to_have_value("Be brief.")
    expect(here.page.get_by_label("Factor")).to_have_value("2")
    expect(here.page.get_by_label("Seed")).to_have_value("5")
    assert here.page.locator("html").get_attribute("data-theme") == "light"
    here.page.get_by_role("button", name="Generate").click()
    here.done()
    here.page.get_by_role("button", name="Follow up").click()
    expect(here.page.get_by_label("Conversation so far").get_by_role("listitem")).to_have_count(2)
    expect(here.page.get_by_label("Prompt")).to_be_focused()


def test_colours_follow_the_system_and_the_button(visit):
    here = visit(color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = here.page.evaluate(paper)
    here.page.emulate_media(color_scheme="light")
    light = here.page.evaluate(paper)
    assert dark != light
    here.page.get_by_role("button", name="Colours: auto").click()
    here.page.get_by_role("button", name="Colours: light").click()
    assert here.page.evaluate(paper) == dark


def test_it_fits_a_phone(visit):
    here = visit(viewport={"width": 360, "height": 740})
    expect(here.page.locator(".settings")).to_be_hidden()
    here.page.locator("summary", has_text="Settings").click()
    here.ask(rule="low_confidence", max_tokens="48")
    here.done()
    width = here.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    assert here.page.evaluate("window.scrollY") > 0, "the canvas comes into sight"
    for cell in here.page.locator(".lane .cell").all()[:16]:
        assert cell.bounding_box()["width"] > 40
    expect(here.slider).to_be_in_viewport()


def test_everything_is_within_reach_of_the_keyboard(visit):
    here = visit(pace="gentle")
    here.set(rule="low_confidence", max_tokens="32")
    here.page.locator("h1").click()
    focused = "document.activeElement.id || document.activeElement.ariaLabel || document.activeElement.innerText"
    stops = []
    while "prompt" not in stops:
        here.page.keyboard.press("Tab")
        stops.append(here.page.evaluate(focused))
        assert len(stops) < 8
    here.page.keyboard.press("Control+A")
    here.page.keyboard.type("Count from 1 to 15.")
    here.page.keyboard.press("Control+Enter")
    here.done()
    expect(here.page.locator(".answer")).to_contain_text("15")
    while stops[-1] != "Step":
        here.page.keyboard.press("Tab")
        stops.append(here.page.evaluate(focused))
        assert len(stops) < 60
    order = [stops.index(name) for name in ("prompt", "Generate", "A-rule", "A-max_tokens", "Step")]
    assert order == sorted(order)
    here.page.keyboard.press("End")
    assert here.step == here.last
    here.page.keyboard.press("ArrowLeft")
    assert here.step == here.last - 1
    here.page.keyboard.press("Home")
    assert here.step == 0
    for _ in range(2):
        here.page.keyboard.press("Tab")
    assert here.page.evaluate(focused) == "Play"
    here.page.keyboard.press("Space")
    expect(here.page.get_by_role("button", name="Pause")).to_be_focused()


def test_escape_stops(visit):
    here = visit()
    here.ask(**LONG)
    expect(here.page.locator(".lane .cell").first).to_be_visible()
    here.page.keyboard.press("Escape")
    expect(here.page.locator(".lane .state")).to_have_text("stopped")


def test_who_wants_no_motion_gets_none(visit):
    here = visit(pace="2", reduced_motion="reduce")
    here.ask(rule="low_confidence", max_tokens="32", steps="8")
    here.done()
    here.page.wait_for_timeout(500)  # less than a step at this pace
    assert here.step == here.last


def test_the_copied_request_gives_the_same_answer(visit, server, tmp_path):
    here = visit(permissions=["clipboard-read", "clipboard-write"])
    here.ask("Who's there? Spell: ocean", rule="low_confidence", max_tokens="24", seed="3")
    here.done()
    expected = here.page.locator(".answer").inner_text()
    here.page.locator("summary", has_text="As code").click()
    for language, command in [("curl", ["bash"]), ("Python", [sys.executable, "-"])]:
        here.page.get_by_role("button", name=f"Copy as {language}").click()
        expect(here.page.locator(".code [role=status]")).to_have_text(f"Copied as {language}")
        snippet = here.page.evaluate("navigator.clipboard.readText()")
        ran = subprocess.run(command, input=snippet, capture_output=True, text=True, check=True, timeout=60)
        said = json.loads(ran.stdout)["choices"][0]["message"]["content"] if language == "curl" else ran.stdout
        assert said.strip() == expected.strip()


def test_a_server_with_a_key_and_one_that_goes_away(browser):
    with serve("--api-key", "secret") as server:
        here = Visit(browser, f"{server.url}/")
        form = here.page.get_by_label("API key")
        form.fill("wrong")
        form.press("Enter")
        expect(here.page.get_by_role("alert")).to_contain_text("Incorrect API key")
        form.fill("secret")
        form.press("Enter")
        expect(here.page.locator(".card")).to_contain_text("unmask-tiny")
        assert "secret" not in here.page.evaluate("JSON.stringify({...localStorage})")
        here.ask()
        here.done()
        here.page.locator("summary", has_text="As code").click()
        snippet = here.page.get_by_label("curl", exact=True).inner_text()
        assert "$UNMASK_API_KEY" in snippet
        assert "secret" not in snippet
        here.ask(**LONG)
        expect(here.page.locator(".lane .cell").first).to_be_visible()
        server.stop(signal.SIGKILL)
        expect(here.page.get_by_role("alert")).to_contain_text("The connection broke")
        here.page.get_by_role("button", name="Generate").click()
        expect(here.page.get_by_role("alert")).to_contain_text("The server cannot be reached")
        here.context.close()
