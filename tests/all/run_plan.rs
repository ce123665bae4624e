//! Dry runs held against the runs that they foretell.

use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use tribunal::{
    judges::{Grouping, Judge, Panel, Role, Settings, method::Calls, registry, rehearse},
    llm::Sampling,
    run::{self, Options, Outcome, Plan, Selection, Shard, Show, plan::Computed},
    segment::Segment,
};

use crate::fakes::{Cast, Chain, TinyJudge, Word, segments, tiny_engine};

fn options(out: &Path) -> Options {
    Options {
        out: out.into(),
        selection: Selection::All,
        shard: Shard::WHOLE,
        jobs: 2,
        seed: 3,
        command: Vec::new(),
        show: Show::Quiet,
    }
}

fn plan(panel: &Panel, judge: &dyn Judge, calls: Calls, input: &[Segment]) -> Plan {
    run::plan(panel, judge, calls, input, &options(Path::new("never"))).unwrap()
}

fn run(panel: &Panel, judge: &dyn Judge, input: &[Segment]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    run::run(panel, judge, input, &"method:any".parse().unwrap(), &options(dir.path())).unwrap()
}

#[test]
fn what_depends_on_no_answer_is_exact() {
    let sampling = Sampling { max_tokens: 4, ..Sampling::default() };
    let panel = Panel::new(Arc::new(tiny_engine("qwen2", 16, 4096)), sampling);
    let judge = TinyJudge::by(Grouping::Document);
    let input = segments();
    let plan = plan(&panel, &judge, Calls::exactly(1), &input[..6]);
    let cost = run(&panel, &judge, &input[..6]).summary.cost;
    assert_eq!(plan.expected, None);
    assert_eq!((plan.least.calls, plan.most.calls), (cost.calls, cost.calls));
    assert_eq!(plan.least.prompt_tokens, cost.usage.prompt());
    assert_eq!(plan.least.distinct_tokens, Some(cost.usage.distinct));
    assert!(cost.usage.distinct < cost.usage.prompt(), "the template is shared");
    assert!(cost.usage.generated <= plan.most.answer_tokens);
    assert_eq!(plan.most.answer_tokens, 4 * cost.calls);
}

#[test]
fn what_stands_before_each_token_is_counted_for_the_time() {
    let engine = Arc::new(tiny_engine("qwen2", 16, 4096));
    let sampling = Sampling { max_tokens: 4, ..Sampling::default() };
    let panel = Panel::new(engine.clone(), sampling);
    let judge = TinyJudge::by(Grouping::Segment);
    let input = segments();
    let options = options(Path::new("never"));
    let (plan, loads) =
        run::plan::foretell(&panel, &judge, Calls::exactly(1), &input[..6], &options).unwrap();
    // Every beginning of a prompt is computed once: its last token, with all before it.
    let mut beginnings = HashSet::new();
    let questions = rehearse(&judge, &panel, &input[..6]);
    for question in &questions {
        let ids = engine.prompt_ids(&question.chat).unwrap();
        beginnings.extend((1..=ids.len()).map(|n| ids[..n].to_vec()));
    }
    let pairs = beginnings.iter().map(|beginning| beginning.len() - 1).sum();
    assert_eq!(loads.len(), 1);
    assert_eq!(loads[0].prompts, Computed { tokens: beginnings.len(), pairs });
    assert_eq!(Some(loads[0].prompts.tokens), plan.least.distinct_tokens);
    assert_eq!((loads[0].calls, loads[0].examples.len()), (questions.len(), questions.len()));
    // Each group asks one question, and does nothing else meanwhile.
    assert!(loads[0].side_by_side > 0.0 && loads[0].side_by_side <= 1.0, "{}", loads[0].side_by_side);
}

#[test]
fn what_depends_on_answers_is_asked_of_a_few_groups() {
    let (annotator, judge) = (Word::new("abc", false), Word::new("yes", true));
    let panel = Panel::new(annotator.clone(), Sampling { max_tokens: 10, ..Sampling::default() });
    let panel = panel.seat(Role::Judge, judge.clone());
    let input: Vec<Segment> = segments().into_iter().filter(|s| s.system == "zeta").collect();
    let plan = plan(&panel, &Chain, Calls { least: 1, typical: 3, most: 9 }, &input);
    assert_eq!((annotator.n_asked.load(Ordering::SeqCst), judge.n_asked.load(Ordering::SeqCst)), (5, 15));
    // `What of source 0?` has 17 characters, `And a of source 0?` 5 words.
    let expected = plan.expected.unwrap();
    assert_eq!((plan.least.calls, plan.least.prompt_tokens, plan.least.answer_tokens), (8, 8 * 17, 0));
    assert_eq!((expected.calls, expected.prompt_tokens), (8 * 4, 8 * (17 + 3 * 5)));
    assert_eq!(expected.answer_tokens, 8 * (3 + 3 * 3));
    // `What of source ` once, two characters of each; `And` once, three words of each letter, one of each segment.
    let actual = run(&panel, &Chain, &input).summary.cost;
    assert_eq!(expected.calls, actual.calls);
    assert_eq!(plan.least.distinct_tokens, Some(15 + 8 * 2));
    // The words before the number are shared by all segments, and are counted once although five were judged.
    assert_eq!(expected.distinct_tokens, Some(15 + 8 * 2 + 1 + 3 * 3 + 8 * 3));
    assert_eq!((plan.most.calls, plan.most.prompt_tokens, plan.most.answer_tokens), (72, 72 * 17, 72 * 10));
    assert_eq!(plan.most.distinct_tokens, None);
    let table: Vec<String> = plan.amounts().iter().map(|row| row.join(" | ")).collect();
    insta::assert_snapshot!([table, plan.notes()].concat().join("\n"), @"
     | least | expected | most
    model calls | 8 | 32 | 72
    prompt tokens, as sent | 136 | 256 | 1224
    prompt tokens, shared ones once | 31 | 65 | -
    answer tokens | 0 | 96 | 720
    least: the calls that depend on no answer, with the shortest answers
    expected: what 5 of 8 groups took, drawn by the seed and judged for this, scaled to all
    most: the method's limit of calls, each with the longest prompt and the largest answer budget seen
    ");
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
    let judge = registry::build("m-mad:shots=0", &Settings::default()).unwrap();
    let input: Vec<Segment> = segments().into_iter().filter(|s| s.system == "zeta").take(4).collect();
    let plan = plan(&cast(), judge.as_ref(), judge.calls(), &input);
    let cost = run(&cast(), judge.as_ref(), &input).summary.cost;
    assert_eq!((plan.judged, plan.groups), (4, 4));
    let expected = plan.expected.unwrap();
    assert!(plan.least.calls < cost.calls && cost.calls <= plan.most.calls, "{plan:?} {cost:?}");
    assert_eq!(expected.calls, cost.calls);
    assert_eq!(plan.most.calls, 4 * judge.calls().most);
}
