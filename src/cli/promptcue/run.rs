//! `tribunal promptcue run`: asks a model about marked spans in one of RUBRIC-MQM's scenarios and writes the
//! answers. `promptcue score` scores them.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    digest,
    eval::{Invocation, ModelLoader, ModelSpec, Resources, SamplingSpec, spec::sampling_signature},
    files,
    judges::{
        Panel, Preset, Settings, in_parallel,
        registry::{self, Signed},
        rubric_mqm::{self, Scenario, Texts, scenario},
    },
    mqm::locate,
    replication::{
        promptcue::gold::{self, Cue},
        rubric_mqm::Classifier,
    },
    segment::Lang,
    signature::Signature,
};

/// The files of a run: the answers, and what they are answers to.
const ANSWERS: &str = "answers.jsonl";
const RUN: &str = "run.json";

/// The set and scenario to ask about, and the model to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The set: CSV or JSONL.
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// gemba, deepcat, deepshot, deepcatshot, deeprubric-4, -8, -100, deepq-4, -8, -100, or a short name like
    /// `DR-100`.
    #[arg(long, value_name = "NAME")]
    pub scenario: String,
    /// The folder for `answers.jsonl`; the same command continues where it stopped.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// paper or code (free text), or strict (JSON, written as lines of the printed layout).
    #[arg(long, default_value = "strict")]
    pub preset: Preset,
    /// Only the first N cues.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub model: ModelSpec,
    #[command(flatten)]
    pub sampling: SamplingSpec,
    #[command(flatten)]
    pub engine: Resources,
}

/// Asks about every cue that has no answer yet. Returns the number of cues, and of those without a usable
/// answer.
///
/// # Errors
/// If the set, model or folder cannot be used, or the folder has answers from another run.
pub fn run(args: &RunArgs, invocation: &Invocation, load: ModelLoader) -> Result<(usize, usize)> {
    let mut cues = gold::read(&args.input)?;
    cues.truncate(args.limit.unwrap_or(cues.len()));
    let (judge, signed) = judge(args)?;
    let models = load(&args.model, &args.engine, args.sampling.sampling())?;
    let Signed { method, prompts } = signed;
    let sampling = sampling_signature(&args.sampling.sampling());
    let signature = Signature::new().with("task", "promptcue").followed_by(&method);
    let signature = signature.followed_by(&models.signature).followed_by(&prompts).followed_by(&sampling);
    let about = json!({
        "signature": signature.to_string(),
        "scenario": judge.scenario().short_name(),
        "input": args.input.display().to_string(),
        "sha256": digest::sha256(fs::read(&args.input)?),
    });
    let answered = resume(&args.out, &about)?;
    let mut missing = answered.iter().filter(|(_, has_answer)| !has_answer).count();
    let open: Vec<&Cue> = cues.iter().filter(|cue| !answered.iter().any(|(id, _)| *id == cue.id)).collect();
    let path = args.out.join(ANSWERS);
    let mut file = files::append(&path)?;
    invocation.writing.keeps(format!("answers so far are in `{}`; the same command goes on", path.display()));
    for part in open.chunks(models.jobs(args.engine.jobs)) {
        let lines = in_parallel(part, |_, cue| line(&judge, &models.panel, cue));
        for line in lines {
            missing += usize::from(line["review"].is_null());
            writeln!(file, "{line}").with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        file.flush()?;
    }
    Ok((cues.len(), missing))
}

fn judge(args: &RunArgs) -> Result<(Classifier, Signed)> {
    let Some(found) = Scenario::named(&args.scenario) else {
        bail!(
            "there is no scenario `{}`; hint: use one of {}",
            args.scenario,
            scenario::NAMES.map(|(name, ..)| name).join(", ")
        );
    };
    let long = scenario::NAMES.iter().find(|(.., scenario)| *scenario == found).map_or("", |(name, ..)| name);
    let settings =
        Settings { preset: args.preset, max_tokens: args.sampling.max_tokens, ..Settings::default() };
    let method = registry::find(rubric_mqm::METHOD.name)?;
    let options = method.parse_options(&format!("scenario={long}"))?;
    let judge = Classifier::new(&settings, &rubric_mqm::Options::read(&options))?;
    let signed = registry::sign(method, &settings, &options, &judge.provenance());
    Ok((judge, signed))
}

/// One line of the answers: `review` is null where there is no usable answer, and `reason` has the cause.
fn line(judge: &Classifier, panel: &Panel, cue: &Cue) -> Value {
    let (source, target) = match marked(cue) {
        Ok(texts) => texts,
        Err(reason) => return json!({ "id": cue.id, "review": null, "reason": reason }),
    };
    let (source_lang, target_lang) = (language(&cue.source_lang), language(&cue.target_lang));
    let texts = Texts {
        source_lang: &source_lang,
        source: &source,
        target_lang: &target_lang,
        target: &target,
        reference: None,
    };
    match judge.classify(&panel.fresh(), &texts) {
        Ok(review) => json!({ "id": cue.id, "review": review }),
        Err(error) => json!({ "id": cue.id, "review": null, "reason": error.to_string() }),
    }
}

/// The texts with the gold span in `<v>` and `</v>`. Sets mark it themselves; where neither text is marked,
/// the span is where [`locate::first`] finds it, in the translation if it is there and else in the source:
/// the gold category does not affect the texts that the model is shown.
///
/// # Errors
/// The reason why nothing can be marked: no span, or marks that the texts have of their own.
fn marked(cue: &Cue) -> Result<(String, String), &'static str> {
    let (span, source, target) = (cue.error_span.as_str(), cue.source.clone(), cue.target.clone());
    let count = |mark: &str| source.matches(mark).count() + target.matches(mark).count();
    let is_pair = [&source, &target].iter().any(|text| {
        let inside = text.split_once("<v>").and_then(|(_, tail)| tail.split_once("</v>"));
        inside.is_some_and(|(inside, _)| span.trim().is_empty() || inside.trim() == span.trim())
    });
    match (count("<v>"), count("</v>")) {
        (0, 0) => {}
        (1, 1) if is_pair => return Ok((source, target)),
        _ => return Err("the texts hold `<v>` or `</v>` that do not mark the cue's `error_span` alone"),
    }
    let mark = |text: &str| {
        let (before, after) = text.split_at(locate::first(text, span)?);
        Some(format!("{before}<v>{span}</v>{}", &after[span.len()..]))
    };
    match (mark(&target), mark(&source)) {
        (Some(target), _) => Ok((source, target)),
        (None, Some(source)) => Ok((source, target)),
        _ => Err("neither text has a span in `<v>` and `</v>` or contains the cue's `error_span`"),
    }
}

/// The name of a language, where a set gives its code: `En` is English.
fn language(code: &str) -> String {
    Lang::parse(&code.to_lowercase()).map_or_else(|_| code.to_owned(), |lang| lang.name().to_owned())
}

/// The ids that already have a line, and whether it is a usable answer.
fn resume(out: &Path, about: &Value) -> Result<BTreeSet<(usize, bool)>> {
    fs::create_dir_all(out).with_context(|| format!("cannot make `{}`", out.display()))?;
    let (path, answers) = (out.join(RUN), out.join(ANSWERS));
    if path.exists() {
        let description: Value = serde_json::from_str(&files::read_own_to_string(&path)?)
            .with_context(|| format!("`{}`", path.display()))?;
        if description != *about {
            bail!(
                "`{}` holds answers from another run\nhint: give another --out\nthere: {description}\nhere: {about}",
                out.display()
            );
        }
    } else if answers.exists() {
        bail!(
            "`{}` holds answers but no `{RUN}` to say where they come from\nhint: give another --out",
            out.display()
        );
    }
    files::replace(&path, |file| writeln!(file, "{about:#}"))?;
    let text = if answers.exists() { files::read_own_to_string(&answers)? } else { String::new() };
    // A line that a crash cut off is requested again.
    let complete: Vec<&str> = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    if complete.concat() != text {
        files::replace(&answers, |file| file.write_all(complete.concat().as_bytes()))?;
    }
    let mut seen = BTreeSet::new();
    for line in complete {
        let line: Value = serde_json::from_str(line).with_context(|| format!("`{}`", answers.display()))?;
        let id = line["id"]
            .as_u64()
            .with_context(|| format!("`{}` has a line without an id", answers.display()))?;
        seen.insert((usize::try_from(id)?, !line["review"].is_null()));
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(source: &str, target: &str, error_span: &str, category: &str) -> Cue {
        Cue {
            id: 0,
            source: source.into(),
            reference: String::new(),
            target: target.into(),
            error_span: error_span.into(),
            category: category.into(),
            severity: "major".into(),
            source_lang: "Chinese".into(),
            target_lang: "En".into(),
        }
    }

    #[test]
    fn spans_are_marked_once() {
        let check = |cue: Cue, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(source, target)| (source.to_owned(), target.to_owned()));
            assert_eq!(marked(&cue).ok(), expected);
        };
        check(cue("a <v>b</v>", "b c", "b", "omission"), Some(("a <v>b</v>", "b c")));
        check(cue("a b", "b c b", "b", "grammar"), Some(("a b", "<v>b</v> c b")));
        // Which side is marked does not give the category away.
        check(cue("a b", "b c", "b", "omission"), Some(("a b", "<v>b</v> c")));
        check(cue("a b", "c", "b", "omission"), Some(("a <v>b</v>", "c")));
        check(cue("a b", "c", "b", "grammar"), Some(("a <v>b</v>", "c")));
        check(cue("a", "c", "", "no-error"), None);
        check(cue("a", "c", "d", "grammar"), None);
        // A span with spaces at its ends, as published sets have it, and one that is not named.
        check(cue("a", "c <v> b </v> d", "b", "grammar"), Some(("a", "c <v> b </v> d")));
        check(cue("a", "c <v>b</v>", "", "grammar"), Some(("a", "c <v>b</v>")));
    }

    #[test]
    fn marks_of_the_texts_own_are_no_cue() {
        let refused =
            |source: &str, target: &str, span: &str| marked(&cue(source, target, span, "grammar")).is_err();
        assert!(refused("a", "the tag <v> stands for video", "video"));
        assert!(refused("a", "<v>b</v> and <v>", "b"));
        assert!(refused("a <v>b</v>", "<v>b</v>", "b"));
        assert!(refused("a", "<v>c</v> b", "b"));
        assert!(refused("a", "</v>b<v>", "b"));
    }

    #[test]
    fn languages_by_name() {
        assert_eq!(
            (language("En"), language("Chinese"), language("")),
            ("English".into(), "Chinese".into(), String::new())
        );
    }
}
