//! ReMedy: the score head of a model that was trained on pairs of translations reads source, reference and
//! translation as a chat. Tan and Monz, "ReMedy: Learning Machine Translation Evaluation from Human
//! Preferences with Reward Modeling" (EMNLP 2025); <https://github.com/Smu-Tan/Remedy>, commit 6f1519c. It
//! names no errors.
//!
//! Differs:
//! - Tokens. The code has trl render the chat as text, in which the template writes `<bos>`, and tokenizes
//!   that text as any other, which puts a second `<bos>` in front. So does this judge. In the code a control
//!   token in a text acts; here none does.
//! - Score. Code: the output of the head (`raw`) and its logistic function (`sigmoid`), means of systems over
//!   either. `score=sigmoid` is the default here; `raw` in verdicts is the output in both cases. The code's
//!   calibration divides the outputs of a whole file by a temperature that follows from all of them
//!   (`tribunal meta --also temperature`); a verdict here depends on its segment alone.
//! - Numbers. Code: bf16 by vLLM. Here the head and the norm before it are computed in f64.
//! - Languages: the code's 36 names in its spelling; others are rejected.
//! - A segment whose source and translation are both empty has no verdict.

use serde_json::json;

use super::{
    Error, Judge, Method, Panel, Preset, Protocol, Provenance, Result, Verdict,
    method::Output,
    prompt::{File, Prompts, file},
    reading::strip,
    reward::{OUTPUTS, SCORE, SCORE_MEANING, SIGMOID, score_each},
    setup::{self, GivenOptions, ReferenceOption, Settings, options},
};
use crate::{
    llm::Chat,
    segment::{Lang, Segment, numbered},
};

const PROMPT: File = file!("remedy/remedy.j2");

/// Metadata shown by `tribunal methods show remedy`.
pub const METHOD: Method = Method {
    name: "remedy",
    summary: "the score head of a ReMedy model, after source, reference where there is one, and translation",
    citation: "Tan and Monz 2025, \"ReMedy: Learning Machine Translation Evaluation from Human Preferences with Reward \
               Modeling\"",
    papers: &["tan-monz-2025-remedy"],
    stages: &[SCORE],
    answer_tokens: Some([0, 0]),
    scale: SIGMOID,
    scales: &[(&[("score", &["raw"])], OUTPUTS)],
    measured: Some(include_str!("remedy/measured.txt").trim_ascii_end()),
    presets: &[Preset::Strict],
    options: &[ReferenceOption::CHOICES[0], RemedyOptions::CHOICES[0]],
    common: &[],
    output: Output::Head,
    ..Method::with(build)
};

options! {
    /// Options of ReMedy, besides the reference.
    pub struct RemedyOptions {
        "score" is_raw: bool = { "sigmoid" => false, "raw" => true }, SCORE_MEANING;
    }
}

/// Languages by their codes, with the names in the prompts of the published models.
///
/// Source: `remedy/toolbox/languages.py`.
const LANGUAGES: [(&str, &str); 36] = [
    ("ar", "Arabic"),
    ("bn", "Bengali"),
    ("cs", "Czech"),
    ("de", "German"),
    ("en", "English"),
    ("es", "Spanish"),
    ("et", "Estonian"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("gu", "Gujarati"),
    ("ha", "Hausa"),
    ("he", "hebrew"),
    ("hi", "Hindi"),
    ("hr", "croatian"),
    ("is", "Icelandic"),
    ("ja", "Japanese"),
    ("kk", "Kazakh"),
    ("km", "Khmer"),
    ("ko", "Korean"),
    ("liv", "Livonian"),
    ("lt", "Lithuanian"),
    ("lv", "Latvian"),
    ("mr", "Marathi"),
    ("ne", "Nepali"),
    ("pl", "Polish"),
    ("ps", "Pushto"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("sah", "Yakut"),
    ("si", "Sinhala"),
    ("ta", "Tamil"),
    ("tr", "Turkish"),
    ("uk", "Ukrainian"),
    ("xh", "Xhosa"),
    ("zh", "Chinese"),
    ("zu", "Zulu"),
];

/// A configured ReMedy judge.
struct Remedy {
    prompts: Prompts,
    shows_reference: bool,
    is_raw: bool,
}

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    settings.check_neither_weights_nor_shots(METHOD.name)?;
    let prompts = Prompts::load(&[PROMPT], settings)?;
    let sample = json!({ "source_lang": "", "target_lang": "", "source": "", "reference": "" });
    prompts.render(PROMPT, sample).map_err(setup::Error::from_prompt)?;
    let shows_reference = ReferenceOption::read(options).reference.is_shown(settings);
    let judge = Remedy { prompts, shows_reference, is_raw: *RemedyOptions::read(options).is_raw };
    let provenance = Provenance::of(&judge.prompts);
    Ok(Judge::new(provenance, judge).of_head(None))
}

impl Protocol for Remedy {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        score_each(panel, group, None, self.is_raw, |segment| self.chat(segment))
    }

    fn check_input(&self, segments: &[Segment]) -> setup::Result<()> {
        let unknown = segments.iter().find_map(|segment| {
            [&segment.src_lang, &segment.tgt_lang]
                .into_iter()
                .find(|lang| name(lang).is_none())
                .zip(Some(segment))
        });
        let Some((lang, segment)) = unknown else { return Ok(()) };
        let known: Vec<&str> = LANGUAGES.iter().map(|(code, _)| *code).collect();
        Err(setup::Error::Conflict(format!(
            "{} of `{}` is in `{}`, which `remedy` models do not support\nhint: supported languages: {}",
            numbered(segment.seg),
            if segment.doc.is_empty() { &segment.system } else { &segment.doc },
            lang.code(),
            known.join(", ")
        )))
    }
}

impl Remedy {
    fn chat(&self, segment: &Segment) -> Result<Chat> {
        let reference = segment.reference.as_deref().map(strip);
        let name = |lang: &Lang| {
            let unknown =
                || Error::Failed(format!("`{}` is a language that the model does not have", lang.code()));
            name(lang).ok_or_else(unknown)
        };
        let query = json!({
            "source_lang": name(&segment.src_lang)?,
            "target_lang": name(&segment.tgt_lang)?,
            "source": strip(&segment.source),
            "reference": self.shows_reference.then(|| reference.ok_or_else(Error::no_reference)).transpose()?,
        });
        let chat =
            Chat::new().user(self.prompts.render(PROMPT, query)?).assistant(strip(&segment.hypothesis));
        Ok(Chat { tokenized_as_text: true, ..chat })
    }
}

/// The name of a language in the prompts.
fn name(lang: &Lang) -> Option<&'static str> {
    LANGUAGES.iter().find(|(code, _)| *code == lang.language()).map(|(_, name)| *name)
}
