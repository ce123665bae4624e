//! M-MAD as its published code runs it (`stage1.py`, `stage2_3.py`): the authors' texts, answers passed on
//! unchanged, and read as the code reads them. [`tribunal_judges::m_mad`] lists the differences.

use std::collections::BTreeMap;

use serde_json::Value;

use tribunal_core::{
    llm::{Chat, Reply, ResponseFormat, Sampling},
    mqm::{self, ErrorSpan, Repeats, weights::Weights},
    segment::Segment,
};
use tribunal_judges::{
    Judge, Panel, Protocol, Provenance, Result, Retry, Role, Settings, Step, Verdict, confidence,
    in_parallel,
    literals::{self, SourceFile},
    m_mad::{
        ANNOTATE, First, JUDGE_STAGE, Options, Question, Shots, Skipped,
        annotation::{self, Annotation, DIMENSIONS},
        debate::{CONSENSUS_ROUND, DEBATE_STAGE, Strategy, Topic, Undecided},
        demos::{self, Demo},
        read_options,
    },
    method::Calls,
    prompt, reading,
    setup::{self, GivenOptions},
    shots::{self, Shot},
};

use self::authors::{JudgeTexts, Texts};
use crate::python::repr;

mod authors;

/// Answer tokens of Stage 1, as in the code, and of the later stages, where the code sets no limit.
const STAGE_1_BUDGET: usize = 1000;
const LATER_BUDGET: usize = 2048;

/// The code sets none in Stages 2 and 3, so the default of its service holds.
const LATER_TEMPERATURE: f32 = 1.0;

/// The judge of Stage 1 is called up to ten times. The code stays at temperature 0 and relies on a service
/// whose answers vary all the same; our answers would be identical.
const BASELINE_RETRY: Retry = Retry { tries: 10, warmer: 0.1 };

/// M-MAD as published.
pub struct Published {
    texts: Texts,
    examples: Examples,
    rounds: usize,
    /// Without it the judge of Stage 1 decides.
    has_debate: bool,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// The shots of the four agents, by file name; a single file serves all source languages.
struct Examples(BTreeMap<String, [Vec<Demo>; 4]>);

/// A dimension's part of the judge's question.
enum View {
    /// The annotator's answer, undisputed.
    Said(String),
    /// The annotations read from side A's last statement: an object, or nothing.
    Read(Value),
}

/// A side of a debate.
struct Side {
    role: Role,
    chat: Chat,
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

fn built(judge: Published) -> Judge {
    let texts = judge.texts.all().into_iter();
    let shots = judge.examples.0.values().flatten().flatten();
    let shots = shots.flat_map(|demo| [demo.user.as_str(), demo.answer.as_str()]);
    let prompts = prompt::hash(texts.chain(shots));
    let provenance = Provenance { prompts, ..Provenance::default() }.weighed_by(&judge.weights.name);
    let calls = judge.calls();
    Judge::new(provenance, judge).with_calls(calls)
}

/// The judge of preset `code`, from the user's copy of the published files.
///
/// # Errors
/// No copy, one that lacks a text, and options for which nothing is published.
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let (options, rounds) = read_options(options)?;
    Published::new(settings, &options, rounds).map(built)
}

impl Published {
    fn new(settings: &Settings, options: &Options, rounds: usize) -> setup::Result<Self> {
        check_options(options)?;
        let folder = authors::folder(settings.prompts.as_deref())?;
        let texts = Texts::read(&folder)?;
        Ok(Self {
            examples: Examples::read(&folder, &texts, settings, options)?,
            texts,
            rounds,
            has_debate: *options.skip != Some(Skipped::Stage2),
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("mmad"))?,
            max_tokens: settings.max_tokens,
        })
    }

    /// The calls of the other presets; the judge of Stage 1 is called again as in the program.
    fn calls(&self) -> Calls {
        let first = DIMENSIONS.len();
        if !self.has_debate {
            return Calls { most: first + BASELINE_RETRY.tries, ..Calls::exactly(first + 1) };
        }
        Calls {
            least: first,
            typical: first + CONSENSUS_ROUND + 1,
            most: first + first * CONSENSUS_ROUND * self.rounds + 1,
        }
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let annotations = in_parallel(&DIMENSIONS, |idx, _| self.annotate(panel, segment, idx));
        let annotations = annotations.into_iter().collect::<Result<Vec<_>, _>>()?;
        let errors = if self.has_debate {
            let views =
                in_parallel(&annotations, |idx, annotation| self.debate(panel, segment, idx, annotation));
            self.conclude(panel, segment, &views.into_iter().collect::<Result<Vec<_>, _>>()?)?
        } else {
            self.conclude_at_once(panel, segment, &annotations)?
        };
        let (errors, score) =
            mqm::assess(errors, &segment.source, &segment.hypothesis, Repeats::Charged, self.weights);
        Ok(Verdict::new(score, errors))
    }

    /// Stage 1: an agent's answer, not read.
    fn annotate(&self, panel: &Panel, segment: &Segment, idx: usize) -> Result<String> {
        let mut chat = Chat::new().system(self.texts.annotator.as_str());
        for demo in self.examples.of(segment, idx) {
            chat = chat.user(demo.user.as_str()).assistant(demo.answer.as_str());
        }
        let chat = chat.user(about(&self.texts.queries[idx], segment));
        let step = ANNOTATE.about(DIMENSIONS[idx].name);
        let question = Question { role: Role::Annotator, step, budget: STAGE_1_BUDGET };
        self.ask(panel, &question, &chat, as_it_is)
    }

    /// Stage 2 of one dimension. Side B opens with every "major" of the answer turned into "minor"; where
    /// that changes nothing there is no debate.
    fn debate(&self, panel: &Panel, segment: &Segment, idx: usize, annotation: &str) -> Result<View> {
        let opposition = if annotation.contains("non-translation") {
            self.texts.denial.clone()
        } else {
            annotation.replace("major", "minor")
        };
        if opposition == annotation {
            return Ok(View::Said(annotation.to_owned()));
        }
        let step = DEBATE_STAGE.about(DIMENSIONS[idx].name);
        let mut a = self.side(Role::DebaterA, segment, idx, annotation);
        let mut b = self.side(Role::DebaterB, segment, idx, &opposition);
        let mut last = Value::Null;
        for _ in 0..self.rounds {
            // Both sides answer at once: each gets the other's previous statement.
            let (from_a, from_b) = (a.said().to_owned(), b.said().to_owned());
            last = self.speak(panel, &step, &mut a, &from_b)?;
            let other = self.speak(panel, &step, &mut b, &from_a)?;
            if self.agree(panel, &step, &last, &other)? {
                break;
            }
        }
        Ok(View::Read(last))
    }

    fn side(&self, role: Role, segment: &Segment, idx: usize, opening: &str) -> Side {
        let shown = literals::format(&self.texts.segment, &parts(segment));
        let chat = Chat::new().system(self.texts.debaters[idx].as_str()).user(shown).assistant(opening);
        Side { role, chat }
    }

    /// One statement, and the annotations read from it.
    fn speak(&self, panel: &Panel, step: &Step, side: &mut Side, heard: &str) -> Result<Value> {
        let [before, quoted, after] = &self.texts.heard;
        let message = format!("{before}{}{after}", literals::format(quoted, &[("", heard)]));
        let chat = std::mem::take(&mut side.chat).user(message);
        let question = Question { role: side.role, step: step.clone(), budget: LATER_BUDGET };
        let text = self.ask(panel, &question, &chat, as_it_is)?;
        let annotations = extract(&text).map(listed).unwrap_or_default();
        side.chat = chat.assistant(text);
        Ok(annotations)
    }

    /// The consensus checker: "yes" anywhere in its answer, in lower case.
    fn agree(&self, panel: &Panel, step: &Step, first: &Value, second: &Value) -> Result<bool> {
        let (first, second) = (repr(first), repr(second));
        let values = [("first_annotations", first.as_str()), ("second_annotations", second.as_str())];
        let chat = Chat::new().user(literals::format(&self.texts.checker, &values));
        let question = Question { role: Role::Checker, step: step.clone(), budget: LATER_BUDGET };
        self.ask(panel, &question, &chat, |reply| Ok(reply.text.contains("yes")))
    }

    /// Stage 3.
    fn conclude(&self, panel: &Panel, segment: &Segment, views: &[View]) -> Result<Vec<ErrorSpan>> {
        let is_settled = views.iter().all(View::is_empty)
            || is_quotes(reading::strip_start(&segment.source)) && is_quotes(&segment.hypothesis);
        if is_settled {
            return Ok(Vec::new());
        }
        let views: Vec<_> = views.iter().map(View::shown).collect();
        let chat = judge_chat(&self.texts.judge, segment, &views);
        let question = Question { role: Role::Judge, step: JUDGE_STAGE.into(), budget: LATER_BUDGET };
        self.ask(panel, &question, &chat, |reply| {
            let list = extract(&reply.text)
                .ok_or_else(|| reading::unusable(&reply.text, "no list of annotations"))?;
            errors(reply, list, segment)
        })
    }

    /// Without Stage 2: the judge of Stage 1, asked again until Python can read its answer.
    fn conclude_at_once(
        &self,
        panel: &Panel,
        segment: &Segment,
        annotations: &[String],
    ) -> Result<Vec<ErrorSpan>> {
        let chat = judge_chat(&self.texts.baseline, segment, annotations);
        let sampling = self.sampling(panel, STAGE_1_BUDGET, panel.sampling.temperature);
        let request = tribunal_judges::Question { chat: &chat, form: &ResponseFormat::Text, sampling };
        let answer = panel.ask_until(Role::Judge, JUDGE_STAGE, &request, BASELINE_RETRY, |reply| {
            let object = evaluated(&reply.text)
                .ok_or_else(|| reading::unusable(&reply.text, "no object that Python can read"))?;
            Ok((reply.clone(), object))
        });
        let (reply, object) = answer?;
        errors(&reply, object.get("annotations").cloned().unwrap_or_default(), segment)
    }

    /// Asks once. Only the later stages leave the temperature to the service.
    fn ask<T>(
        &self,
        panel: &Panel,
        question: &Question,
        chat: &Chat,
        read: impl Fn(&Reply) -> Result<T>,
    ) -> Result<T> {
        let is_first = question.role == Role::Annotator;
        let temperature = if is_first { panel.sampling.temperature } else { LATER_TEMPERATURE };
        let sampling = self.sampling(panel, question.budget, temperature);
        let request = tribunal_judges::Question { chat, form: &ResponseFormat::Text, sampling };
        read(&panel.answer(question.role, &question.step, &request)?)
    }

    fn sampling(&self, panel: &Panel, budget: usize, temperature: f32) -> Sampling {
        let max_tokens = self.max_tokens.unwrap_or(budget);
        Sampling { temperature, max_tokens, ..panel.sampling.clone() }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a reader of answers can fail; this one does not")]
fn as_it_is(reply: &Reply) -> Result<String> {
    Ok(reply.text.clone())
}

impl Examples {
    fn read(
        folder: &std::path::Path,
        texts: &Texts,
        settings: &Settings,
        options: &Options,
    ) -> setup::Result<Self> {
        if !settings.has_shots(*options.shots != Shots::None)? {
            return Ok(Self(BTreeMap::new()));
        }
        if let Some(file) = &settings.shots {
            return Ok(Self([(file.display().to_string(), own(file, texts)?)].into()));
        }
        let languages: &[&str] = match *options.shots {
            Shots::ZhEn => &["zh"],
            Shots::HeEn => &["he"],
            Shots::EnDe => &["en"],
            Shots::Auto | Shots::None => &["zh", "he", "en"],
        };
        let read = |language: &&str| {
            let file = authors::demo_file(language);
            Ok((file.to_owned(), authors::demos(folder, file)?))
        };
        languages.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The shots of one agent for this segment.
    fn of(&self, segment: &Segment, idx: usize) -> &[Demo] {
        let by_language = self.0.get(authors::demo_file(segment.src_lang.language()));
        let only = self.0.values().next().filter(|_| self.0.len() == 1);
        only.or(by_language).map_or(&[], |agents| &agents[idx])
    }
}

/// The user's shots: a file like the authors', or one in our format, which is shown to every agent.
fn own(file: &std::path::Path, texts: &Texts) -> setup::Result<[Vec<Demo>; 4]> {
    let name = file.display().to_string();
    let text = tribunal_core::files::text::read(file)
        .map_err(|source| setup::Error::Read { file: file.into(), source })?;
    if file.extension().is_some_and(|e| e == "py") {
        return demos::read(&SourceFile { name, text });
    }
    let demos: Vec<_> = shots::read(&name, &text)?.into_iter().map(|shot| demo(shot, texts)).collect();
    Ok(std::array::from_fn(|_| demos.clone()))
}

/// A shot of ours in the authors' layout.
fn demo(shot: Shot, texts: &Texts) -> Demo {
    let parts = [
        ("src_lng", shot.source_lang.as_str()),
        ("source_segment", shot.source.as_str()),
        ("tgt_lng", shot.target_lang.as_str()),
        ("target_segment", shot.target.as_str()),
    ];
    let user = literals::format(&texts.segment, &parts);
    let answer = format!("\n{}\n", annotation::answer_of(&shot));
    Demo { user, answer, shot }
}

/// The values of a segment under their names in the code.
fn parts(segment: &Segment) -> [(&'static str, &str); 4] {
    [
        ("src_lng", segment.src_lang.name()),
        ("tgt_lng", segment.tgt_lang.name()),
        // The code strips the lines of its input, which begin with the source.
        ("source_segment", reading::strip_start(&segment.source)),
        ("target_segment", &segment.hypothesis),
    ]
}

/// A text with its `##names##` replaced, one after the other.
fn about(text: &str, segment: &Segment) -> String {
    parts(segment).iter().fold(text.to_owned(), |text, (name, value)| replaced(&text, name, value))
}

fn replaced(text: &str, name: &str, value: &str) -> String {
    text.replace(&format!("##{name}##"), value)
}

fn judge_chat(texts: &JudgeTexts, segment: &Segment, views: &[String]) -> Chat {
    let names = ["accuracy", "fluency", "term", "style"].map(|name| format!("{name}_annotations"));
    let question = names
        .iter()
        .zip(views)
        .fold(about(&texts.question, segment), |text, (name, view)| replaced(&text, name, view));
    Chat::new().system(texts.system.as_str()).user(question)
}

/// Python's `eval` of an answer, from its first `{` to its last `}`.
fn evaluated(text: &str) -> Option<Value> {
    let (open, close) = (text.find('{')?, text.rfind('}')?);
    literals::literal(text.get(open..=close)?)
}

/// The list of an answer from the first `"annotations": [` to the last `]`. A
/// list that is not JSON counts as empty, as in the published code.
fn extract(text: &str) -> Option<Value> {
    let opens = |tail: &str| -> Option<usize> {
        let list = tail.strip_prefix("\"annotations\"")?.trim_start().strip_prefix(':')?.trim_start();
        list.starts_with('[').then(|| text.len() - list.len())
    };
    let open = text.match_indices("\"annotations\"").find_map(|(at, _)| opens(&text[at..]))?;
    let close = text.rfind(']').filter(|close| *close > open)?;
    Some(serde_json::from_str(&text[open..=close]).unwrap_or_else(|_| Value::Array(Vec::new())))
}

fn listed(list: Value) -> Value {
    Value::Object([("annotations".to_owned(), list)].into_iter().collect())
}

/// The errors of a judge's list.
fn errors(reply: &Reply, list: Value, segment: &Segment) -> Result<Vec<ErrorSpan>> {
    let annotations = serde_json::from_value::<Vec<Annotation>>(list)
        .ok()
        .ok_or_else(|| reading::unusable(&reply.text, "its annotations are not a list of errors"))?;
    let mut errors: Vec<_> = annotations.iter().map(|annotation| annotation.to_error(segment)).collect();
    confidence::note(reply, "error_span", &mut errors);
    Ok(errors)
}

impl View {
    /// True if the code counts it as no annotations: one of four spellings, and nothing that was debated.
    fn is_empty(&self) -> bool {
        let spellings =
            [r#"{"annotations": []}"#, r#"{"annotations":[]}"#, "{'annotations': []}", "{'annotations':[]}"];
        matches!(self, Self::Said(text) if spellings.contains(&text.as_str()))
    }

    fn shown(&self) -> String {
        match self {
            Self::Said(text) => text.clone(),
            Self::Read(annotations) => repr(annotations),
        }
    }
}

impl Side {
    /// Its last statement.
    fn said(&self) -> &str {
        self.chat.messages().last().map_or("", |turn| turn.content.as_str())
    }
}

/// Options for which the authors published no code.
fn check_options(options: &Options) -> setup::Result<()> {
    let published = [
        ("start", &options.start.text, *options.start == First::Agents),
        ("skip", &options.skip.text, matches!(*options.skip, None | Some(Skipped::Stage2))),
        ("strategy", &options.strategy.text, *options.strategy == Strategy::Consensus),
        ("topic", &options.topic.text, *options.topic == Topic::Severity),
        ("undecided", &options.undecided.text, *options.undecided == Undecided::Last),
    ];
    match published.into_iter().find(|(.., is_published)| !is_published) {
        Some((name, value, _)) => Err(setup::Error::Conflict(format!(
            "`{name}={value}` of `m-mad` has no published code; hint: use preset `paper` or `strict`"
        ))),
        None => Ok(()),
    }
}

/// True if a text consists of quote marks.
fn is_quotes(text: &str) -> bool {
    text.chars().all(|c| "\"“”".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_from_the_first_list_to_the_last_bracket() {
        let n_annotations = |answer: &str| {
            let list = serde_json::from_value::<Vec<Annotation>>(extract(answer)?);
            list.ok().map(|list| list.len())
        };
        let one = r#"{"error_span": "Bank", "category": "style/awkward", "severity": "Minor"}"#;
        let bare =
            r#"{"annotations": [{"error_span": "", "category": "style/awkward", "severity": "minor"}]}"#;
        for (answer, expected) in [
            (r#"{"annotations": []}"#, Some(0)),
            (&format!(r#"{{"annotations": [{one}]}}"#), Some(1)),
            (&format!("I think:\n```json\n{{\"annotations\": [{one}]}}\n```"), Some(1)),
            // Both lists as one, which is not JSON.
            (&format!(r#"{{"annotations": [{one}, {one}]}} no: {{"annotations": [{one}]}}"#), Some(0)),
            (r#"{"annotations": [{"error_span": "x"}]}"#, None),
            (r#"{"annotations": [{"error_span": x}]}"#, Some(0)),
            (r#"{"annotations": }"#, None),
            ("I see no errors.", None),
            ("", None),
            (bare, Some(1)),
        ] {
            assert_eq!(n_annotations(answer), expected, "{answer}");
        }
    }
}
