"""Verdicts as objects, data frames and HTML, and the commands that work on runs."""

import json
import sys

import pytest
import tribunal


def test_reading_a_run(run):
    verdicts = tribunal.read(run)
    assert len(verdicts) == 4 and verdicts.scores == [-1.0, 0.0, -5.0, None]
    assert verdicts.system_score == pytest.approx(-2.0)
    assert verdicts.systems == {"a": -0.5, "b": -5.0}
    error = verdicts[0].errors[0]
    assert verdicts[0].hypothesis[error.start : error.end] == error.span, "offsets are Python's"
    assert verdicts[3].status == "refused" and verdicts[3].score is None


def test_cautions_stand_in_every_form(run):
    assert tribunal.read(run).cautions == []
    (run / "summary.json").write_text(json.dumps({"cautions": ["<b>no</b> ratings of en-cs"]}), encoding="utf-8")
    verdicts = tribunal.read(run)
    assert verdicts.cautions == verdicts[:2].cautions == ["<b>no</b> ratings of en-cs"]
    assert repr(verdicts).endswith("; caution: <b>no</b> ratings of en-cs>")
    assert "<b>caution</b> &lt;b&gt;no&lt;/b&gt; ratings" in verdicts._repr_html_()


def test_data_frames(run):
    frame = tribunal.read(run).to_frame()
    assert list(frame["score"].fillna(99)) == [-1.0, 0.0, -5.0, 99]
    assert list(frame["n_errors"]) == [1, 0, 0, 0]
    assert list(frame["warning"].fillna("")) == ["", "", "not a translation: in French, not German", ""]
    assert list(frame["interval_low"].fillna(99)) == [99, -5.0, 99, 99]
    assert tribunal.read(run)[1].interval == (-5.0, 0.0) and tribunal.read(run)[0].interval is None
    errors = tribunal.read(run).to_frame(errors=True)
    assert list(errors["span"]) == ["😀 sagt"] and list(errors["system"]) == ["a"]


def test_a_data_frame_without_pandas_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="hint: pip install pandas"):
        tribunal.read(run).to_frame()


def test_notebooks_show_spans_and_never_markup(run):
    html = tribunal.read(run)._repr_html_()
    assert "<mark" in html and "😀 sagt</mark>" in html
    assert "score 0 (90%: -5.0 to 0.0)" in html
    assert "&lt;b&gt;0&lt;/b&gt;" in html and "<b>0</b>" not in html and "<i>why</i>" not in html
    assert "no verdict, refused: refused it" in html


def test_commands_on_a_run(run, tmp_path):
    compared = tribunal.compare(run)
    assert compared["baseline"] == "a" and [row["system"] for row in compared["systems"]] == ["a", "b"]
    page = tribunal.report(tribunal.read(run), out=tmp_path / "report.html")
    assert open(page, encoding="utf-8").read().startswith("<!doctype html>")
    [path] = tribunal.export(run, "mqm-tsv", tmp_path / "mqm.tsv", name="me")
    assert "<v>😀 sagt</v>" in open(path, encoding="utf-8").read()
    assert {"fsp", "gemba-mqm"} <= {method["name"] for method in tribunal.methods()}


def test_parquet_is_what_pandas_reads(run, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    tribunal.export(run, "parquet", tmp_path / "v.parquet")
    frame = pandas.read_parquet(tmp_path / "v.parquet")
    assert list(frame["system"]) == ["a", "a", "b", "b"]
    assert frame["errors"][0][0]["span"] == "😀 sagt" and len(frame["errors"][1]) == 0


def test_errors_are_exceptions_with_the_words_of_the_command_line(tmp_path):
    with pytest.raises(tribunal.TribunalError, match="has no `run.json`, so it is not a run folder"):
        tribunal.export(tmp_path, "csv", tmp_path / "x.csv")
    with pytest.raises(ValueError, match="--gravity"):
        tribunal.compare(tmp_path, gravity=3)


def test_one_line_of_json_is_one_verdict(run):
    line = (run / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert tribunal.Verdict.of(json.loads(line)) == tribunal.read(run)[0]
