//! Errors of a meta-evaluation in the words of its command line.

use std::error;

use crate::meta::{Advice, Error};

/// The text of an error whose message names an option, or has a hint that does; `None` for all others.
pub fn text(error: &(dyn error::Error + 'static)) -> Option<String> {
    let error: &Error = error.downcast_ref()?;
    let hint = match error {
        Error::Advised { advice, .. } => advised(advice),
        Error::MissingSystem { others, .. } if others.is_empty() => "score it".to_owned(),
        Error::MissingSystem { others, .. } => {
            format!("score it, or compare the others: --systems {}", others.join(","))
        }
        Error::NoFolder(_) => {
            "`--testset` takes the folder of a test set in the layout of mt-metrics-eval, not the name of one"
                .to_owned()
        }
        Error::NoGold { gold, lp, known } if known == "none" => {
            return Some(format!(
                "no human scores `{gold}` for `{lp}`; hint: the folder has none, which would be \
                 `human-scores/{lp}.NAME.seg.score`"
            ));
        }
        Error::NoGold { gold, lp, known } => {
            return Some(format!("no human scores `{gold}` for `{lp}`; hint: `--gold` may be {known}"));
        }
        Error::OtherTranslation { .. } => {
            "judge with `--testset`, which numbers segments as the folder does".to_owned()
        }
        _ => return None,
    };
    Some(format!("{error}; hint: {hint}"))
}

fn advised(advice: &Advice) -> String {
    match advice {
        Advice::EachSystem => "--coverage each takes each system's own".into(),
        Advice::EachPair => {
            "`--coverage each` compares each system with the baseline on what those two share; `--baseline` names it".into()
        }
        Advice::EachMetric => {
            "--coverage each compares each metric on what it scored, --metrics and --scores choose metrics"
                .into()
        }
        Advice::NameSystems => "--systems names the translations to compare, human ones too".into(),
        Advice::OtherGold => "--gold chooses other human scores, --systems other systems".into(),
        Advice::Reference { lp, known } => format!("there are {known}, and --reference {lp}=NAME chooses"),
        Advice::FullName(names) => {
            format!("name it in full ({names}), or choose another reference with --reference")
        }
        Advice::Lexical(name) => format!("`--lexical {name}` computes it from the texts"),
        Advice::BySegment => "judge with `--granularity seg`".into(),
        Advice::ReadAnswers => "leave --recorded out to read the answers themselves".into(),
        Advice::JudgeTestSet(known) => {
            format!("its systems are {known}; `tribunal score --testset` judges them")
        }
    }
}
