//! Dry runs held against the runs that they estimate.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use tribunal::{
    judges::{
        Built, Granularity, Grouping, Judge, Panel, Preset, Role, Settings,
        method::{Calls, Output},
        registry,
    },
    llm::Sampling,
    run::{
        self, CallRetention, Outcome, Plan, RunConfig, Task,
        plan::{Amount, Counting, plan_within},
        trial::Trial,
    },
    segment::{Corpus, Segment},
};

use crate::fakes::{
    Cast, Chain, Numbers, TinyJudge, WithShortest, Word, bank, document, models, segments, tiny_engine,
};

fn options(out: &Path) -> RunConfig {
    RunConfig { jobs: 2, seed: 3, ..RunConfig::new(out) }
}

fn plan(panel: &Panel, judge: &Judge, calls: Calls, input: &[Segment]) -> Plan {
    run::plan(panel, judge, calls, input, &options(Path::new("never"))).unwrap()
}

fn run(panel: &Panel, judge: &Judge, input: &[Segment], out: &Path) -> Outcome {
    run::run(panel, judge, input, &"method:any".parse().unwrap(), &options(out)).unwrap()
}

fn trial(panel: &Panel, judge: &Judge, input: &[Segment], out: &Path, time: Duration) -> Trial {
    let segments = &Corpus::from_segments(input.iter().cloned()).unwrap();
    let signature = &"method:any".parse().unwrap();
    Task { panel, judge, segments, signature }.trial(&options(out), time, None).unwrap()
}

#[test]
fn what_depends_on_no_answer_is_exact() {
    let sampling = Sampling { max_tokens: 4, ..Sampling::default() };
    let panel = Panel::new(Arc::new(tiny_engine("qwen2", 16, 4096)), sampling);
    let judge = TinyJudge::by(Grouping::Document);
    let input = segments();
    let plan = plan(&panel, &judge, Calls::exactly(1), &input[..6]);
    let dir = tempfile::tempdir().unwrap();
    let cost = run(&panel, &judge, &input[..6], dir.path()).summary.cost;
    assert!(plan.is_fixed);
    assert_eq!((plan.least.calls, plan.most.calls), (cost.calls, cost.calls));
    assert_eq!(plan.least.prompt_tokens, cost.usage.prompt());
    assert_eq!(plan.least.distinct_tokens, Some(cost.usage.distinct));
    assert!(cost.usage.distinct < cost.usage.prompt(), "the template is shared");
    assert!(cost.usage.generated <= plan.most.answer_tokens);
    assert_eq!(plan.most.answer_tokens, 4 * cost.calls);
    // The run folder is about as large as was planned.
    let amount = Amount { answer_tokens: cost.usage.generated, ..plan.least };
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    let sizes = ["calls.jsonl", "journal.jsonl", "verdicts.jsonl", "input.jsonl"].map(size);
    let (planned, size) = (plan.disk(amount, CallRetention::Plain) as f64, sizes.iter().sum::<u64>() as f64);
    assert!((0.7..1.4).contains(&(planned / size)), "{planned} and {size} bytes, {sizes:?}");
    let [packed, off] =
        [CallRetention::Zstd, CallRetention::Off].map(|calls| plan.disk(amount, calls) as f64);
    assert!(packed < planned && off < planned, "{planned} {packed} {off}");
}

/// Answers that quote the translation are longer for a longer one.
#[test]
fn usual_answers_grow_with_the_texts() {
    let (panel, _) = models(Numbers::default());
    let judge = TinyJudge::by(Grouping::Segment);
    let of = |times: usize| {
        let longer = |text: &str| text.repeat(times);
        let input = segments().into_iter().take(4).map(|segment| Segment {
            source: longer(&segment.source),
            hypothesis: longer(&segment.hypothesis),
            ..segment
        });
        plan(&panel, &judge, Calls::exactly(1), &input.collect::<Vec<_>>())
    };
    let (short, long) = (of(1), of(10));
    assert_eq!(long.text_bytes, 10 * short.text_bytes);
    assert_eq!(short.usual(1, [7, 0]).answer_tokens, 4 * 7);
    assert_eq!(long.usual(1, [7, 0]).answer_tokens, 4 * 7);
    let [of_short, of_long] = [short, long].map(|plan| plan.usual(1, [0, 1000]).answer_tokens);
    assert_eq!((of_short, of_long), (short.text_bytes, 10 * short.text_bytes));
}

#[test]
fn what_cannot_be_counted_in_time_is_extrapolated() {
    let (panel, _) = models(Numbers::default());
    let judge = TinyJudge::by(Grouping::Segment);
    let first = &segments()[0];
    let input: Vec<Segment> = (0..3000).map(|seg| Segment { seg, ..first.clone() }).collect();
    let config = options(Path::new("never"));
    let last = Mutex::new((0, 0));
    let shown = |done: usize, of: usize| {
        let mut last = last.lock().unwrap();
        *last = (done.max(last.0), of);
    };
    let count = |time| {
        let counting = Counting { config: &config, time, shown: &shown };
        plan_within(&panel, &judge, Calls::exactly(1), &input[..], &counting).unwrap()
    };
    let cut = count(Some(Duration::ZERO));
    assert!((1..3000).contains(&cut.counted), "{}", cut.counted);
    assert_eq!(*last.lock().unwrap(), (cut.counted, 3000));
    let whole = count(None);
    assert_eq!((whole.counted, whole.groups), (3000, 3000));
    // All segments are alike.
    assert_eq!(
        (cut.least.calls, cut.least.prompt_tokens, cut.most.answer_tokens),
        (whole.least.calls, whole.least.prompt_tokens, whole.most.answer_tokens)
    );
    let said = format!("the prompts of {} of 3000 groups", cut.counted);
    assert!(cut.notes().iter().any(|note| note.contains(&said) && note.contains("extrapolated")));
    assert!(!whole.notes().concat().contains("extrapolated"));
}

/// One translation can have thousands of questions, each about the whole text.
#[test]
fn a_group_that_cannot_be_counted_in_time_is_extrapolated_from_its_first_questions() {
    let (panel, _) = models(Numbers::default());
    let judge = tribunal::replication::build("fsp:sentences=on", &Settings::default()).unwrap();
    let input = [Segment { hypothesis: "Wir gingen. ".repeat(40), ..bank() }];
    let config = options(Path::new("never"));
    let count = |time| {
        let counting = Counting { config: &config, time, shown: &|_, _| {} };
        plan_within(&panel, judge.as_ref(), judge.calls(), &input[..], &counting).unwrap()
    };
    let (cut, whole) = (count(Some(Duration::ZERO)), count(None));
    assert_eq!((whole.least.calls, whole.uncounted), (40, 0));
    assert_eq!((cut.least.calls, cut.uncounted, cut.counted), (40, 39, 1));
    let off = cut.least.prompt_tokens.abs_diff(whole.least.prompt_tokens);
    assert!(off < whole.least.prompt_tokens / 100, "prompts differ by the number of the sentence: {off}");
    assert_eq!(cut.least.distinct_tokens, None);
    assert!(cut.notes().concat().contains("39 prompts of long groups"));
    assert!(!whole.notes().concat().contains("long groups"));
}

#[test]
fn a_trial_that_is_stopped_says_what_it_knows() {
    let (panel, model) = models(Numbers::default());
    let judge = &TinyJudge::by(Grouping::Segment);
    let segments = &Corpus::from_segments(segments()).unwrap();
    let signature = &"method:any".parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = options(dir.path());
    config.stop.cancel();
    let task = Task { panel: &panel, judge, segments, signature };
    let trial = task.trial(&config, Duration::from_hours(1), None).unwrap();
    assert!(trial.is_cut && trial.expected.is_none() && trial.seconds_left.is_none(), "{trial:?}");
    assert_eq!((trial.judged, trial.n_kept, model.asked.load(Ordering::SeqCst)), (0, 0, 0));
}

/// However little time there is, one group is judged; the run goes on from there, to the same verdicts.
#[test]
fn what_depends_on_answers_is_asked_of_a_few_groups_that_the_run_keeps() {
    let panel = || {
        let (annotator, judge) = (Word::new("abc", false), Word::new("yes", true));
        let panel = Panel::new(annotator, Sampling { max_tokens: 10, ..Sampling::default() });
        panel.assign(Role::Judge, judge)
    };
    let input: Vec<Segment> = segments().into_iter().filter(|s| s.system == "zeta").collect();
    let plan = plan(&panel(), &Chain::judge(), Calls { least: 1, typical: 3, most: 9 }, &input);
    let (tried, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let least = trial(&panel(), &Chain::judge(), &input, tried.path(), Duration::ZERO);
    assert_eq!((least.groups, least.judged, least.n_kept), (8, 1, 1));
    assert!(least.seconds_left.is_some_and(|seconds| seconds > 0.0), "{least:?}");
    let outcome = run(&panel(), &Chain::judge(), &input, whole.path());
    let expected = least.expected.unwrap();
    // All segments are as long as each other, and each has four questions.
    assert_eq!((plan.least.calls, expected.calls, outcome.summary.cost.calls), (8, 32, 32));
    assert!((plan.most.calls, plan.most.prompt_tokens, plan.most.answer_tokens) == (72, 72 * 17, 72 * 10));
    assert_eq!((plan.most.distinct_tokens, plan.is_fixed), (None, false));
    let table: Vec<String> = plan.amounts(None).iter().map(|row| row.join(" | ")).collect();
    insta::assert_snapshot!([table, plan.notes()].concat().join("\n"), @"
     | least | most
    model calls | 8 | 72
    prompt tokens, as sent | 136 | 1224
    prompt tokens, shared ones once | 31 | -
    answer tokens | 0 | 720
    least: the calls that depend on no answer, with the shortest answers
    most: the method's limit of calls, each with the longest prompt and the largest answer budget of those that the shortest answers lead to; questions that quote earlier answers can be longer, and those whose answers cannot be used are asked again
    ");

    let more = trial(&panel(), &Chain::judge(), &input, tried.path(), Duration::from_hours(1));
    assert_eq!((more.judged, more.n_kept, more.seconds_left), (7, 8, Some(0.0)));
    let resumed = run(&panel(), &Chain::judge(), &input, tried.path());
    assert_eq!(resumed.resumed, 8);
    let read = |dir: &tempfile::TempDir| std::fs::read(dir.path().join("verdicts.jsonl")).unwrap();
    assert_eq!(read(&tried), read(&whole));
}

#[test]
fn agents_take_what_was_expected() {
    let none = r#"{"annotations": []}"#;
    let error = r#"{"annotations": [{"category": "accuracy/mistranslation", "error_span": "zeta", "severity": "major", "is_source_error": "no"}]}"#;
    let cast = || {
        let cast = Cast::new()
            .on(&["essentially consistent"], &["no"])
            .on(&["accuracy errors detection"], &[error])
            .on(&["errors detection expert"], &[none]);
        Panel::new(Arc::new(cast.on(&[""], &[error])), Sampling::default())
    };
    let judge = tribunal::replication::build("m-mad:shots=0", &Settings::default()).unwrap();
    let input: Vec<Segment> = segments().into_iter().filter(|s| s.system == "zeta").take(4).collect();
    let plan = plan(&cast(), judge.as_ref(), judge.calls(), &input);
    let (tried, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = trial(&cast(), judge.as_ref(), &input, tried.path(), Duration::ZERO).expected.unwrap();
    let cost = run(&cast(), judge.as_ref(), &input, whole.path()).summary.cost;
    assert!(plan.least.calls < cost.calls && cost.calls <= plan.most.calls, "{plan:?} {cost:?}");
    assert_eq!(expected.calls, cost.calls);
    assert_eq!(plan.most.calls, 4 * judge.calls().most);
}

/// Scaled up from a trial, a run takes no less than it surely does and no more than its limit.
fn expect_within(name: &str, panel: &Panel, judge: &Built, input: &[Segment]) -> (Plan, usize) {
    let mut plan = plan(panel, judge.as_ref(), judge.calls(), input);
    let limit = plan.most.calls;
    let out = tempfile::tempdir().unwrap();
    let scaled = trial(panel, judge.as_ref(), input, out.path(), Duration::ZERO).expected;
    let expected = scaled.map_or(plan.least, |scaled| plan.expect(scaled));
    let rows = |amount: Amount| [amount.calls, amount.prompt_tokens, amount.answer_tokens];
    for ((least, expected), most) in rows(plan.least).into_iter().zip(rows(expected)).zip(rows(plan.most)) {
        assert!(least <= expected && expected <= most, "{name}: {least} {expected} {most}");
    }
    let cost = run(panel, judge.as_ref(), input, out.path()).summary.cost;
    let of_stage = |stage: &BTreeMap<String, usize>| stage.get("unusable").copied().unwrap_or(0);
    let again: usize = cost.outcomes.values().map(of_stage).sum();
    assert!(plan.least.calls <= cost.calls, "{name}: {} {}", plan.least.calls, cost.calls);
    assert!(cost.calls - again <= limit, "{name}: {} less {again} of {limit}", cost.calls);
    (plan, cost.calls)
}

/// Every method in every preset, answered by random weights.
#[test]
fn what_is_expected_lies_between_least_and_most() {
    let engine = Arc::new(tiny_engine("qwen2", 64, 16384));
    let rated = tempfile::NamedTempFile::new().unwrap();
    let line = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[]}"#;
    std::fs::write(rated.path(), [line; 5].join("\n")).unwrap();
    // Stand-ins for the prompts that their authors publish without a licence.
    let published = |method: &str| {
        let name = match method {
            "m-mad" => "m_mad/code",
            "himate" => "himate",
            _ => return None,
        };
        Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name))
    };
    // Others read fits, score heads or metrics.
    let others = [Output::States, Output::Head, Output::Estimate];
    let methods = registry::METHODS.iter().filter(|method| !others.contains(&method.output));
    for method in methods {
        for preset in method.presets.iter().copied() {
            let settings = Settings {
                preset,
                granularity: method.granularities.iter().copied().find(|g| *g == Granularity::Seg),
                shots: (method.name == "gmicl").then(|| rated.path().to_owned()),
                prompts: (preset == Preset::Code).then(|| published(method.name)).flatten(),
                max_tokens: Some(64),
                ..Settings::default()
            };
            let request = match (method.name, preset) {
                ("himate", Preset::Paper) => "himate:threshold=0.9",
                ("thinking", _) => "thinking:budget=8",
                ("rate", _) => "rate:rounds=2",
                ("m-mad", Preset::Strict) => "m-mad:rounds=1",
                (name, _) => name,
            };
            let judge = tribunal::replication::build(request, &settings).unwrap();
            let panel = Panel::new(engine.clone(), Sampling { seed: 5, ..Sampling::default() });
            expect_within(&format!("{request}, {preset}"), &panel, &judge, &[bank(), document().remove(1)]);
        }
    }
}

/// RATE's shortest answers lead through more rounds than answers that are sure of a score.
#[test]
fn rate_takes_no_less_than_its_least() {
    let evaluate = r#"{"thought": "", "tool_call": {"name": "general_evaluation_agent", "arguments": {"specific_instruction": ""}}}"#;
    let finish = r#"{"thought": "", "tool_call": {"name": "finish_evaluation", "arguments": {"final_score": 4, "final_rationale": ""}}}"#;
    let sure = r#"{"score": 4, "confidence": 1.0, "rationale": "", "error_spans": [], "suspected_knowledge_gaps": []}"#;
    let cast = Cast::new()
        .on(&["\"rationale\": \"\""], &[finish])
        .on(&["finish_evaluation"], &[evaluate])
        .on(&[""], &[sure]);
    let panel = Panel::new(Arc::new(WithShortest(cast)), Sampling::default());
    let judge = tribunal::replication::build("rate", &Settings::default()).unwrap();
    let input: Vec<Segment> = segments().into_iter().filter(|s| s.system == "zeta").take(4).collect();
    let (plan, calls) = expect_within("rate", &panel, &judge, &input);
    assert_eq!((plan.least.calls, calls, plan.most.calls), (4, 12, 4 * 31));
}
