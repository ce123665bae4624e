//! Non-translations, for every method: the score of its scale for them under `strict`, without a model call.

use std::sync::Arc;

use tribunal_core::{llm::Sampling, segment::Segment};
use tribunal_judges::{Granularity, LanguageCheck, Panel, Preset, Rehearsal, Settings, registry::METHODS};
use tribunal_testing::translation;

const EN: &str =
    "The town council voted on Tuesday to close the old stone bridge for repairs until the end of March.";
const DE: &str =
    "Der Stadtrat beschloss am Dienstag, die alte Brücke wegen Reparaturarbeiten bis März zu sperren.";
const FR: &str =
    "Le conseil municipal a décidé mardi de fermer le vieux pont pour réparations jusqu'à la fin de mars.";

/// The verdicts of a judge on the units of a group without any model, and the number of calls it would have
/// made.
fn judged(request: &str, settings: &Settings, group: &[Segment]) -> String {
    let built = tribunal_replication::build(request, settings).unwrap();
    let panel = Panel::new(Arc::new(Rehearsal::default()), Sampling::default());
    let verdicts = built.judge.judge(&panel, group);
    let asked = !panel.take_calls().is_empty();
    let said = verdicts.iter().zip(built.judge.warnings(group)).map(|(verdict, warning)| {
        let warning = warning.unwrap_or_else(|| "-".into());
        match verdict {
            Ok(verdict) => {
                let quality = verdict.quality_score.map_or_else(String::new, |q| format!(", quality {q}"));
                let errors: Vec<String> = (verdict.errors.iter())
                    .map(|e| format!("{} {} {}", e.severity, e.category, e.weight))
                    .collect();
                format!("{}{quality}; {}; {warning}", verdict.score, errors.join(", "))
            }
            Err(_) => format!("the model's; {warning}"),
        }
    });
    format!("{}{}", said.collect::<Vec<_>>().join(" | "), if asked { " (asked)" } else { "" })
}

fn settings(preset: Preset) -> Settings {
    Settings { preset, language_check: LanguageCheck::On, ..Settings::default() }
}

#[test]
fn every_method_has_a_score_for_what_is_not_a_translation() {
    let group = [translation(("en", "de"), EN, FR)];
    // One reads sources alone, the other needs a file of examples.
    let methods = METHODS.iter().filter(|method| !["difficulty", "gmicl"].contains(&method.name));
    let table: Vec<String> = methods
        .map(|method| format!("{}: {}", method.name, judged(method.name, &settings(Preset::Strict), &group)))
        .collect();
    insta::assert_snapshot!(table.join("\n"), @"
    gemba-mqm: -25; critical non-translation 25; not a translation: in French, not German
    mqm-ape: -25; critical non-translation 25; not a translation: in French, not German
    gemba-da: 0, quality 0; critical non-translation 25; not a translation: in French, not German
    gemba-sqm: 0, quality 0; critical non-translation 25; not a translation: in French, not German
    gemba-stars: 1; critical non-translation 25; not a translation: in French, not German
    gemba-classes: 0; critical non-translation 25; not a translation: in French, not German
    gemba-esa: 0, quality 0; critical non-translation 25; not a translation: in French, not German
    eaprompt: -25; critical non-translation 25; not a translation: in French, not German
    rubric-mqm: -500; critical non-translation 500; not a translation: in French, not German
    fsp: -25, quality 0; critical non-translation 25; not a translation: in French, not German
    gmft: -25; critical non-translation 25; not a translation: in French, not German
    probe: -25; critical non-translation 25; not a translation: in French, not German
    qe: -25; critical non-translation 25; not a translation: in French, not German
    likelihood: the model's; not a translation: in French, not German; the score is the model's (asked)
    remedy: the model's; not a translation: in French, not German; the score is the model's (asked)
    reward: the model's; not a translation: in French, not German; the score is the model's (asked)
    comet: the model's; not a translation: in French, not German; the score is the model's (asked)
    m-mad: -25; critical non-translation 25; not a translation: in French, not German
    himate: -25; critical non-translation 25; not a translation: in French, not German
    rate: 0; critical non-translation 25; not a translation: in French, not German
    thinking: -25; critical non-translation 25; not a translation: in French, not German
    ");
    let scales = [
        "fsp:score=da",
        "gemba-mqm:form=json,da=on",
        "rubric-mqm:scenario=deeprubric-4",
        "rubric-mqm:scenario=deepq-8,score=mean",
        "rubric-mqm:scenario=gemba",
        "eaprompt:w-major=10",
    ]
    .map(|request| format!("{request}: {}", judged(request, &settings(Preset::Strict), &group)));
    insta::assert_snapshot!(scales.join("\n"), @"
    fsp:score=da: 0, quality 0; critical non-translation 25; not a translation: in French, not German
    gemba-mqm:form=json,da=on: 0, quality 0; critical non-translation 25; not a translation: in French, not German
    rubric-mqm:scenario=deeprubric-4: -20; critical non-translation 20; not a translation: in French, not German
    rubric-mqm:scenario=deepq-8,score=mean: -8; critical non-translation 8; not a translation: in French, not German
    rubric-mqm:scenario=gemba: -25; critical non-translation 25; not a translation: in French, not German
    eaprompt:w-major=10: -50; critical non-translation 50; not a translation: in French, not German
    ");
}

#[test]
fn presets_of_papers_only_warn_and_without_the_check_nothing_is_said() {
    let group = [translation(("en", "de"), EN, EN)];
    let paper = judged("gemba-da", &settings(Preset::Paper), &group);
    assert_eq!(
        paper,
        "the model's; not a translation: identical to the source; the score is the model's (asked)"
    );
    let off = Settings { language_check: LanguageCheck::Off, ..settings(Preset::Strict) };
    assert_eq!(judged("gemba-da", &off, &group), "the model's; - (asked)");
    let weights = Settings { weights: Some("gemba".into()), ..settings(Preset::Strict) };
    assert!(
        judged("eaprompt", &settings(Preset::Strict), &group)
            .starts_with("-25; critical non-translation 25;")
    );
    assert!(judged("himate", &weights, &group).starts_with("-25; critical non-translation 25;"));
}

#[test]
fn groups_are_asked_about_what_is_translated_alone() {
    let of = |seg: usize, hypothesis: &str| Segment {
        doc: "d".into(),
        seg,
        ..translation(("en", "de"), EN, hypothesis)
    };
    let half = [of(0, DE), of(1, FR)];
    let fsp = Settings { granularity: Some(Granularity::Seg), ..settings(Preset::Strict) };
    let first = "the model's; -";
    let second = "-25, quality 0; critical non-translation 25; not a translation: in French, not German";
    assert_eq!(judged("fsp", &fsp, &half), format!("{first} | {second} (asked)"));
    let doc = Settings { granularity: Some(Granularity::Doc), ..settings(Preset::Strict) };
    let said = judged("gemba-mqm", &doc, &half);
    assert_eq!(
        said,
        "the model's; 1 of 2 segments is not a translation, first segment 2 (id 1): in French, not German; the score is the \
         model's (asked)"
    );
    let none = [of(0, EN), of(1, FR), of(2, " ")];
    let said = judged("gemba-mqm", &doc, &none);
    assert_eq!(
        said,
        "-25; critical non-translation 25; 2 of 2 segments are not translations, first segment 1 (id 0): identical to the \
         source"
    );
}
