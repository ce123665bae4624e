#!/usr/bin/env python3
"""Opens the pages that `tribunal report` writes in a headless Chromium and uses them: clicks, keys, filters, folded
conversations, 100,000 segments, a hostile text, Hebrew and Japanese, light, dark and print, three systems side by side, three thousand, a judge
whose means rank no systems, a narrow screen. Standard library only.

    scripts/report_test.py [--shots DIR] [--tribunal PATH]

Says so and passes where there is no Chromium (set CHROMIUM to name one). With --shots, the screenshots stay there.
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = "<script>document.body.dataset.owned='yes'</script><img src=x onerror=\"document.body.dataset.owned='yes'\">"


def chromium():
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Browser:
    """A page of a headless Chromium, spoken to over its DevTools pipe."""

    def __init__(self, path, profile):
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()

        def pipes():
            os.dup2(to_browser, 13)
            os.dup2(from_browser, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [path, *arguments, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        self.requests, self.errors = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.size(1280, 860)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.from_browser, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(event["params"]["exceptionDetails"].get("exception", {}).get("description", "?"))

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, path, place=""):
        self.requests.clear()
        self.call("Page.navigate", url=Path(path).as_uri() + place)
        self.wait("document.body && document.body.dataset.ready === 'true'", 60)

    def run(self, code):
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {condition}")
            time.sleep(0.03)

    def click(self, selector):
        place = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            " e.scrollIntoView({block: 'center'}); const r = e.getClientRects()[0];"
            " return r ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()"
        )
        assert place, f"nothing to click at {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, key, text=None):
        codes = {"Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36, "Enter": 13}
        known = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key.upper()[0]))}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text if text is not None else (key if len(key) == 1 else ""), **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(20)


def error(text, span, category, severity, side="target", explanation=None):
    start = text.find(span)
    return {
        "span": span, "side": side, "start": start if start >= 0 else None,
        "end": start + len(span) if start >= 0 else None, "ambiguous": False, "category": category,
        "severity": severity, "weight": {"critical": 5.0, "major": 5.0, "minor": 1.0, "neutral": 0.0}[severity],
        "explanation": explanation, "confidence": None,
    }


def verdict(pair, system, doc, seg, source, hypothesis, errors, status="ok", reason=None):
    score = -sum(e["weight"] for e in errors) + 0.0 if status == "ok" else None
    return {
        "system": system, "doc": doc, "seg": seg, "src_lang": pair[0], "tgt_lang": pair[1], "source": source,
        "hypothesis": hypothesis, "score": score, "raw": score, "direction": "higher", "quality_score": None,
        "errors": errors, "status": status, "reason": reason, "n_calls": 1,
    }


def folder(path, verdicts, calls=(), signature=None, systems=()):
    path.mkdir(parents=True)
    run = {
        "format": 1, "short_signature": "",
        "signature": signature or {"method": "gemba-mqm", "model": "made-by-hand", "v": "0"}, "command": [], "shard": "1/1", "units": [],
        "systems": list(systems),
        "input": {"segments": len(verdicts), "systems": 2, "sha256": ""},
    }
    (path / "run.json").write_text(json.dumps(run))
    (path / "verdicts.jsonl").write_text("".join(json.dumps(v, ensure_ascii=False) + "\n" for v in verdicts))
    (path / "calls.jsonl").write_text("".join(json.dumps(c, ensure_ascii=False) + "\n" for c in calls))
    return path


def call(v, group, stage, text, reply):
    turns = [{"role": "system", "content": "You mark errors."}, {"role": "user", "content": text}]
    return {
        "group": str(group), "system": v["system"], "doc": v["doc"], "seg": v["seg"], "role": "annotator", "stage": stage,
        "prompt_sha256": "", "chat": {"turns": turns}, "reply": reply, "finish": "stop", "tokens": [1, 2],
        "pieces": [reply, ""], "logprobs": [0.0, 0.0],
        "sampling": {"temperature": 0.0, "top_p": 1.0, "seed": 0, "max_tokens": 1024, "stop": []},
        "usage": {"computed": 90, "cached": 10, "generated": 2, "forced": 0, "drafted": 0, "accepted": 0}, "seconds": 0.1,
    }


def small(root):
    """Two judges and two raters on Hebrew and Japanese, with a hostile text in every field."""
    ja = ("en", "ja")
    sources = ["The council voted on Tuesday to close the old bridge.", f"Engineers found cracks. {HOSTILE}", "It reopens in spring."]
    a = ["議会は火曜日に古い橋を閉鎖することを決議した。", f"技術者はひび割れを見つけた。{HOSTILE}", "春に再開する。"]
    b = ["議会は木曜日に古い橋を閉めることを投票しました。", "エンジニアは亀裂を見つけた。", ""]
    first = [verdict(ja, "alpha", "bridge", i, s, h, []) for i, (s, h) in enumerate(zip(sources, a))]
    first[1]["errors"] = [error(a[1], HOSTILE, f"accuracy/{HOSTILE}", "critical", explanation=HOSTILE)]
    first += [
        verdict(ja, "beta", "bridge", 0, sources[0], b[0], [
            error(b[0], "木曜日", "accuracy/mistranslation", "major", explanation="Tuesday is 火曜日."),
            error(b[0], "木曜日に古い橋", "style/awkward", "minor"),
            error(sources[0], "old", "accuracy/omission", "minor", side="source"),
        ]),
        verdict(ja, "beta", "bridge", 1, sources[1], b[1], []),
        verdict(ja, "beta", "bridge", 2, sources[2], b[2], [], "refused", "the answer is a refusal"),
    ]
    he = ("en", "he")
    hebrew = "המועצה הצביעה ביום שלישי לסגור את הגשר הישן."
    first.append(verdict(he, "alpha", "gesher", 0, sources[0], hebrew, [error(hebrew, "ביום שלישי", "accuracy/mistranslation", "major", explanation="נכון: יום רביעי")]))
    for v in first:
        for e in v["errors"]:
            v["score"] = v["raw"] = -sum(e["weight"] for e in v["errors"])
    calls = [c for i, v in enumerate(first) for c in (call(v, i, "annotate", f"Translation: {v['hypothesis']}", f"Major: {HOSTILE}"), call(v, i, "check", "Is it right?", "Yes."))]
    second = json.loads(json.dumps(first))
    for v in second:
        if v["status"] == "ok":
            v["errors"] = []
            v["score"] = v["raw"] = 0.0
    header = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
    marked = b[0].replace("木曜日", "<v>木曜日</v>")
    (root / "human.tsv").write_text(header + f"beta\tbridge\t1\t1\trater1\t{sources[0]}\t{marked}\tAccuracy/Mistranslation\tMajor\n")
    return [folder(root / "judge-a", first, calls), folder(root / "judge-b", second), root / "human.tsv"]


def large(root, n=100_000):
    """One judge of two systems on `n` segments."""
    words = "bridge council river spring closed opened repair crack pillar report".split()
    verdicts = []
    for system in ("alpha", "beta"):
        for i in range(n):
            text = " ".join(words[(i * 7 + k * (3 if system == "alpha" else 5)) % 10] for k in range(9))
            bad = (i * 2654435761 + len(system)) % 5 == 0
            errors = [error(text, words[i % 10], "accuracy/mistranslation", "major")] if bad and words[i % 10] in text else []
            verdicts.append(verdict(("en", "de"), system, f"doc-{i // 20}", i, f"Source {i}: the {words[i % 10]} by the river", text, errors))
    return folder(root / "large", verdicts)


def crowd(root, n=3000):
    """One judge of `n` systems on three segments, one of them of a megabyte."""
    sources = ["A short one.", "Another one. " * 80_000, "The last one."]
    verdicts = [
        verdict(("en", "de"), f"team-{i:04}", "d", seg, source, f"{i}: {source[:40]}" if i else source, [])
        for i in range(n) for seg, source in enumerate(sources)
    ]
    return folder(root / "crowd", verdicts)


def three(root):
    """One judge of three systems whose names begin alike."""
    source = "The town council voted on Tuesday to close the old bridge for repairs until spring."
    target = "Der Stadtrat stimmte am Donnerstag ab, um die alte Brücke bis zum Frühling zu schließen."
    marked = [error(target, "Donnerstag", "other", "major"), error(target, "stimmte", "other", "minor")]
    verdicts = [
        verdict(("en", "de"), f"system-{name}", "bridge", seg, source, target, marked if (seg + at) % 2 else [])
        for at, name in enumerate(["a", "b_with_a_long_name", "c"]) for seg in range(6)
    ]
    verdicts.append(verdict(("en", "de"), "system-c", "bridge", 6, source, "", [], "empty", "the translation is empty"))
    return folder(root / "three", verdicts)


# As the input has them: neither by name nor by mean. The names have long words.
UNRANKED = ["zeta_Uebersetzungsprogramm-2", "ONLINE-Baddy", "alpha_Konversationsmodell"]


def unranked(root):
    """A judge whose means do not rank systems, and beside it one that marks something else."""
    target = "Der Stadtrat stimmte am Donnerstag ab, um die alte Brücke zu schließen."
    runs = []
    for name, method, span in [("probe", "probe", "Donnerstag"), ("gemba", "gemba-mqm", "stimmte")]:
        verdicts = [
            verdict(("en", "de"), system, "bridge", seg, f"Source {seg}: the town council voted on Tuesday.", target, [error(target, span, "other", "major")] * (system == "ONLINE-Baddy"))
            for system in sorted(UNRANKED) for seg in range(12)
        ]
        for v in verdicts:
            v["score"] = v["raw"] = {"zeta_Uebersetzungsprogramm-2": -2.0, "ONLINE-Baddy": -5.0, "alpha_Konversationsmodell": -1.0}[v["system"]]
        verdicts[3]["warning"] = "the translation is a copy of its source"
        signature = {"method": method, "model": "qwen2.5-coder-made-by-hand", "weights": "wmt", "v": "0"}
        runs.append(folder(root / f"unranked-{name}", verdicts, signature=signature, systems=UNRANKED))
    return runs


# Names of which a word of ordinary length stands on two lines.
BROKEN = """
(() => {
  const bad = [];
  for (const e of document.querySelectorAll('th, td, h1, h2, h3, .count i, .about, .warning')) {
    if (!e.getClientRects().length || getComputedStyle(e).visibility === 'hidden') continue;
    const walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      for (const word of node.data.matchAll(/[^-_./\\s]{2,24}/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) bad.push(word[0]);
      }
    }
  }
  return bad.join(', ');
})()
"""


def check_unranked(page, path, shots):
    is_true = lambda condition: (_ for _ in ()).throw(AssertionError(condition)) if not page.run(condition) else None
    page.size(1280, 860)
    order = lambda table: page.run(f"[...document.querySelectorAll('table.standings')[{table}].querySelectorAll('tbody th')].map((e) => e.textContent)")
    by_mean = [UNRANKED[2], UNRANKED[0], UNRANKED[1]]
    assert order(0) == UNRANKED, f"in the order of the input: {order(0)}"
    assert order(1) == by_mean, f"a judge that ranks, from the best to the worst: {order(1)}"
    head = page.run("[...document.querySelectorAll('table.standings')[0].querySelectorAll('thead th')].map((e) => e.textContent)")
    assert "Rank" not in head and "Mean score" in head, head
    is_true("document.querySelectorAll('table.standings')[0].querySelectorAll('svg').length === 0 && document.querySelectorAll('table.standings')[1].querySelectorAll('svg').length === 3")
    is_true("document.querySelectorAll('.contests').length === 1")
    box = page.run("document.querySelector('.warning[role=note]').textContent")
    assert box.startswith("Do not order these systems by their means.") and "negations" in box, box
    boxes = page.run("[...document.querySelectorAll('.warning[role=note]')].map((e) => e.textContent)")
    assert len(boxes) == 3 and all("1 of 12 segments is not a translation" in box for box in boxes[1:]), boxes
    is_true("document.querySelector('.warning').getBoundingClientRect().bottom <= document.querySelector('table.standings').getBoundingClientRect().top")
    is_true("getComputedStyle(document.querySelector('.warning')).color === getComputedStyle(document.body).color")
    page.shot(shots / "unranked-overview.png")
    # Badges count the marks of one judge.
    page.click("#tab-segments")
    badges = lambda: page.run("[...document.querySelectorAll('.row:first-child .count')].map((e) => e.title)")
    assert badges() == ["ONLINE-Baddy, probe, qwen2.5-coder-made-by-hand: 1 major error"], badges()
    is_true("document.getElementById('legend').textContent.startsWith('probe, qwen2.5-coder-made-by-hand (choose another under Judge): ')")
    page.run("document.getElementById('f-judge').value = '1'; document.getElementById('filters').dispatchEvent(new Event('input', {bubbles: true}))")
    page.wait("document.querySelector('.row .count').title.startsWith('ONLINE-Baddy, gemba-mqm')")
    assert len(badges()) == 1, badges()
    page.click("#filters button[type=reset]")
    page.wait("document.querySelector('.row .count').title.startsWith('ONLINE-Baddy, probe')")
    cards = page.run("[...document.querySelectorAll('.card')].map((e) => e.ariaLabel)")
    assert cards == UNRANKED, cards
    # The address names the segment that is open, and no segment in the overview.
    page.key("j")
    page.wait("location.hash === '#row=1'")
    # A warning stands beside the score.
    page.key("j"); page.key("j")
    page.wait("location.hash === '#row=3'")
    is_true("document.querySelector('[aria-label=ONLINE-Baddy] .verdict .warning').textContent === 'the translation is a copy of its source'")
    is_true("document.querySelector('#row-3 .count').textContent.endsWith('1M !')")
    page.shot(shots / "unranked-warning.png")
    page.click("#tab-overview")
    is_true("location.hash === ''")
    page.size(420, 860)
    for view in ("overview", "segments"):
        page.click(f"#tab-{view}")
        assert page.run(BROKEN) == "", f"broken in the {view}: {page.run(BROKEN)}"
        page.shot(shots / f"unranked-narrow-{view}.png")
    open_at = "document.querySelector('#detail h2').textContent.includes('segment {}') && getComputedStyle(document.getElementById('detail')).display === 'block'"
    page.call("Page.navigate", url="about:blank")
    page.open(path, "#row=10")
    is_true(open_at.format(11))
    assert page.run(BROKEN) == "", page.run(BROKEN)
    page.shot(shots / "unranked-narrow-row.png")
    page.run("location.hash = '#row=3'")
    page.wait(open_at.format(4))
    page.size(1280, 860)


def check_crowd(page):
    assert page.run("document.querySelectorAll('table.standings tbody tr').length") == 100, "the first hundred systems"
    page.click(".more")
    assert page.run("document.querySelectorAll('table.standings tbody tr').length") == 200, "and a hundred more"
    page.click("#tab-segments")
    page.key("j")
    page.wait("document.querySelector('#detail h2').textContent.includes('(id 1)')", 20)
    assert page.run("document.querySelectorAll('.card').length") == 30, "the first thirty translations"
    assert page.run("document.querySelector('.source').textContent.length") < 21_000, "a megabyte is cut"
    page.run("document.querySelector('.source button').click()")
    page.wait("document.querySelector('.source').textContent.length > 1000000", 20)


def check_three(page, shots):
    page.size(1400, 900)
    page.shot(shots / "three-overview.png")
    empty = page.run("document.querySelector('.empty').textContent")
    assert empty == "system-c: 1 empty translation has no verdict and is left out of the mean, with the same segments of the other systems.", empty
    assert page.run("document.querySelector('.about').textContent").startswith("scale: negative penalty")
    page.click("#tab-segments")
    page.key("j")
    columns = page.run("getComputedStyle(document.querySelector('.translations')).gridTemplateColumns.split(' ').length")
    assert columns == 3, f"three systems stand side by side at 1400 pixels, not {columns}"
    assert page.run("[...document.querySelectorAll('.row .count i')].map((e) => e.textContent.trim()).includes('c')"), "badges name systems"
    names = ["ONLINE-Baddy", "ONLINE-EU", "Lan-BridgeMT-EU", "GPT4-5shot"]
    labels = page.run(f"(() => {{ const data = {{ systems: {json.dumps(names)} }}; return data.systems.map((s) => short(data, s)); }})()")
    assert labels == ["ONLINE-Baddy", "ONLINE-EU", "Lan-BridgeMT", "GPT4-5shot"], f"whole words tell systems apart: {labels}"
    assert page.run("!document.querySelector('.errors').textContent.includes('other')"), "an error without a category"
    assert page.run("![...document.querySelectorAll('.context')].some((e) => e.open)"), "the document around is folded"
    page.shot(shots / "three.png")
    page.size(420, 860)
    page.shot(shots / "narrow-list.png")
    assert page.run("getComputedStyle(document.getElementById('detail')).display === 'none' && !document.getElementById('fold').open")
    page.click("#list .row")
    page.wait("getComputedStyle(document.getElementById('list')).display === 'none'")
    page.shot(shots / "narrow-segment.png")
    page.click(".back")
    page.wait("getComputedStyle(document.getElementById('detail')).display === 'none'")
    page.click("#tab-overview")
    page.shot(shots / "narrow-overview.png")
    page.size(1280, 860)


def check_small(page, shots):
    ok = lambda condition: (_ for _ in ()).throw(AssertionError(condition)) if not page.run(condition) else None
    ok("document.querySelectorAll('table.standings').length === 3")
    ok("[...document.querySelectorAll('h2')].some((h) => h.textContent === 'Agreement of judges and human raters')")
    ok("[...document.querySelectorAll('h2')].some((h) => h.textContent === 'Human raters: human.tsv')")
    ok("document.querySelector('h1').textContent.endsWith('judged by 2 judges and human raters')")
    ok("[...document.querySelectorAll('h2')].some((h) => h.textContent === 'Judge: gemba-mqm, made-by-hand (judge-a)')")
    page.shot(shots / "overview.png")
    ok("document.querySelectorAll('.parts button').length === 2 && document.querySelectorAll('table.standings')[0].rows.length === 3")
    page.click(".parts button:last-of-type")
    ok("document.querySelectorAll('table.standings')[0].rows.length === 2 && document.querySelector('.parts [aria-pressed=true]').textContent === 'en–he'")
    page.click(".parts button")
    page.click("#tab-segments")
    ok("document.querySelectorAll('.row').length === 4")
    ok("document.querySelectorAll('.card').length === 2")
    page.click("mark[aria-label*='木曜日']")
    ok("!document.getElementById('tip').hidden && document.getElementById('tip').textContent.includes('Tuesday is 火曜日.')")
    ok("document.getElementById('tip').textContent.includes('style/awkward')")
    ok("document.querySelector('.source mark').textContent === 'old'")
    ok("document.getElementById('legend').textContent.includes('two major and three minor errors')")
    # What the judge and the raters marked stands together, each under its name, and the lists of errors below.
    ok("[...document.querySelectorAll('[aria-label=beta].card > *')].map((e) => e.className.split(' ').at(-1)).join(' ').startsWith(' whose text whose text verdict verdict')")
    page.shot(shots / "japanese.png")
    page.key("Escape")
    ok("document.getElementById('tip').hidden")
    page.click("[aria-label='beta'] details.conversation summary")
    page.wait("document.querySelectorAll('.call').length === 2")
    ok("document.querySelector('.call .turn.system pre').textContent === 'You mark errors.'")
    page.shot(shots / "conversation.png")
    page.key("j")
    page.wait("document.querySelector('#detail h2').textContent.includes('(id 1)')")
    ok("document.querySelector('.context').textContent.includes('The council')")
    ok("document.querySelector('[aria-label=alpha] mark').textContent.startsWith('<script>')")
    ok("!document.body.dataset.owned && document.querySelectorAll('#main script, #main img').length === 0")
    ok("!/null|undefined|NaN/.test(document.body.innerText)")
    page.shot(shots / "hostile.png")
    page.key("End")
    page.key("j"); page.key("j")
    page.wait("document.querySelector('#detail h2').textContent.includes('gesher')")
    ok("getComputedStyle(document.querySelector('.card .text')).direction === 'rtl'")
    ok("document.querySelector('.card .text').lang === 'he' && document.querySelector('.card mark').textContent === 'ביום שלישי'")
    page.shot(shots / "hebrew.png")
    page.key("/")
    ok("document.activeElement.id === 'f-text'")
    for c in "tuesday is":
        page.key(c)
    page.wait("document.getElementById('f-count').textContent.startsWith('1 of 4')")
    page.key("Escape")
    page.wait("document.getElementById('f-count').textContent.startsWith('4 of 4')")
    page.run("document.getElementById('f-status').value = '2'; document.getElementById('filters').dispatchEvent(new Event('input', {bubbles: true}))")
    page.wait("document.getElementById('f-count').textContent.startsWith('1 of 4')")
    page.click("#filters button[type=reset]")
    page.wait("document.getElementById('f-count').textContent.startsWith('4 of 4')")
    page.run("document.getElementById('f-order').value = 'disagreement'; document.getElementById('filters').dispatchEvent(new Event('input', {bubbles: true}))")
    page.wait("document.querySelector('.row .place').textContent.includes('segment')")
    page.run("document.getElementById('f-order').value = ''; document.getElementById('filters').dispatchEvent(new Event('input', {bubbles: true}))")
    page.click("#theme")
    page.shot(shots / "other-theme.png")
    check_contrast(page)
    page.click("#theme")
    check_contrast(page)
    ok("[...document.querySelectorAll('button, input, select')].every((e) => e.textContent.trim() || e.ariaLabel || e.labels?.length)")
    page.call("Emulation.setEmulatedMedia", media="print")
    ok("getComputedStyle(document.getElementById('filters')).display === 'none'")
    page.call("Emulation.setEmulatedMedia", media="")
    page.size(420, 800)
    page.shot(shots / "narrow.png")
    page.size(1280, 860)


CONTRAST = """
(() => {
  const parse = (c) => { const x = document.createElement('canvas').getContext('2d'); x.fillStyle = c; x.fillRect(0, 0, 1, 1); return [...x.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll('.soft, .label, .count, mark, button, .place, summary, .score, h2, label, caption, .signature')) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) bad.push(`${e.className || e.tagName}: ${((a + .05) / (b + .05)).toFixed(2)}`);
  }
  return bad.join(', ');
})()
"""


def check_contrast(page):
    bad = page.run(CONTRAST)
    assert bad == "", f"contrast below 4.5: {bad}"


def check_large(page, shots, n):
    page.click("#tab-segments")
    page.wait(f"document.getElementById('f-count').textContent.startsWith('{n:,} of')")
    assert page.run("document.querySelectorAll('.row').length") < 60, "only visible rows are in the page"
    page.click("#list .row")
    page.key("End")
    page.wait(f"document.querySelector('#detail h2').textContent.includes('(id {n - 1})')")
    page.run("document.getElementById('list').scrollTop = 4000000")
    page.wait("[...document.querySelectorAll('.row')].some((r) => r.textContent.includes('Source 50000:'))")
    spent = page.run("(() => { const t = performance.now(); document.getElementById('f-severity').value = '1'; readFilters(); return performance.now() - t; })()")
    page.run("document.getElementById('filters').dispatchEvent(new Event('input', {bubbles: true}))")
    page.wait("!document.getElementById('f-count').textContent.startsWith('100,000')", 5)
    page.shot(shots / "large.png")
    return spent


def report(tribunal, out, *arguments):
    subprocess.run([tribunal, "report", *map(str, arguments), "--out", str(out), "--resamples", "200"], check=True, stdout=subprocess.DEVNULL)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--tribunal", default=str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/tribunal"))
    options = parser.parse_args()
    path = chromium()
    if not path:
        print("not checked: there is no Chromium on this machine; hint: CHROMIUM=/path/to/chromium")
        return 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shots = options.shots or root / "shots"
        shots.mkdir(parents=True, exist_ok=True)
        pages = [report(options.tribunal, root / "small.html", *small(root), "-l", "en-ja"), report(options.tribunal, root / "large.html", large(root)),
                 report(options.tribunal, root / "crowd.html", crowd(root)), report(options.tribunal, root / "three.html", three(root)),
                 report(options.tribunal, root / "unranked.html", *unranked(root))]
        browser = Browser(path, root / "profile")
        try:
            browser.open(pages[0])
            check_small(browser, shots)
            begun = time.monotonic()
            browser.open(pages[1])
            opened = time.monotonic() - begun
            check_large(browser, shots, 100_000)
            browser.open(pages[2])
            check_crowd(browser)
            browser.open(pages[3])
            check_three(browser, shots)
            browser.open(pages[4])
            check_unranked(browser, pages[4], shots)
            outside = [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
            assert not outside, f"the page asked for {outside}"
            assert not browser.errors, browser.errors
        finally:
            browser.close()
        size = pages[1].stat().st_size / (1 << 20)
        print(f"the report works: {len(list(shots.iterdir()))} screenshots, 100,000 segments ({size:.1f} MiB) open in {opened:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
