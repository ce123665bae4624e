//! Methods with one question, as data: what is shown, which answers are allowed, how they are read and
//! scored. [`SingleQuestion`] judges by any of them. Methods of several questions are code of their own.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    Direction, Error, Grouping, Judge, Method, Panel, Protocol, Provenance, Reads, Result, Role, Stage,
    Verdict,
    answers::{
        blocks,
        chances::{EXPECT, GivenAnswer, Scoring},
        errors::AnswerFormat,
        fields::Fields,
        rating::Rating,
    },
    confidence, expected, in_parallel,
    method::Calls,
    pair::{Pair, Texts},
    panel::reasoning::Thought,
    prompt::{File, Prompts},
    reading,
    scale::Scale,
    setup::{self, Granularity, Preset, Settings},
    shots::{self, Shot},
};
use crate::{
    llm::{Chat, ResponseFormat},
    mqm::{self, ErrorSpan, Severity, weights::Weights},
    segment::Segment,
};

/// The question of a method; its name, scale and weights are in its [`Method`]. Fields that follow from
/// options are set where the options are read.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub stage: Stage,
    pub role: Role,
    pub prompt: Layout,
    /// The variant of the prompt that shows the reference translation.
    pub shows_reference: bool,
    /// Worked examples; a file of the user's replaces them.
    pub shots: Option<File>,
    /// The thought before the answer, and its stage.
    pub thought: Option<(Stage, Thought)>,
    pub answers: Answers,
    /// Maximum number of tokens of an answer; twice as many about five documents.
    pub budget: usize,
}

impl Declaration {
    /// One message to the annotator, without the reference, shots or a thought.
    pub const fn message(stage: Stage, prompt: File, answers: Answers, budget: usize) -> Self {
        Self {
            stage,
            role: Role::Annotator,
            prompt: Layout::Message(prompt),
            shows_reference: false,
            shots: None,
            thought: None,
            answers,
            budget,
        }
    }

    /// The files that it renders in a preset.
    pub fn files(&self, preset: Preset) -> Vec<File> {
        let mut files = match self.prompt {
            Layout::Message(file) => vec![file],
            Layout::Turns { system, question, answer } => {
                [system, question].into_iter().chain(answer).collect()
            }
        };
        match self.answers {
            Answers::Rating { rating, .. } => {
                files.extend(rating.schema().filter(|_| preset == Preset::Strict));
            }
            Answers::Errors { format, .. } => files.extend(format.files()),
            Answers::Blocks(_) | Answers::FreeBlocks | Answers::Fields(_) => {}
        }
        files.extend(self.shots);
        files
    }
}

/// The messages of a question, by their templates. Values: the texts and the names of their languages,
/// `reference`, and `code` in that preset; for JSON errors also `schema`, `shots`, `strict`, `explain` and
/// `quality`.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// One message, which shows the worked examples itself.
    Message(File),
    /// A system message, then each worked example and the question as turns. Without a template of their
    /// answers there are no examples.
    Turns { system: File, question: File, answer: Option<File> },
}

/// The answers of a question, and the source of the score.
#[derive(Clone, Debug)]
pub enum Answers {
    /// A rating, constrained in `strict`. With `expected_after` the score is the mean of its distribution,
    /// behind this beginning of the answer.
    Rating { rating: Rating, expected_after: Option<&'static str> },
    /// Errors as JSON, constrained in every preset.
    Errors { format: AnswerFormat, scoring: Scoring },
    /// Errors in blocks of these severities, constrained.
    Blocks(&'static [Severity]),
    /// Errors in blocks, in any words.
    FreeBlocks,
    /// The answers of a method in a file.
    Fields(Box<Fields>),
}

/// A configured judge of a method with one question.
pub struct SingleQuestion {
    reads: Reads,
    scale: Scale,
    question: Declaration,
    prompts: Prompts,
    /// The form of a rating. That of errors depends on the texts.
    form: ResponseFormat,
    shots: Vec<Shot>,
    /// The worked examples as the template of one message takes them.
    shown: Value,
    /// Weights of errors; ratings have none.
    weights: Cow<'static, Weights>,
    preset: Preset,
    granularity: Granularity,
    budget: usize,
}

impl Protocol for SingleQuestion {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        if self.reads == Reads::Translations {
            let units = Texts::units(self.granularity, group);
            return in_parallel(&units, |idx, texts| self.judge_unit(&panel.about(idx), texts));
        }
        // All translations of a source share the verdict on it.
        let verdict = group.first().map(|segment| self.judge_unit(panel, &Texts::of(segment)));
        verdict.map_or_else(Vec::new, |verdict| vec![verdict; group.len()])
    }
}

impl From<SingleQuestion> for Judge {
    fn from(judge: SingleQuestion) -> Self {
        let Declaration { ref answers, thought, .. } = judge.question;
        let calls = match answers {
            Answers::Rating { expected_after, .. } => Calls::up_to(1 + usize::from(expected_after.is_some())),
            Answers::Errors { scoring, .. } => scoring.calls(),
            Answers::Blocks(_) | Answers::FreeBlocks | Answers::Fields(_) => Calls::exactly(1),
        };
        Self {
            grouping: match judge.reads {
                Reads::Translations => judge.granularity.grouping(),
                Reads::SourcesOnly => Grouping::Source,
            },
            unit: judge.granularity.unit(),
            calls: if thought.is_some() { None } else { Some(calls) },
            sampled_at: thought.map(|(_, thought)| [thought.temperature, thought.top_p]),
            ..Self::new(judge.provenance(), judge)
        }
    }
}

/// The judge of a method with one question.
///
/// # Errors
/// Those of [`SingleQuestion::load`].
pub fn judge(method: &Method<'_>, question: Declaration, settings: &Settings) -> setup::Result<Judge> {
    Ok(SingleQuestion::load(method, question, settings)?.into())
}

impl SingleQuestion {
    /// Reads the settings, the prompts and the shots, and renders the question once.
    ///
    /// # Errors
    /// [`setup::Error`]: weights or shots that the method does not have, or files that cannot be used.
    pub fn load(method: &Method<'_>, question: Declaration, settings: &Settings) -> setup::Result<Self> {
        let prompts = Prompts::load(&question.files(settings.preset), settings)?;
        Self::with_prompts(method, question, prompts, settings)
    }

    /// [`SingleQuestion::load`] with prompts of any origin.
    ///
    /// # Errors
    /// Those of [`SingleQuestion::load`].
    pub fn with_prompts(
        method: &Method<'_>,
        question: Declaration,
        prompts: Prompts,
        settings: &Settings,
    ) -> setup::Result<Self> {
        check_settings(method, &question, settings)?;
        let is_strict = settings.preset == Preset::Strict;
        let granularity = settings.granularity.unwrap_or(method.granularities[0]);
        let shots = shots::load(&prompts, question.shots, settings)?;
        let n_times = if granularity == Granularity::FiveDoc { 2 } else { 1 };
        let budget = settings.max_tokens.unwrap_or(n_times * question.budget);
        let weights_name = method.weights.unwrap_or("wmt");
        let judge = Self {
            reads: method.reads,
            scale: method.scale,
            form: match question.answers {
                Answers::Rating { rating, .. } if is_strict => rating.form(&prompts)?,
                _ => ResponseFormat::Text,
            },
            shown: match question.answers {
                Answers::Errors { format, .. } => json!(format.shown(&shots)),
                _ => Value::Null,
            },
            shots,
            prompts,
            weights: match &settings.weights {
                Some(name) => Cow::Borrowed(mqm::weights::find(name)?),
                None => mqm::weights::signed(settings.weights_name(weights_name, granularity))?,
            },
            preset: settings.preset,
            granularity,
            budget,
            question,
        };
        judge.chat(&Texts::sample()).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// The judge with other worked examples, as its template takes them.
    #[must_use]
    pub fn with_shots(self, shown: Value) -> Self {
        Self { shown, ..self }
    }

    /// Its prompts.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Its inputs, for the signature.
    pub fn provenance(&self) -> Provenance {
        Provenance::of(&self.prompts)
    }

    /// The stage of its calls.
    pub fn stage(&self) -> Stage {
        self.question.stage
    }

    /// The granularity in force.
    pub fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// Asks about one unit, reads the answer and scores it.
    ///
    /// # Errors
    /// The reason why the unit has no verdict.
    pub fn judge_unit(&self, panel: &Panel, texts: &Texts) -> Result<Verdict> {
        let role = self.question.role;
        let mut chat = self.about(texts)?;
        if let Some((stage, thought)) = self.question.thought {
            chat = panel.after_thought(role, stage, &chat, thought)?;
        }
        let form = match &self.question.answers {
            Answers::Rating { .. } | Answers::FreeBlocks => self.form.clone(),
            Answers::Fields(fields) => fields.form(texts),
            Answers::Errors { format, .. } => format.form(&self.prompts, texts)?,
            Answers::Blocks(severities) => {
                blocks::form(severities, texts.errors_in_a_block(), &texts.source, &texts.target)
            }
        };
        let mut question = panel.question(&chat, &form, self.budget);
        if let Some((_, thought)) = self.question.thought {
            question.sampling = thought.sampling(&question.sampling);
        }
        let reply = panel.answer(role, self.question.stage, &question)?;
        let answer = &reply.text;
        match &self.question.answers {
            Answers::Rating { rating, expected_after } => {
                let verdict = self.rated(rating.read(answer)?);
                let mean = expected_after.map(|prefix| expected::percent(panel, role, EXPECT, &chat, prefix));
                Ok(Verdict { score: mean.unwrap_or(Ok(verdict.score))?, ..verdict })
            }
            Answers::Errors { format, scoring } => {
                let written = GivenAnswer { panel, chat: &chat, text: &reply.text };
                format.read(answer)?.weighed(&reply).scored(texts, &self.weights, *scoring, &written)
            }
            Answers::Blocks(severities) => {
                let mut errors = blocks::read(severities, answer, &texts.source, &texts.target)?;
                confidence::note(&reply, "error_span", &mut errors);
                Ok(self.weighed(errors, texts))
            }
            Answers::FreeBlocks => {
                let mut errors = blocks::printed::read_any(answer)?;
                confidence::note(&reply, "error_span", &mut errors);
                Ok(self.weighed(errors, texts))
            }
            Answers::Fields(fields) => {
                let (raw, mut errors) = fields.read(answer)?;
                confidence::note(&reply, fields.span_key(), &mut errors);
                let marked = self.weighed(errors, texts);
                Ok(match raw {
                    Some(raw) => Verdict { errors: marked.errors, ..self.rated(raw) },
                    None => marked,
                })
            }
        }
    }

    /// The verdict of errors that an answer names.
    fn weighed(&self, errors: Vec<ErrorSpan>, texts: &Texts) -> Verdict {
        let repeats = self.preset.repeats();
        let (errors, score) = mqm::assess(errors, &texts.source, &texts.target, repeats, &self.weights);
        Verdict::new(score, errors)
    }

    /// The question about one unit.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is no text to judge, [`Error::Failed`] when a reference is to be shown and
    /// the segment has none.
    pub fn about(&self, texts: &Texts) -> Result<Chat> {
        match self.reads {
            Reads::Translations if texts.is_empty() => Err(Error::nothing_to_judge()),
            Reads::SourcesOnly if texts.source.trim().is_empty() => {
                Err(Error::Empty("the source is empty".into()))
            }
            Reads::Translations | Reads::SourcesOnly => self.chat(texts),
        }
    }

    /// The verdict of a rating on the method's scale.
    pub fn rated(&self, raw: f64) -> Verdict {
        let scale = self.scale;
        let score = if scale.raw == Direction::Lower { -raw } else { raw };
        let quality_score = scale.is_assessed.then_some(raw);
        Verdict { raw, quality_score, ..Verdict::new(score, Vec::new()) }
    }

    fn chat(&self, texts: &Texts) -> Result<Chat> {
        let mut values = texts.query().shown(self.preset);
        values["reference"] = json!(self.reference(texts)?);
        if let Answers::Fields(fields) = &self.question.answers {
            values["schema"] = json!(fields.shown_schema(&self.prompts)?);
        }
        if let Answers::Errors { format, .. } = self.question.answers {
            values["schema"] = json!(format.schema(&self.prompts, texts.max_errors())?);
            values["shots"] = self.shown.clone();
            values["strict"] = json!(format.is_strict);
            values["explain"] = json!(format.explain);
            values["quality"] = json!(format.quality);
        }
        let (system, question, answer) = match self.question.prompt {
            Layout::Message(file) => return Ok(Chat::new().user(self.prompts.render(file, values)?)),
            Layout::Turns { system, question, answer } => (system, question, answer),
        };
        let mut chat = Chat::new().system(self.prompts.render(system, &values)?);
        for (shot, answer) in
            answer.iter().flat_map(|answer| self.shots.iter().map(move |shot| (shot, *answer)))
        {
            let example = self.prompts.render(question, Pair::from_shot(shot).shown(self.preset))?;
            let answer = self.prompts.render(answer, shot)?;
            let answer = if self.preset == Preset::Code { &answer } else { answer.trim_end() };
            chat = chat.user(example).assistant(answer);
        }
        Ok(chat.user(self.prompts.render(question, values)?))
    }

    /// The reference as it is shown, in `code` stripped as all texts.
    fn reference<'t>(&self, texts: &'t Texts) -> Result<Option<&'t str>> {
        if !self.question.shows_reference {
            return Ok(None);
        }
        let reference = texts.reference.ok_or_else(Error::no_reference)?;
        Ok(Some(if self.preset == Preset::Code { reading::strip(reference) } else { reference }))
    }
}

/// Rejects weights and shots that a method does not have.
fn check_settings(method: &Method<'_>, question: &Declaration, settings: &Settings) -> setup::Result<()> {
    if method.weights.is_none() && question.shots.is_none() {
        return settings.check_neither_weights_nor_shots(method.name);
    }
    if question.shots.is_none() && settings.shots.is_some() {
        let reason = format!("{} has no shots; hint: leave them out", method.name);
        return Err(setup::Error::Conflict(reason));
    }
    Ok(())
}
