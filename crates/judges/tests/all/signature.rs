//! The signature against the questions: every setting that changes a byte of a question, of its form or of
//! its budget is signed.

use tribunal_core::llm::Sampling;
use tribunal_judges::{Built, Panel, Preset, Settings, registry, rehearse, setup::OptionSpec};

use crate::{himate_code, m_mad_code};
use tribunal_testing::{Script, document};

/// The questions of a judge about two groups that do not depend on answers, as one text.
fn asked(judge: &Built) -> String {
    let panel = Panel::new(std::sync::Arc::new(Script::new()), Sampling::default());
    let groups = [document(), document()[..1].to_vec()];
    let questions = groups.iter().flat_map(|group| rehearse(judge.as_ref(), &panel, group, None));
    questions.map(|question| format!("{question:?}\n")).collect()
}

/// A file of rated translations, which gmicl cannot do without.
fn settings(method: &str, rated: &std::path::Path) -> Settings {
    let shots = (method == "gmicl").then(|| rated.to_owned());
    Settings { shots, ..Settings::default() }
}

fn rated(dir: &std::path::Path) -> std::path::PathBuf {
    let path = dir.join("rated.jsonl");
    let line = |doc: usize| {
        format!(
            r#"{{"source_lang":"A","source":"s{doc}","target_lang":"B","target":"t","errors":[],"doc":"{doc}"}}"#
        )
    };
    std::fs::write(&path, (0..25).map(|doc| line(doc) + "\n").collect::<String>()).unwrap();
    path
}

/// Values for trials of an option; options with files are tested with their methods.
fn values(choice: &OptionSpec) -> Vec<String> {
    let one = |value: &&str| match *value {
        "<number>" => vec!["0.5".to_owned(), "2".to_owned(), "7".to_owned()],
        "<file>" => Vec::new(),
        word => vec![word.to_owned()],
    };
    choice.values.iter().flat_map(one).collect()
}

#[test]
fn every_option_of_every_method_is_signed_or_moves_no_byte() {
    let dir = tempfile::tempdir().unwrap();
    let rated = rated(dir.path());
    let mut tried = 0;
    for method in registry::METHODS {
        let settings = settings(method.name, &rated);
        for preset in method.presets {
            // Published files, or their stand-ins.
            let prompts = match method.name {
                "m-mad" if *preset == Preset::Code => Some(m_mad_code::published()),
                "himate" if *preset == Preset::Code => Some(himate_code::published()),
                _ => None,
            };
            let settings = Settings { preset: *preset, prompts, ..settings.clone() };
            let Ok(plain) = tribunal_replication::build(method.name, &settings) else { continue };
            for choice in &method.all_options() {
                for value in values(choice) {
                    let request = format!("{}:{}={value}", method.name, choice.name);
                    // Some options need others beside them, some are not of this preset.
                    let Ok(built) = tribunal_replication::build(&request, &settings) else { continue };
                    tried += 1;
                    let signed = built.signature() != plain.signature();
                    assert!(signed || asked(&built) == asked(&plain), "{request} ({preset}) is not signed");
                }
            }
        }
    }
    assert!(tried > 100, "only {tried} options could be tried");
}

#[test]
fn every_setting_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let rated = rated(dir.path());
    for method in registry::METHODS {
        let plain = settings(method.name, &rated);
        let signature = |settings: &Settings| {
            tribunal_replication::build(method.name, settings).ok().map(|built| built.signature())
        };
        let before = signature(&plain);
        let mut others = vec![Settings { max_tokens: Some(77), ..plain.clone() }];
        others.extend(
            method
                .presets
                .iter()
                .filter(|p| **p != plain.preset)
                .map(|p| Settings { preset: *p, ..plain.clone() }),
        );
        others.extend(
            method.granularities[1..].iter().map(|g| Settings { granularity: Some(*g), ..plain.clone() }),
        );
        others.push(Settings { weights: Some("xcomet".into()), ..plain.clone() });
        for other in others {
            // A setting that a method does not have is an error.
            let after = signature(&other);
            assert!(after.is_none() || after != before, "{}: {other:?}", method.name);
        }
    }
}
