//! EAPrompt: major and minor errors are named, then counted; the score weighs the counts. Lu and others,
//! "Error Analysis Prompting Enables Human-Like Translation Evaluation in Large Language Models" (Findings of
//! ACL 2024). One step: M-MAD Figure 6. Two steps, with counts from a fresh prompt: RATE Figure 25. Preset
//! `code`: the authors' repository, Coldmist-Lu/ErrorAnalysis_Prompt at c74bf779.
//!
//! Differs:
//! - Prompts. `code` sends the repository's bytes: one example in front of the question, with its errors as a
//!   list or in prose (`demo=itemized|detailed`), with or without the reference; with `steps=1` the counts
//!   end the same answer. `paper` and `strict` have the figures' prompts. These show no reference; ours take
//!   the code's words for it.
//! - Examples. The repository has no licence, so this one holds only the example printed in M-MAD's figure:
//!   English-German, as a list, without its reference. The others (English-Russian, Chinese-English, prose,
//!   references) are read from the user's copy: `--shots .../EAPrompt/constants/context.py`. Without that
//!   file, a segment whose example is missing is an error in `code`. For any other language pair the authors
//!   have no example, and none is shown; the signature's `shots` names the pairs that have one. `--shots`
//!   also takes a file of one's own.
//! - Whose examples. Each stands in front of its own language pair only, as in the repository; `shots=all`
//!   puts all of them in front of every segment. RATE's figure has none, hence none with `steps=2` outside
//!   `code`.
//! - The printed sum in M-MAD's figure misses one of five minor errors, ours does not; the figure's span
//!   `Briefe ,,` is `Briefe` in `strict`.
//! - Score. Paper: -(`w-major` * major + minor) with a latent `w-major`, which is 5 in M-MAD. Ours: 5 unless
//!   `w-major` says otherwise, without a cap; `tribunal meta --also latent-weight` searches it over finished
//!   verdicts. One step: in `paper` the number that the model computes, at most 0; in `strict` it is computed
//!   from the errors named.
//! - Counts. In a prompt of their own; or, with `count=listed`, the listed errors are counted without a
//!   second call, the cheaper way that the repository mentions. It publishes neither its regular expressions
//!   nor its reader of an answer; ours is in [`list`]. A verdict's errors are those named in stage 1, as many
//!   of each severity as were counted: surplus ones are left out, and one that was counted but not named has
//!   no span.
//! - Answers. `paper` and `code` take free text: lists under `Major errors` and `Minor errors`,
//!   `<score>N</score>`, and `x, x`. `strict` allows JSON with verbatim spans, and two numbers up to 99.
//! - Repeats. The authors count errors that are named twice twice, and so do `paper` and `code`. Where
//!   `strict` counts by itself (`count=listed`, `steps=1`), as many namings of one span count as it has
//!   occurrences. Counts given by the model are unchanged in every preset.
//! - Budgets. Code: 256 tokens, and a cut answer is used unchanged. `code` does the same; under the other
//!   presets the verdict is `truncated`.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Result, Role, Stage, Verdict,
    answers::form_about,
    confidence,
    method::Calls,
    prompt::{File, Prompts, file},
    reading,
    scale::Scale,
    setup::{self, Preset, Reference, Settings, options},
    shots::Shot,
};
use crate::{
    llm::{Chat, ResponseFormat},
    mqm::{ErrorSpan, Repeats, Severity},
    segment::Segment,
};
use examples::Examples;

pub mod examples;

pub mod list;

const QUESTION: File = file!("eaprompt/question.j2");
const ANSWER: File = file!("eaprompt/answer.j2");
/// The question of stage 2.
pub const COUNT: File = file!("eaprompt/count.j2");
const SCHEMA: File = file!("eaprompt/schema.json");
/// The example printed in M-MAD.
pub const SHOTS: File = file!("eaprompt/shots.jsonl");
const SHOTS_STRICT: File = file!("eaprompt/shots.strict.jsonl");

/// Answer tokens of the errors and of the counts.
const ERRORS_BUDGET: usize = 768;
const COUNT_BUDGET: usize = 32;

/// The stages of its calls.
pub const IDENTIFY: Stage = Stage::new("identify");
pub const COUNT_STAGE: Stage = Stage::new("count");

/// Metadata shown by `tribunal methods show eaprompt`.
pub const METHOD: Method = Method {
    name: "eaprompt",
    summary: "major and minor errors are named, then counted",
    citation: "Lu et al. 2024, EAPrompt; M-MAD, Figure 6 (one step); RATE, Figure 25 (two steps); the authors' \
               repository (code)",
    papers: &["lu-etal-2024-error", "feng-etal-2025-mad", "tian-etal-2026-beyond"],
    stages: &[IDENTIFY, COUNT_STAGE],
    calls: Calls { least: 1, typical: 2, most: 2 },
    scale: Scale::PENALTY,
    options: Options::CHOICES,
    ..Method::with(|settings, options| EaPrompt::new(settings, &Options::read(options)).map(built))
};

options! {
    /// Options of EAPrompt.
    pub struct Options {
        "steps" is_one_step: bool = { "2" => false, "1" => true },
            "2: errors first, then their counts; 1: both in one answer";
        "count" is_listed: bool = { "asked" => false, "listed" => true },
            "steps=2; asked: the model counts in a prompt of its own; listed: the errors in its list are \
             counted, without a second call";
        "w-major" w_major: f64 = { "5" => 5.0, <number> |n| n }, "what a major error costs; a minor one costs 1";
        "shots" shots: ExampleSet = {
            "auto" => ExampleSet::Auto, "pair" => ExampleSet::Pair, "all" => ExampleSet::All, "0" => ExampleSet::None
        }, "worked examples; pair: those of the segment's own languages; all: every one before every \
            segment; auto: pair with steps=1 and in preset `code`, else 0";
        "demo" is_detailed: bool = { "itemized" => false, "detailed" => true },
            "preset `code`: how the errors of the authors' examples are written";
        "reference" reference: Reference = {
            "auto" => Reference::Auto, "on" => Reference::On, "off" => Reference::Off
        }, Reference::MEANING;
    }
}

/// Selection of the worked examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExampleSet {
    Auto,
    /// Those of the segment's own languages.
    Pair,
    All,
    None,
}

/// A configured EAPrompt judge.
pub struct EaPrompt {
    prompts: Prompts,
    preset: Preset,
    counting: Counting,
    w_major: f64,
    examples: Examples,
    shows_reference: bool,
    max_tokens: Option<usize>,
}

/// Source of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Stage 2.
    Prompted,
    /// The errors that stage 1 lists.
    Listed,
    /// The one answer.
    Within,
}

/// The texts of a question.
#[derive(Clone, Copy, Serialize)]
pub struct Texts<'a> {
    pub source: &'a str,
    /// `None` in the variant without one.
    pub reference: Option<&'a str>,
    pub target: &'a str,
}

impl Protocol for EaPrompt {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

fn built(judge: EaPrompt) -> Judge {
    let calls = match judge.counting {
        Counting::Listed | Counting::Within => Calls::exactly(1),
        Counting::Prompted => Calls::up_to(2),
    };
    let provenance = Provenance::of(&judge.prompts).with("shots", judge.examples.to_string());
    Judge { calls: Some(calls), ..Judge::new(provenance, judge) }
}

impl Options {
    /// The source of the counts.
    pub fn counting(&self) -> Counting {
        match (*self.is_one_step, *self.is_listed) {
            (true, _) => Counting::Within,
            (_, true) => Counting::Listed,
            _ => Counting::Prompted,
        }
    }
}

impl EaPrompt {
    /// Reads the settings, the prompts and the examples.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; weights, which the option `w-major` stands for; options that
    /// do not go together; a file of examples that cannot be used.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let preset = settings.preset;
        check_options(settings, options)?;
        let not_ours = "`demo=detailed` is about the authors' examples; hint: use preset `code`";
        setup::reject(&[(*options.is_detailed, not_ours)])?;
        let counting = options.counting();
        let has_shots = match *options.shots {
            ExampleSet::Auto => counting == Counting::Within || settings.shots.is_some(),
            shown => settings.has_shots(shown != ExampleSet::None)?,
        };
        let shots_file = has_shots.then_some(if preset == Preset::Strict { SHOTS_STRICT } else { SHOTS });
        let mut files = vec![QUESTION];
        files.extend((has_shots && preset != Preset::Strict).then_some(ANSWER));
        files.extend((counting == Counting::Prompted).then_some(COUNT));
        files.extend((preset == Preset::Strict).then_some(SCHEMA));
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let shows_reference = options.reference.is_shown(settings);
        let judge = Self {
            examples: Examples::load(&prompts, shots_file, settings, options)?,
            prompts,
            preset,
            counting,
            w_major: *options.w_major,
            shows_reference,
            max_tokens: settings.max_tokens,
        };
        judge.try_out().map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// Renders every template once.
    fn try_out(&self) -> Result<()> {
        self.question(Texts::sample(self.shows_reference), false)?;
        self.examples.all().iter().try_for_each(|shot| self.example_answer(shot).map(drop))?;
        if self.counting == Counting::Prompted { self.count_chat("a").map(drop) } else { Ok(()) }
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let (answer, named) = self.identify(panel, segment)?;
        let errors = match (self.counting, self.preset) {
            (Counting::Prompted, _) => counted(&named, self.count(panel, &answer)?),
            (Counting::Listed | Counting::Within, _) => named,
        };
        let verdict = self.verdict(segment, errors);
        if (self.counting, self.preset) == (Counting::Within, Preset::Paper) {
            let score = list::score(&answer)?;
            return Ok(Verdict { score, raw: score, ..verdict });
        }
        Ok(verdict)
    }

    /// Stage 1: the answer, and the errors named in it.
    fn identify(&self, panel: &Panel, segment: &Segment) -> Result<(String, Vec<ErrorSpan>)> {
        let chat = self.chat(segment)?;
        let form = self.form(segment)?;
        let budget = self.max_tokens.unwrap_or(ERRORS_BUDGET);
        let reply = panel.answer(Role::Annotator, IDENTIFY, &panel.question(&chat, &form, budget))?;
        let answer = reply.text.trim();
        let mut named = match (self.preset, self.counting) {
            (Preset::Strict, _) => read_json(answer)?,
            (_, Counting::Listed) => list::count(answer)?,
            _ => list::read(answer)?,
        };
        confidence::note(&reply, "span", &mut named);
        Ok((answer.to_owned(), named))
    }

    /// Stage 2: the numbers of major and minor errors in the answer of stage 1, from a fresh prompt.
    fn count(&self, panel: &Panel, errors: &str) -> Result<[usize; 2]> {
        let chat = self.count_chat(errors)?;
        let form = match self.preset {
            Preset::Strict => ResponseFormat::Regex("[1-9]?[0-9], [1-9]?[0-9]".into()),
            Preset::Paper | Preset::Code => ResponseFormat::Text,
        };
        let budget = self.max_tokens.unwrap_or(COUNT_BUDGET);
        let reply = panel.answer(Role::Annotator, COUNT_STAGE, &panel.question(&chat, &form, budget))?;
        list::counts(&reply.text)
    }

    /// Weighs the errors and sums them up. Counts given by the model are not changed.
    fn verdict(&self, segment: &Segment, errors: Vec<ErrorSpan>) -> Verdict {
        let is_asked = self.counting == Counting::Prompted;
        let repeats = if is_asked { Repeats::Charged } else { self.preset.repeats() };
        weighed(repeats.settled(errors, &segment.source, &segment.hypothesis), self.w_major)
    }

    /// The question of stage 1 about a segment, after its examples.
    fn chat(&self, segment: &Segment) -> Result<Chat> {
        let texts = Texts::of(segment, self.shows_reference)?;
        let examples = self.examples.of(segment);
        let mut chat = Chat::new();
        for example in &examples {
            let texts = Texts::of_example(example, self.shows_reference);
            chat = chat.user(self.question(texts, false)?).assistant(self.example_answer(example)?);
        }
        Ok(chat.user(self.question(texts, !examples.is_empty())?))
    }

    fn question(&self, texts: Texts, from_template: bool) -> Result<String> {
        let schema = match self.preset {
            Preset::Strict => Some(self.prompts.render(SCHEMA, ())?.trim_end().to_owned()),
            Preset::Paper | Preset::Code => None,
        };
        let mut query = json!(texts);
        query["from_template"] = json!(from_template);
        // In `paper` the model computes the score.
        query["scored"] = json!(self.counting == Counting::Within && self.preset == Preset::Paper);
        query["w_major"] = json!(self.w_major.to_string());
        query["schema"] = json!(schema);
        self.prompts.render(QUESTION, query)
    }

    fn count_chat(&self, errors: &str) -> Result<Chat> {
        Ok(Chat::new().user(self.prompts.render(COUNT, json!({ "errors": errors, "code": false }))?))
    }

    /// An example's answer in the layout of the preset.
    fn example_answer(&self, example: &Shot) -> Result<String> {
        let errors = &example.errors;
        let of = |severity: Severity| errors.iter().filter(move |e| e.severity == severity);
        let n = [Severity::Major, Severity::Minor].map(|severity| of(severity).count());
        match self.preset {
            Preset::Strict => {
                let listed = |severity| -> Vec<Value> {
                    of(severity).map(|e| json!({ "span": e.span, "category": e.category })).collect()
                };
                Ok(json!({ "major": listed(Severity::Major), "minor": listed(Severity::Minor) }).to_string())
            }
            Preset::Paper | Preset::Code => self.prompts.render(ANSWER, self.sum(errors, n)),
        }
    }

    /// The values of an answer that ends in its score.
    fn sum(&self, errors: &[super::shots::ShotError], [n_major, n_minor]: [usize; 2]) -> Value {
        let score = 0.0 - (self.w_major * n_major as f64 + n_minor as f64);
        let terms = format!("-{}", self.w_major).repeat(n_major) + &"-1".repeat(n_minor);
        let terms = if terms.is_empty() { terms } else { terms + "=" };
        json!({
            "errors": errors,
            "scored": self.counting == Counting::Within,
            "terms": terms,
            "score": score.to_string(),
        })
    }

    /// The form of stage 1.
    fn form(&self, segment: &Segment) -> Result<ResponseFormat> {
        if self.preset != Preset::Strict {
            return Ok(ResponseFormat::Text);
        }
        Ok(form_about(
            self.prompts.json(SCHEMA, ())?,
            [("translation", &segment.hypothesis), ("source", &segment.source)],
        ))
    }
}

impl<'a> Texts<'a> {
    /// The texts of a segment.
    ///
    /// # Errors
    /// [`Error::Failed`] for a reference that is to be shown and missing.
    pub fn of(segment: &'a Segment, shows_reference: bool) -> Result<Self> {
        let reference = segment.reference.as_deref().filter(|_| shows_reference);
        if shows_reference && reference.is_none() {
            return Err(Error::no_reference());
        }
        Ok(Self { source: &segment.source, reference, target: &segment.hypothesis })
    }

    /// The texts of an example.
    pub fn of_example(example: &'a Shot, shows_reference: bool) -> Self {
        let reference = example.reference.as_deref().filter(|_| shows_reference);
        Self { source: &example.source, reference, target: &example.target }
    }

    /// Texts for a test rendering of a prompt.
    pub fn sample(shows_reference: bool) -> Self {
        Self { source: "a", reference: shows_reference.then_some("c"), target: "b" }
    }
}

/// Rejects options that do not go together in any preset.
///
/// # Errors
/// [`setup::Error::Conflict`].
pub fn check_options(settings: &Settings, options: &Options) -> setup::Result<()> {
    setup::reject(&[
        (settings.weights.is_some(), "eaprompt weighs by its option `w-major`; hint: leave the weights out"),
        (
            *options.is_one_step && options.is_listed.is_given,
            "`count` is an option of two steps; hint: leave it out, or use steps=2",
        ),
    ])
}

/// The errors of a `strict` answer.
fn read_json(answer: &str) -> Result<Vec<ErrorSpan>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        major: Vec<Named>,
        minor: Vec<Named>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        span: String,
        category: String,
    }
    let Answer { major, minor } = reading::json(answer)?;
    let of = |severity: Severity| {
        move |named: Named| ErrorSpan::new(list::category(&named.category), named.span, severity)
    };
    Ok(major.into_iter().map(of(Severity::Major)).chain(minor.into_iter().map(of(Severity::Minor))).collect())
}

/// The verdict on these errors, of which a minor one costs 1.
pub fn weighed(mut errors: Vec<ErrorSpan>, w_major: f64) -> Verdict {
    for error in &mut errors {
        error.weight = if error.severity == Severity::Major { w_major } else { 1.0 };
    }
    // Not `-penalty`: no errors score 0, not -0.
    let score = 0.0 - errors.iter().map(|e| e.weight).sum::<f64>();
    Verdict::new(score, errors)
}

/// As many errors of each severity as were counted: the first that are named, then errors without a span.
pub fn counted(named: &[ErrorSpan], [n_major, n_minor]: [usize; 2]) -> Vec<ErrorSpan> {
    let of = |severity: Severity, n: usize| {
        let unnamed = std::iter::repeat_with(move || ErrorSpan::new("other", "", severity));
        let named: Vec<ErrorSpan> = named.iter().filter(|e| e.severity == severity).cloned().collect();
        named.into_iter().chain(unnamed).take(n)
    };
    of(Severity::Major, n_major).chain(of(Severity::Minor, n_minor)).collect()
}
