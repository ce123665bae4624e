//! The judge `likelihood`: its requests and scores, which agree with the model's own values.

use std::{fs, path::Path, sync::Arc};

use tribunal::{
    judges::{Error, Granularity, Panel, Settings, rehearse},
    llm::{Chat, Llm, ResponseFormat, Sampling},
    run::{self, RunConfig},
    segment::Segment,
};

use crate::fakes::{self, Noise, Scores, SmallRun, Words, document, judged, said, segment, tiny_engine};

fn panel(rule: impl Fn(&str, &str) -> f64 + Send + Sync + 'static) -> Panel {
    Panel::new(Arc::new(Words(rule)), Sampling::default())
}

fn doc() -> Settings {
    Settings { granularity: Some(Granularity::Doc), ..Settings::default() }
}

/// The score of the first segment: each German word costs 1, 3 without English in front; each English word 2
/// and 5.
fn score(options: &str) -> f64 {
    let panel = panel(|prompt, word| {
        let is_german = document().iter().any(|segment| segment.hypothesis.contains(word));
        match (is_german, prompt.lines().count()) {
            (true, 2) => -1.0,
            (true, _) => -3.0,
            (false, 2) => -2.0,
            (false, _) => -5.0,
        }
    });
    let judge = fakes::judge(&format!("likelihood:{options}"), &Settings::default());
    let verdict = judged(&judge, &panel, &document()[..1]).0.remove(0).unwrap();
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (verdict.score.to_bits(), None));
    assert!(verdict.errors.is_empty());
    verdict.score
}

#[test]
fn a_score_is_a_mean_or_a_sum_of_log_probabilities() {
    // `Er ging zur Bank.` has four words, `He went to the bank.` five.
    for (options, expected) in [
        ("", -1.0),
        ("norm=sum", -4.0),
        ("direction=backward", -2.0),
        ("direction=backward,norm=sum", -10.0),
        ("direction=both", -1.5),
        ("direction=both,norm=sum", -7.0),
        ("relative=on", 2.0),
        ("relative=on,norm=sum", 8.0),
        ("direction=backward,relative=on", 3.0),
        ("direction=both,relative=on", 2.5),
    ] {
        assert!((score(options) - expected).abs() < 1e-12, "{options}: {}", score(options));
    }
}

#[test]
fn what_it_asks() {
    let asked = |options: &str, settings: &Settings, group: &[Segment]| {
        let judge = fakes::judge(&format!("likelihood:{options}"), settings);
        let questions = rehearse(judge.as_ref(), &panel(|_, _| 0.0), group, None);
        let calls = judge.calls();
        let n_asked = group.iter().filter(|segment| !segment.hypothesis.trim().is_empty()).count();
        assert_eq!((calls.least * n_asked, calls.most * n_asked), (questions.len(), questions.len()));
        let show = |question: tribunal::judges::RehearsedQuestion| {
            assert_eq!((question.max_tokens, question.is_read), (0, false));
            let prompt = question.chat.untemplated().unwrap().to_owned();
            format!("{} of {:?}\n{prompt}|{}|\n", question.step, question.unit, question.given()[0])
        };
        questions.into_iter().map(show).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(
        "likelihood_asks",
        asked("direction=both,relative=on", &Settings::default(), &document()[..1])
    );
    let mut group = document();
    group[1].hypothesis = " ".into();
    insta::assert_snapshot!("likelihood_asks_of_a_document", asked("relative=on", &doc(), &document()[..2]));
    // What is empty on one side shows nothing.
    group[2] = segment(2, "So.", "Also.");
    insta::assert_snapshot!("likelihood_asks_without_empty_ones", asked("", &doc(), &group));
}

#[test]
fn what_has_no_score() {
    let reason = |segment: Segment, rule: fn(&str, &str) -> f64| {
        let judge = fakes::judge("likelihood:direction=both", &Settings::default());
        match judged(&judge, &panel(rule), &[segment]).0.remove(0) {
            Err(Error::Empty(reason) | Error::Failed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    };
    let one = |_: &str, _: &str| -1.0;
    assert_eq!(reason(segment(0, "He went.", " "), one), "the translation is empty");
    assert_eq!(reason(segment(0, "\n", "Er ging."), one), "the source is empty");
    assert_eq!(reason(segment(0, " ", ""), one), "source and hypothesis are both empty");
    let empty = fakes::judge("likelihood", &Settings::default());
    let verdicts = judged(&empty, &panel(one), &[segment(0, "He went.", " ")]).0;
    assert!(matches!(&verdicts[0], Err(Error::Empty(_))), "a run that goes on does not ask about it again");
    let whole = || segment(0, "He went.", "Er ging.");
    let none = "the model gives the translation no probability";
    assert_eq!(reason(whole(), |_, _| f64::NEG_INFINITY), none);
    assert_eq!(reason(whole(), |_, _| f64::NAN), none);
    assert_eq!(
        reason(whole(), |_, word| if word == "He" { f64::NEG_INFINITY } else { -1.0 }),
        "the model gives the source no probability"
    );
    for settings in [
        Settings { weights: Some("wmt".into()), ..Settings::default() },
        Settings { shots: Some("shots.jsonl".into()), ..Settings::default() },
    ] {
        assert!(tribunal::replication::build("likelihood", &settings).is_err());
    }
}

/// A short text may be as improbable as chance. A longer one is not, nor are all tokens of one equally
/// probable.
#[test]
fn a_text_that_the_model_says_nothing_of_has_no_score() {
    let uniform = -(320_f64).ln();
    for (logprobs, has_score) in [
        (vec![uniform; 20], false),
        (vec![uniform; 2], false),
        (vec![-63.2; 12], false),
        ([vec![-0.0; 1], vec![-63.2; 12]].concat(), false),
        ((0..9).map(|i| -7.0 - f64::from(i)).collect(), false),
        (vec![-9.0], true),
        (vec![-9.0, -7.0], true),
        ((0..20).map(|i| -0.5 * f64::from(i)).collect(), true),
        (vec![-1.0; 20], true),
    ] {
        let name = format!("{logprobs:?}");
        let panel = Panel::new(Arc::new(Scores { logprobs, n_vocab: 320 }), Sampling::default());
        let judge = fakes::judge("likelihood", &Settings::default());
        let verdict = judged(&judge, &panel, &[segment(0, "He went.", "Er ging.")]).0.remove(0);
        assert!(verdict.is_ok() == has_score, "{name}: {verdict:?}");
        assert!(has_score || matches!(verdict, Err(Error::NoSignal(_))), "{name}");
    }
}

/// The mean log-probability of a text when the model is made to write it.
fn written(llm: &dyn Llm, prompt: &str, text: &str) -> f64 {
    let form = ResponseFormat::Choice(vec![text.to_owned()]);
    let reply = llm.ask(&Chat::plain(prompt), &form, &Sampling::default()).unwrap();
    assert_eq!(reply.text, text);
    let n = llm.counter().unwrap().count(&Chat::plain(text)).unwrap();
    reply.tokens[..n].iter().map(|token| token.logprob).sum::<f64>() / n as f64
}

#[test]
fn a_score_is_what_the_model_would_say_if_it_wrote_the_text() {
    let engine = tiny_engine("qwen2", 16, 2048);
    let panel = Panel::new(Arc::new(Noise(Arc::new(engine.clone()))), Sampling::default());
    let group = document();
    let scores = |options: &str| -> Vec<f64> {
        let judge = fakes::judge(&format!("likelihood:{options}"), &doc());
        judged(&judge, &panel, &group).0.into_iter().map(|verdict| verdict.unwrap().score).collect()
    };
    let (forward, relative) = (scores(""), scores("relative=on"));
    let backward = scores("direction=backward");
    let (mut pairs, mut swapped) = (String::new(), String::new());
    for (i, Segment { source, hypothesis, .. }) in group.iter().enumerate() {
        let there =
            written(&engine, &format!("{pairs}English: {source}\nGerman:"), &format!(" {hypothesis}"));
        let alone = written(&engine, &format!("{pairs}German:"), &format!(" {hypothesis}"));
        let back =
            written(&engine, &format!("{swapped}German: {hypothesis}\nEnglish:"), &format!(" {source}"));
        assert!((forward[i] - there).abs() < 1e-9, "{} {there}", forward[i]);
        assert!((relative[i] - (there - alone)).abs() < 1e-9);
        assert!((backward[i] - back).abs() < 1e-9);
        pairs = format!("{pairs}English: {source}\nGerman: {hypothesis}\n\n");
        swapped = format!("{swapped}German: {hypothesis}\nEnglish: {source}\n\n");
    }
}

#[test]
fn a_document_is_read_once_and_a_dry_run_knows_it() {
    // One document, several times as long as the text of a segment.
    let group: Vec<Segment> =
        (0..12).map(|i| segment(i, &format!("The sentence {i}."), &format!("Der Satz {i}."))).collect();
    for (request, settings, n_calls) in [
        ("likelihood:direction=both,relative=on", doc(), 48),
        ("likelihood", doc(), 12),
        ("likelihood:relative=on", Settings::default(), 24),
    ] {
        let judge = fakes::judge(request, &settings);
        let open = || Panel::new(Arc::new(tiny_engine("qwen2", 32, 4096)), Sampling::default());
        let never = fakes::options(Path::new("never"));
        let plan = run::plan(&open(), judge.as_ref(), judge.calls(), &group[..], &never).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let outcome = run::run(
            &open(),
            judge.as_ref(),
            &group[..],
            &"method:any".parse().unwrap(),
            // One question at a time: those under way together may each read a common beginning.
            &RunConfig { questions: 1, ..fakes::options(dir.path()) },
        );
        let cost = outcome.unwrap().summary.cost;
        assert_eq!((plan.least.calls, plan.most.calls, cost.calls), (n_calls, n_calls, n_calls), "{request}");
        assert_eq!(plan.least.prompt_tokens, cost.usage.prompt(), "{request}");
        assert_eq!(plan.least.distinct_tokens, Some(cost.usage.distinct), "{request}");
        assert_eq!((plan.most.answer_tokens, cost.usage.generated), (0, 0));
        // What is weighed goes through the model in any case, even where another text begins like it.
        let again = cost.usage.computed - cost.usage.distinct;
        // Readings side by side may each compute a common beginning.
        let is_checked = settings.granularity == Some(Granularity::Doc) && n_calls == group.len();
        assert!(!is_checked || again <= cost.calls, "{request}: {again} tokens were computed twice");
    }
}

#[test]
fn a_run_is_verified_and_does_not_depend_on_batch_or_cache() {
    let small = SmallRun::new(3);
    let model = fakes::tiny("qwen2");
    let score = |out: &str, more: &[&str]| {
        let mut command = small.tribunal(&["score", "--input", "input.jsonl", "--out", out, "--quiet"]);
        command.args(["--method", "likelihood:direction=both,relative=on", "--granularity", "doc"]);
        command.args(["--kv-cache", "8MiB"]).arg("--model").arg(&model).args(more);
        said(command)
    };
    for (out, more) in [("out", &[][..]), ("one", &["--jobs", "1", "--batch", "1", "--no-prefix-cache"])] {
        let (code, text) = score(out, more);
        assert_eq!(code, 1, "{text}");
    }
    let verdicts = small.read("out/verdicts.jsonl");
    // Random weights find the longer texts as improbable as chance. What is recorded of them is verified all
    // the same.
    assert_eq!(verdicts.matches(r#""status":"no_signal""#).count(), 2, "{verdicts}");
    assert_eq!(verdicts, small.read("one/verdicts.jsonl"));
    assert_eq!(verdicts.lines().count(), 18);
    for more in [&["--without-model"][..], &[]] {
        let (code, text) = said(small.tribunal(&[&["verify", "out"], more].concat()));
        assert!(code == 0 && text.contains("confirmed"), "{text}");
    }
    let run = fs::read_to_string(small.at("out/run.json")).unwrap();
    assert!(run.contains(r#""direction":"both","norm":"mean","relative":"on""#), "{run}");
}
