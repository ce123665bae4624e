"""A judge with real weights: inputs of every kind, COMET's call, progress, threads, Ctrl-C."""

import math
import os
import signal
import threading
import time

import pytest
import tribunal

ROWS = [
    {"src": "The old bridge is closed.", "mt": "Die alte Brücke ist geschlossen.", "system": "a", "seg_id": 0},
    {"src": "It reopens in spring.", "mt": "Im Herbst öffnet sie wieder.", "system": "a", "seg_id": 1},
]


def test_lists_frames_and_files_give_the_same_verdicts(judge, tmp_path):
    pandas = pytest.importorskip("pandas")
    listed = judge.score(ROWS)
    assert len(listed) == 2 and listed.signature.startswith("method:gemba-da|")
    frame = pandas.DataFrame(ROWS)
    frame["reference"] = [None, float("nan")]
    assert list(judge.score(frame)) == list(listed)
    frame[["src", "mt", "system", "seg_id"]].to_csv(tmp_path / "input.csv", index=False)
    assert list(judge.score(tmp_path / "input.csv")) == list(listed)


def test_a_run_folder_stays_where_it_is_wanted(judge, tmp_path):
    verdicts = judge.score(ROWS, out=tmp_path / "run")
    assert list(tribunal.read(tmp_path / "run")) == list(verdicts) and verdicts.folder == tmp_path / "run"


def test_comets_call(judge):
    output = judge.predict([{"src": row["src"], "mt": row["mt"]} for row in ROWS], batch_size=8, gpus=0)
    assert len(output.scores) == 2 and len(output["metadata"]["error_spans"]) == 2
    usable = [score for score in output.scores if not math.isnan(score)]
    assert output.system_score == pytest.approx(sum(usable) / len(usable)) if usable else math.isnan(output.system_score)


def test_progress_and_other_threads_go_on(judge):
    seen, ticks, stop = [], [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    thread.start()
    judge.score([{**row, "seg_id": i} for i, row in enumerate(ROWS * 4)], progress=lambda *at: seen.append(at))
    stop.set()
    thread.join()
    assert seen[-1] == (8, 8)
    assert max(b - a for a, b in zip(ticks, ticks[1:])) < 2.0, "the interpreter was not held"


def many(n):
    return [{**ROWS[i % 2], "seg_id": i, "src": f"{i}. {ROWS[i % 2]['src']}"} for i in range(n)]


@pytest.fixture
def interruptible():
    """A shell that starts the tests in the background has them ignore Ctrl-C."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def press_ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_and_the_run_goes_on_later(judge, tmp_path, interruptible):
    expected = list(judge.score(ROWS))
    threading.Timer(0.5, press_ctrl_c).start()
    with pytest.raises(KeyboardInterrupt) as pressed:
        judge.score(many(200), out=tmp_path / "run")
    if hasattr(pressed.value, "add_note"):
        assert "the same call goes on" in pressed.value.__notes__[0]
    assert list(judge.score(ROWS)) == expected, "the judge still judges, and says the same"
    journal = tmp_path / "run/journal.jsonl"
    kept = journal.read_text(encoding="utf-8").count("\n") if journal.exists() else 0
    time.sleep(0.5)
    assert (journal.read_text(encoding="utf-8").count("\n") if journal.exists() else 0) == kept, "nothing goes on in secret"
    threading.Timer(0.5, press_ctrl_c).start()
    with pytest.raises(KeyboardInterrupt):  # and no word of a folder that is being written to
        judge.score(many(200), out=tmp_path / "run")


def test_ctrl_c_while_progress_is_shown(judge, tmp_path, interruptible):
    with pytest.raises(KeyboardInterrupt):
        judge.score(many(100), out=tmp_path / "run", progress=press_ctrl_c)
    seen = []
    assert len(judge.score(ROWS[:1], out=tmp_path / "other", progress=lambda *at: seen.append(at))) == 1
    assert seen[-1] == (1, 1)


def test_what_is_wrong_is_said(judge):
    with pytest.raises(tribunal.TribunalError, match="the source is empty"):
        judge.score([{"src": "", "mt": "x"}])
    with pytest.raises(TypeError, match="give a list"):
        judge.score({"src": "a", "mt": "b"})
    with pytest.raises(TypeError, match="row 0 of the data is a list; give a dict"):
        judge.score([["a", "b"]])
    with pytest.raises(tribunal.TribunalError, match="unknown model"):
        tribunal.Judge("no-such-model")


def test_messages_name_rows_and_not_a_temporary_file(judge):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, index=["x", "y"])
    frame.loc["y", "src"] = " "
    with pytest.raises(tribunal.TribunalError, match=r"row 1 \(index `y`\): the source is empty") as told:
        judge.score(frame)
    assert "input.jsonl" not in str(told.value)
    with pytest.raises(tribunal.TribunalError, match=r"row 1: the field `hypothesis` is missing"):
        judge.score([ROWS[0], {"src": "a"}])


def test_the_index_and_other_columns_come_back(judge):
    pandas = pytest.importorskip("pandas")
    # Backwards, so that order alone does not bring rows and verdicts together.
    frame = pandas.DataFrame(ROWS[::-1], index=["y", "x"]).assign(key=[22, 11])
    scored = judge.score(frame).to_frame()
    assert scored.index.tolist() == ["x", "y"] and scored["key"].tolist() == [11, 22]
    assert scored["source"].tolist() == [row["src"] for row in ROWS]
    assert frame.join(scored["status"])["status"].notna().all()


def test_options_that_predict_does_not_have_are_named(judge):
    with pytest.warns(UserWarning, match="no option `beam_size`"):
        judge.predict([{"src": ROWS[0]["src"], "mt": ROWS[0]["mt"]}], progress_bar=False, beam_size=4)


def test_an_unknown_method_fails_before_a_model_is_loaded():
    with pytest.raises(tribunal.TribunalError, match="`chrf` is a metric, not a judge"):
        tribunal.Judge("no-such-model", method="chrf")


def test_what_is_not_given_is_the_command_lines_default(monkeypatch):
    asked = []
    monkeypatch.setattr("tribunal.judge._tribunal.Session", asked.append)
    tribunal.Judge()
    tribunal.Judge("qwen2.5-7b-instruct", "fsp", language_pair="en-de", max_tokens=64)
    assert asked[0] == ["tribunal", "score"]
    assert asked[1] == [
        "tribunal", "score", "--method=fsp", "--model=qwen2.5-7b-instruct", "--language-pair=en-de", "--max-tokens=64",
    ]


def test_the_default_method_reads_states():
    """The method `probe` asks a model for its hidden states, which nothing between Python and the model may hide."""
    smaller = "qwen2.5-coder-0.5b-instruct"
    if not any(card["name"] == smaller and card["state"] == "pulled" for card in tribunal.models()):
        pytest.skip(f"{smaller} is not on this machine")
    judge = tribunal.Judge(smaller, language_pair="en-de", kv_cache="100MiB", context=512)
    verdicts = judge.score(ROWS)
    assert verdicts.signature.startswith("method:probe|") and f"|model:{smaller}|" in verdicts.signature
    assert None not in verdicts.scores
