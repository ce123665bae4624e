//! The options of the command line that help with an error of a library. A library's error says what is wrong
//! in its own terms; its variant tells which option to name.

use std::error;

use crate::{
    engine::{self, DeviceError},
    eval::{self, CpuSetting},
    judges::setup,
    llm,
    run::{self, selection},
    segment::{mixed_up::Refusal, read},
};

/// An error's message with the option that helps; `None` where none does.
pub fn text(error: &(dyn error::Error + 'static)) -> Option<String> {
    let hint = None
        .or_else(|| error.downcast_ref().and_then(of_evaluation))
        .or_else(|| error.downcast_ref().and_then(of_run))
        .or_else(|| error.downcast_ref().and_then(of_selection))
        .or_else(|| error.downcast_ref().and_then(of_judge))
        .or_else(|| error.downcast_ref().and_then(of_input))
        .or_else(|| error.downcast_ref().map(of_language))
        .or_else(|| error.downcast_ref().and_then(of_engine))
        .or_else(|| error.downcast_ref().and_then(of_llm))
        .or_else(|| error.downcast_ref().and_then(of_device))?;
    let message = error.to_string();
    let joint = if message.ends_with('?') {
        " "
    } else if message.contains("hint: ") {
        "; "
    } else {
        "\nhint: "
    };
    Some(message + joint + &hint)
}

fn of_evaluation(error: &eval::Error) -> Option<String> {
    use eval::Error as E;
    let hint = match error {
        E::NoInput => {
            "give `-s SOURCE.txt -t HYPOTHESIS.txt -l en-de`, `--input FILE.jsonl`, or `--testset DIR -l en-de`"
        }
        E::SeveralInputs => "give only one of `-s` with `-t`, `--input` and `--testset`",
        E::NoTranslations => "add `-t HYPOTHESIS.txt`, one file for each system",
        E::NoSource => "add `-s SOURCE.txt`",
        E::NoLanguages(_) => "add `-l en-de`; the prompts name them",
        E::NoLanguagesOfRaters(_) => "add `-l en-de`",
        E::DocumentsBesideTexts(_) => "leave `--docs` out",
        E::ReferenceBesideTable => "leave `-r` out",
        E::NothingRated => "leave `--rated` out",
        E::SystemsBesideTestSet => "leave `--systems` out",
        E::Positions { positions, .. } => {
            return Some(format!("`--context {positions}`, or leave `--context` out"));
        }
        E::NoRoom(error) => return of_llm(error),
        E::NotAnAdapter { .. } => "`--adapter` takes a LoRA folder of PEFT's",
        E::AdapterAsModel { folder, base } => {
            let trained =
                if base.is_empty() { String::new() } else { format!(", which was trained on `{base}`") };
            return Some(format!("`--model BASE --adapter {folder}`{trained}"));
        }
        E::WrongGpu { .. } => {
            "`--device cpu`, or another GPU; please report the card, its driver and these lines"
        }
        E::Isa { .. } => "`--cpu-tier auto` takes the fastest of them",
        E::OnlyOnCpu { setting: CpuSetting::FloatActivations, .. } => {
            "leave `--activations` out; GPUs multiply in bf16 and sum in f32"
        }
        E::OnlyOnCpu { setting: CpuSetting::CacheType(_), .. } => {
            "leave `--kv-dtype` out; the cache of GPUs holds bf16"
        }
        E::OnlyOnCpu { setting: CpuSetting::Isa(_), .. } => "leave `--cpu-tier` out",
        E::EmptyFolder => "`--out DIR`",
        E::NoCopyOfInput(_) => {
            "`--allow-files` reads the files that its `run.json` names, wherever they are: only for a folder that you \
             trust"
        }
        E::NoCopy { .. } => "`--allow-files` reads it from there: only for a folder that you trust",
        E::Input(error) => return of_input(error),
        E::Selection(error) => return of_selection(error),
        E::Language(error) => return Some(of_language(error)),
        E::Judge(error) => return of_judge(error),
        E::Device(error) => return of_device(error),
        E::Engine(error) => return of_engine(error),
        E::Run(error) => return of_run(error),
        _ => return None,
    };
    Some(hint.into())
}

fn of_run(error: &run::Error) -> Option<String> {
    use run::Error as E;
    let hint = match error {
        E::Differs { .. } => "the next run takes slower kernels",
        E::Incomplete { .. } => "or add `--partial`",
        E::CallsMissing { .. } => "with `--partial` what is there is joined",
        E::Unrecorded(_) => "its run had `--calls off`; leave `--without-model` out",
        _ => return None,
    };
    Some(hint.into())
}

fn of_selection(error: &selection::Error) -> Option<String> {
    use selection::Error as E;
    let hint = match error {
        E::NothingShared(_) => "`--limit N` takes the first N segments of each system",
        E::NoDocuments => "add `--docs FILE`, or `doc` on each line",
        E::Nothing(_) | E::Unknown { .. } | E::NoneNamed => return None,
    };
    Some(hint.into())
}

fn of_judge(error: &setup::Error) -> Option<String> {
    use setup::Error as E;
    let hint = match error {
        E::Metric { name } => {
            let lexical = ["chrf", "bleu"].into_iter().find(|metric| name.to_lowercase().contains(metric))?;
            return Some(format!(
                "`tribunal meta --lexical {lexical}` computes it from the texts of a test set"
            ));
        }
        E::SameSamples(_) => "add `--temperature 0.7`",
        E::MissingReferences { .. } => {
            "give them (`-r REF.txt`, or a field `reference`), or leave `reference=on` out"
        }
        E::ReferenceNotShown { method } => {
            return Some(format!("`--method {method}:reference=on`, or leave `-r` out"));
        }
        E::ReferenceNotRead { .. } => "leave `-r` out, or use one of these",
        E::NoExamples => {
            "`--shots DIR` of a test set with `human-scores/LP.mqm.RATER.seg.rating`, or a JSONL file"
        }
        E::NoShots => "leave `--shots` out",
        E::NeitherWeightsNorShots => "leave `--weights` and `--shots` out",
        E::AuthorsPrompts { folder, .. } => return Some(format!("add `--prompts {folder}`")),
        _ => return None,
    };
    Some(hint.into())
}

fn of_input(error: &read::Error) -> Option<String> {
    use read::Error as E;
    let hint = match error {
        E::EmptySource { .. } => "`--docs` names it",
        E::Extension(path) if path.is_dir() => "`--testset DIR`",
        E::NoPair { .. } => "`-l en-de` is for all of them",
        E::OtherPairs { .. } => "`-l` chooses",
        _ => return None,
    };
    Some(hint.into())
}

fn of_language(_: &Refusal) -> String {
    "`--language-check off` judges it all the same".into()
}

fn of_engine(error: &engine::Error) -> Option<String> {
    use engine::Error as E;
    Some(match error {
        E::Template { source, .. } => return of_llm(source),
        E::Cache { needed, .. } => format!("`--kv-cache {needed}`"),
        E::Limit { .. } => "raise the limit, or give a smaller `--kv-cache`".into(),
        E::TooMuchCache { .. } => {
            "give a smaller `--kv-cache`, or none: the program then takes what fits".into()
        }
        _ => return None,
    })
}

fn of_llm(error: &llm::Error) -> Option<String> {
    use llm::Error as E;
    let hint = match error {
        E::Template(_) => "`--chat-template FILE` replaces the model's own",
        E::TooLong { .. } | E::TooManyBytes { .. } => {
            "`--max-tokens N` for a shorter answer, or a larger `--context N` where the model has one"
        }
        E::NoSignal => "`--chat-template FILE` replaces it",
        _ => return None,
    };
    Some(hint.into())
}

fn of_device(error: &DeviceError) -> Option<String> {
    use DeviceError as E;
    Some(match error {
        E::NotGpus(_) => "`--device cuda:0,1`, or leave `--tensor-parallel` out".into(),
        E::Groups { n_cards, .. } => {
            let list = (0..*n_cards).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
            format!("`--device cuda:{list}`")
        }
        E::TooFew { .. } => {
            "without `--tensor-parallel`, the model has as few GPUs as hold it; the scores are the same"
                .into()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn options_are_named_however_deep_the_error_lies() {
        let told = |error: eval::Error| text(&error).unwrap_or_else(|| error.to_string());
        assert_eq!(
            told(eval::Error::NoLanguages(eval::InputKind::TestSet)),
            "a test set needs the languages of the translations\nhint: add `-l en-de`; the prompts name them"
        );
        let unrecorded = run::Error::Unrecorded(PathBuf::from("a"));
        let named = "`a` keeps no answers, so its verdicts cannot be derived again without the model\nhint: its run had \
                     `--calls off`; leave `--without-model` out";
        assert_eq!(text(&unrecorded).as_deref(), Some(named));
        assert_eq!(told(unrecorded.into()), named);
        assert_eq!(
            told(setup::Error::SameSamples(3).into()),
            "3 samples at temperature 0 are the same\nhint: add `--temperature 0.7`"
        );
        let template = llm::Error::Template("it does not parse: x".into());
        let hint = "\nhint: `--chat-template FILE` replaces the model's own";
        assert_eq!(text(&template), Some(format!("{template}{hint}")));
        let opened = engine::Error::Template { path: "m".into(), source: template };
        assert_eq!(
            told(opened.into()),
            format!("`m`: the chat template refused the conversation: it does not parse: x{hint}")
        );
        assert_eq!(told(eval::Error::NotAModel("x".into())), eval::Error::NotAModel("x".into()).to_string());
    }

    #[test]
    fn an_option_follows_the_hint_of_the_library() {
        let incomplete =
            run::Error::Incomplete { missing: 1, units: 2, first: "3".into(), shards: "2/3".into() };
        let message = text(&incomplete).unwrap_or_default();
        assert!(message.ends_with("hint: finish these shards first: 2/3; or add `--partial`"), "{message}");
    }
}
