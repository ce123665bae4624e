//! Errors of the libraries in the words of a command line: which option is meant, and which one helps. The
//! libraries' errors name no options; the names are added here.

use std::error;

use crate::{
    engine::{self, DeviceError},
    eval::{
        self, CpuSetting, InputKind,
        run::{self, groups::ShardError, selection},
    },
    hub,
    judges::setup,
    llm,
    segment::{mixed_up::Refusal, read},
};

/// The text of an error whose message or hint can name an option; `None` for all others.
#[must_use]
pub fn text(error: &(dyn error::Error + 'static)) -> Option<String> {
    None.or_else(|| error.downcast_ref().and_then(of_evaluation))
        .or_else(|| error.downcast_ref().and_then(of_run))
        .or_else(|| error.downcast_ref().and_then(of_selection))
        .or_else(|| error.downcast_ref().map(of_shard))
        .or_else(|| error.downcast_ref().and_then(of_judge))
        .or_else(|| error.downcast_ref().and_then(of_input))
        .or_else(|| error.downcast_ref().map(of_language))
        .or_else(|| error.downcast_ref().and_then(of_engine))
        .or_else(|| error.downcast_ref().and_then(of_llm))
        .or_else(|| error.downcast_ref().and_then(of_device))
        .or_else(|| error.downcast_ref().and_then(of_card))
}

/// An error's own message with a hint below it.
fn with(error: &impl error::Error, hint: &str) -> String {
    format!("{error}\nhint: {hint}")
}

fn of_evaluation(error: &eval::Error) -> Option<String> {
    use eval::Error as E;
    let whole = match error {
        E::NoInput => {
            "nothing to judge\nhint: give `-s SOURCE.txt -t HYPOTHESIS.txt -l en-de`, `--input FILE.jsonl`, or \
             `--testset DIR -l en-de`"
                .into()
        }
        E::SeveralInputs => {
            "`-s/-t`, `--input` and `--testset` cannot be combined\nhint: give only one of them".into()
        }
        E::NoTranslations => {
            "`-s` needs translations\nhint: add `-t HYPOTHESIS.txt`, one file for each system".into()
        }
        E::NoSource => "`-t` needs the source text\nhint: add `-s SOURCE.txt`".into(),
        E::NoLanguages(kind) => {
            format!("`{}` needs the languages\nhint: add `-l en-de`; the prompts name them", option(*kind))
        }
        E::NoLanguagesOfRaters(_) => with(error, "add `-l en-de`"),
        E::DocumentsBesideTexts(kind) => {
            format!("`--docs` belongs to `-s` and `-t`; `{}` brings its own documents", option(*kind))
        }
        E::ReferenceBesideTable => {
            "`-r` belongs to `-s` and `-t`, or names the reference of `--testset`; `--input` brings its own references".into()
        }
        E::SystemsBesideTestSet => "`--systems` works only with `--testset`".into(),
        E::Documents { file, .. } => format!("`--documents {}`", file.display()),
        E::ChatTemplate { file, reason } => format!("`--chat-template {}`: {reason}", file.display()),
        E::NotAnAdapter { .. } => with(error, "`--adapter` takes a LoRA folder of PEFT's"),
        E::AdapterAsModel { folder, base } => {
            let trained =
                if base.is_empty() { String::new() } else { format!(", which was trained on `{base}`") };
            with(error, &format!("`--model BASE --adapter {folder}`{trained}"))
        }
        E::NotAGpu(device) => format!("`--device {device}` is not a GPU"),
        E::WrongGpu { .. } => {
            with(error, "`--device cpu`, or another GPU; please report the card, its driver and these lines")
        }
        E::Isa { isa, available } => format!(
            "`--cpu-tier {isa}`: this processor does not support it, only {available}; hint: `auto` takes the fastest of them"
        ),
        E::OnlyOnCpu { setting, device } => only_on_cpu(setting, device),
        E::EmptyFolder => "`--out` is empty".into(),
        E::NoCopyOfInput(_) => {
            with(error, "`--allow-files` reads the files that its `run.json` names, wherever they are: only for a folder that \
                 you trust")
        }
        E::NoCopy { .. } => {
            with(error, "`--allow-files` reads it from there: only for a folder that you trust")
        }
        E::Input(error) => return of_input(error),
        E::Selection(error) => return of_selection(error),
        E::Language(error) => of_language(error),
        E::Judge(error) => return of_judge(error),
        E::Card(error) => return of_card(error),
        E::Device(error) => return of_device(error),
        E::Engine(error) => return of_engine(error),
        E::Run(error) => return of_run(error),
        _ => return None,
    };
    Some(whole)
}

/// The option of an input.
fn option(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Texts => "-s",
        InputKind::Table => "--input",
        InputKind::TestSet => "--testset",
    }
}

fn only_on_cpu(setting: &CpuSetting, device: &str) -> String {
    match setting {
        CpuSetting::FloatActivations => format!(
            "`--activations float` is for CPUs; `--device {device}` multiplies in bf16 and sums in f32"
        ),
        CpuSetting::CacheType(kv) => {
            format!("`--kv-dtype {kv}` is for CPUs; the cache of `--device {device}` holds bf16")
        }
        CpuSetting::Isa(isa) => format!("`--cpu-tier {isa}` and `--device {device}` exclude each other"),
    }
}

fn of_run(error: &run::Error) -> Option<String> {
    use run::Error as E;
    let replaced = |from: &str, to: &str| Some(error.to_string().replace(from, to));
    match error {
        E::OtherSignature { .. } | E::OtherInput { .. } | E::Locked { .. } => {
            replaced("use another folder", "use another `--out`")
        }
        E::Differs { .. } => replaced(
            "run the same command again",
            "run the same command again, which takes `--gpu-kernels proven`,",
        ),
        E::Unlockable { .. } => replaced("a folder on another disk", "an `--out` on another disk"),
        E::NotAFolder(_) => replaced("a run folder is made", "`--out` names the run folder, which is made"),
        E::NoRun(_) | E::NoVerdicts(_) => replaced("`tribunal score`", "`tribunal score --out DIR`"),
        E::Incomplete { .. } => Some(format!("{error}; or add `--partial`")),
        E::CallsMissing { .. } => Some(format!("{error}; with `--partial` what is there is joined")),
        E::Unrecorded(_) => Some(
            error.to_string().replace("no answers,", "no answers (`--calls off`),")
                + "\nhint: leave out `--without-model`",
        ),
        _ => None,
    }
}

fn of_selection(error: &selection::Error) -> Option<String> {
    use selection::Error as E;
    match error {
        E::Nothing(what) => Some(format!("`--{what} 0` leaves nothing to judge")),
        E::NothingShared(n) => Some(format!(
            "no document is translated by all {n} systems, so `--subset` cannot draw the same ones for each\nhint: \
             `--limit N` takes the first N segments of each system"
        )),
        E::NoDocuments => Some(with(error, "add `--docs FILE`, or `doc` on each line")),
        E::Unknown { .. } | E::NoneNamed => None,
    }
}

fn of_shard(error: &ShardError) -> String {
    let said = error.to_string();
    said.replace("`1/3`, `2/3`, `3/3`", "`--shard 1/3`, `--shard 2/3`, `--shard 3/3`")
}

fn of_judge(error: &setup::Error) -> Option<String> {
    use setup::Error as E;
    match error {
        E::SameSamples(_) => Some(with(error, "add `--temperature 0.7`")),
        E::MissingReferences { .. } => {
            Some(with(error, "give them (`-r REF.txt`, or a field `reference`), or leave `reference=on` out"))
        }
        E::ReferenceNotShown { method } => Some(format!(
            "`-r` gives a reference, and `{method}` does not show it\nhint: `--method {method}:reference=on`, or leave `-r` out"
        )),
        E::ReferenceNotRead { method, readers } => {
            Some(format!("`{method}` judges without a reference\nhint: leave `-r` out, or use {readers}"))
        }
        E::NoExamples => Some(with(
            error,
            "`--shots DIR` of a test set with `human-scores/LP.mqm.RATER.seg.rating`, or a JSONL file",
        )),
        E::NoShots => Some(with(error, "leave `--shots` out")),
        E::NeitherWeightsNorShots => Some(with(error, "leave `--weights` and `--shots` out")),
        E::AuthorsPrompts { folder, .. } => Some(format!("{error} and add `--prompts {folder}`")),
        E::Conflict(reason) => with_options(reason, &IN_CONFLICTS),
        _ => None,
    }
}

/// Phrases in messages about conflicting settings, each with its wording by options.
const IN_CONFLICTS: [(&str, &str); 5] = [
    (
        "other rated translations as shots, another seed with",
        "other rated translations (`--shots`), another `--seed` with",
    ),
    ("leave weights and shots out", "leave `--weights` and `--shots` out"),
    ("leave the weights out", "leave `--weights` out"),
    (
        "choose a generative method, such as `gemba-mqm`",
        "add `--method gemba-mqm` or another generative method",
    ),
    ("hint: use preset `", "hint: use `--preset "),
];

/// Phrases in notes, each with its wording by options.
const IN_NOTES: [(&str, &str); 2] = [
    ("name them, in a file of documents or by", "name them, with `--docs FILE` or by"),
    ("hint: shots of this pair", "hint: `--shots FILE` with examples of this pair"),
];

/// A note of an evaluation, with the option that helps.
#[must_use]
pub fn note(note: &str) -> String {
    with_options(note, &IN_NOTES).unwrap_or_else(|| note.to_owned())
}

/// A text with one phrase replaced; `None` where it has none of them.
fn with_options(text: &str, phrases: &[(&str, &str)]) -> Option<String> {
    let (from, to) = phrases.iter().find(|(from, _)| text.contains(from))?;
    Some(text.replace(from, to))
}

fn of_input(error: &read::Error) -> Option<String> {
    use read::Error as E;
    let (from, to) = match error {
        E::EmptySource { .. } => ("by a file of their own", "by `--docs`"),
        E::Extension(_) => {
            let said = error.to_string();
            let said = said.replace("is a test set", "is given with `--testset`");
            return Some(said.replace(
                "plain text is a source text with translations",
                "for plain text use `-s SOURCE.txt -t HYPOTHESIS.txt`",
            ));
        }
        E::Markup { .. } => ("such a folder is a test set", "such a folder is given with `--testset`"),
        E::NoPair { .. } => (
            "name them, by `src_lang` and `tgt_lang` on each line or for all of them",
            "add `-l en-de`, or `src_lang` and `tgt_lang` on each line",
        ),
        E::OtherPairs { .. } => ("; choose one of them", "; `-l` chooses one of them"),
        E::SeveralTests { .. } => (
            "give the source and the translations of one of them",
            "give `-s` and `-t` the files of one of them",
        ),
        _ => return None,
    };
    Some(error.to_string().replace(from, to))
}

fn of_language(error: &Refusal) -> String {
    format!("{error}, or `--language-check off` to judge it all the same")
}

fn of_engine(error: &engine::Error) -> Option<String> {
    use engine::Error as E;
    match error {
        E::Template { path, source } => of_llm(source).map(|said| format!("`{path}`: {said}")),
        E::Cache { needed, .. } => Some(format!("{error}; hint: `--kv-cache {needed}`")),
        E::Limit { .. } => Some(format!("{error}; hint: raise the limit, or give a smaller `--kv-cache`")),
        E::TooMuchCache { asked, free } => Some(format!(
            "`--kv-cache {asked}` is more than the memory that is free beside the weights, {free}; hint: give less, or leave \
             the option out: the program then takes what fits"
        )),
        _ => None,
    }
}

fn of_llm(error: &llm::Error) -> Option<String> {
    use llm::Error as E;
    match error {
        E::Template(reason) if reason.contains("hint: give one") => {
            Some(error.to_string().replace("hint: give one", "hint: give one with `--chat-template FILE`"))
        }
        E::Template(reason) if reason.contains("; hint:") || reason.contains("the prompt is empty") => None,
        E::Template(_) => Some(with(error, "`--chat-template FILE` replaces the model's own")),
        E::TooLong { .. } | E::TooManyBytes { .. } => Some(with(
            error,
            "`--max-tokens N` for a shorter answer, or a larger `--context N` where the model has one",
        )),
        E::NoSignal => Some(format!("{error} `--chat-template FILE` replaces it")),
        _ => None,
    }
}

fn of_device(error: &DeviceError) -> Option<String> {
    use DeviceError as E;
    match error {
        E::NotGpus(n) => Some(format!(
            "`--tensor-parallel {n}` is for GPUs that are named; hint: `--device cuda:0,1`, or leave out `--tensor-parallel`"
        )),
        E::Groups { n_cards, n_devices } => {
            let list = (0..*n_cards).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
            Some(format!(
                "`--tensor-parallel {n_cards}` needs a multiple of {n_cards} GPUs, and `--device` names {n_devices}; hint: \
                 `--device cuda:{list}`"
            ))
        }
        E::TooFew { n_cards, n_devices } => Some(format!(
            "`--tensor-parallel {n_cards}` needs {n_cards} GPUs, and there are {n_devices}; hint: without `--tensor-parallel`, \
             the model has as few GPUs as hold it; the scores are the same"
        )),
        E::Group { n_cards, reason } => Some(format!("`--tensor-parallel {n_cards}`: {reason}")),
        E::NoDevice { .. } => Some(error.to_string().replace("; or choose `cpu`", "; or `--device cpu`")),
        _ => None,
    }
}

fn of_card(error: &hub::Error) -> Option<String> {
    use hub::Error as E;
    let (from, to) = match error {
        E::NotPulled { .. } => ("the folder of weights that", "`--model FOLDER` for weights that"),
        E::NoSource { .. } => ("name it as the model", "give `--model FOLDER`"),
        _ => return None,
    };
    Some(error.to_string().replace(from, to))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn options_are_named_however_deep_the_error_lies() {
        let told = |error: eval::Error| text(&error).unwrap_or_else(|| error.to_string());
        assert_eq!(
            told(eval::Error::NoLanguages(InputKind::TestSet)),
            "`--testset` needs the languages\nhint: add `-l en-de`; the prompts name them"
        );
        let occupied = run::Error::NotAFolder(PathBuf::from("a"));
        let named =
            "`a` is a file\nhint: `--out` names the run folder, which is made where it does not exist";
        assert_eq!(text(&occupied).as_deref(), Some(named));
        assert_eq!(told(occupied.into()), named);
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
        let cache = engine::Error::TooMuchCache { asked: "4GiB".into(), free: "2GiB".into() };
        assert!(told(cache.into()).starts_with("`--kv-cache 4GiB` is more than"));
        assert_eq!(told(eval::Error::NotAModel("x".into())), eval::Error::NotAModel("x".into()).to_string());
    }

    /// Each phrase that a hint replaces in another crate's message must still be part of that message.
    #[test]
    fn replaced_words_are_there() {
        let path = || PathBuf::from("a");
        for error in [
            read::Error::NoPair { path: path(), line: 1 },
            read::Error::OtherPairs { path: path(), pair: "en-de".into(), there: "en-fr".into() },
            read::Error::EmptySource { path: path(), line: 1, more: String::new() },
            read::Error::SeveralTests { dir: path(), pair: "en-de".into(), tests: "a, b".into() },
            read::Error::Extension(path()),
            read::Error::Extension(".".into()),
        ] {
            assert_ne!(of_input(&error), Some(error.to_string()));
        }
        let reason = || std::io::Error::other("none");
        for error in [
            run::Error::OtherSignature { dir: path(), differences: String::new() },
            run::Error::OtherInput { dir: path(), there: "1".into(), here: "2".into(), reason: "x".into() },
            run::Error::Locked { dir: path(), by: "x".into() },
            run::Error::Unlockable { dir: path(), kind: "nfs".into(), source: reason() },
            run::Error::NotAFolder(path()),
            run::Error::NoRun(path()),
            run::Error::NoVerdicts(path()),
            run::Error::Unrecorded(path()),
        ] {
            let said = of_run(&error).unwrap_or_default();
            assert!(said.contains("--"), "{error}: {said}");
        }
        for error in [
            hub::Error::NotPulled { name: "x".into(), folder: path() },
            hub::Error::NoSource { name: "x".into(), reasons: Vec::new() },
        ] {
            assert!(of_card(&error).unwrap_or_default().contains("`--model FOLDER`"), "{error}");
        }
    }
}
