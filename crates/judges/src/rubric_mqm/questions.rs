//! RUBRIC-MQM's questions: the conversation about a segment and the form of its answer, in one scenario and
//! preset. No model is called and no answer parsed here.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Cue, Options, Scenario, Texts,
    entries::{JsonEntry, Level},
    files::Files,
    scenario::Scale,
    unmarked,
};
use crate::{
    Result,
    answers::form_about,
    llm::{Chat, ResponseFormat},
    prompt::{File, Prompts},
    setup::{self, Preset, Settings},
    shots::{self, Shot, ShotError},
};

/// The questions of one scenario in one preset.
pub struct Questions {
    pub templates: Templates,
    pub shows_reference: bool,
    examples: Vec<Example>,
}

/// The templates of one scenario in one preset.
pub struct Templates {
    pub files: Files,
    pub prompts: Prompts,
    pub scenario: Scenario,
    preset: Preset,
}

/// An example and its answer in the form of the preset.
pub struct Example {
    pub source_lang: String,
    pub source: String,
    pub target_lang: String,
    pub target: String,
    pub answer: String,
}

/// The values of a question. `None` leaves a part of the prompt out.
#[derive(Serialize)]
pub struct Values<'a> {
    source_lang: &'a str,
    source: &'a str,
    target_lang: &'a str,
    target: &'a str,
    reference: Option<&'a str>,
    cue: bool,
    paper: bool,
    scale: Option<u32>,
    pub definitions: Option<String>,
    rubric: Option<String>,
    continuous: Option<String>,
}

impl Questions {
    /// Reads the prompts and the examples.
    ///
    /// # Errors
    /// Files that cannot be used, and a reference where the preset shows none.
    pub fn load(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let (preset, scenario) = (settings.preset, *options.scenario);
        let shows_reference = options.reference.is_shown(settings);
        check_reference(preset, shows_reference)?;
        let files = Files::of(scenario, preset);
        let shots = settings.has_shots(*options.has_shots)?.then_some(files.shots);
        let answer = (preset != Preset::Strict).then_some(files.answer);
        let templates = Templates::load(scenario, files, [shots, answer, files.schema], settings)?;
        let examples = templates.examples(shots, settings)?;
        let questions = Self { templates, shows_reference, examples };
        questions.chat(&Texts::sample(shows_reference), Cue::Marked).map_err(setup::Error::from_prompt)?;
        Ok(questions)
    }

    /// The conversation that ends in the question about these texts.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] for a template that uses a value without a definition.
    pub fn chat(&self, texts: &Texts, cue: Cue) -> Result<Chat> {
        let Self { templates, examples, .. } = self;
        let render = |file| templates.prompts.render(file, self.schema_values(cue));
        let schema = templates.files.schema.map(render).transpose()?;
        let mut chat = Chat::new().system(templates.system(schema.as_deref(), cue)?);
        for example in examples {
            let question = templates.question(templates.values(&example.texts(), cue)?)?;
            let question = if cue == Cue::Marked { question } else { unmarked(&question) };
            chat = chat.user(question).assistant(&example.answer);
        }
        Ok(chat.user(templates.question(templates.values(texts, cue)?)?))
    }

    /// The form of an answer about these texts.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] for a schema that is not JSON.
    pub fn form(&self, texts: &Texts, cue: Cue) -> Result<ResponseFormat> {
        let Some(file) = self.templates.files.schema else { return Ok(ResponseFormat::Text) };
        let schema = self.templates.prompts.json(file, self.schema_values(cue))?;
        // Without a cue, a `<v>` in a text is the text's own, and is shown.
        let shown = |text: &str| if cue == Cue::Marked { unmarked(text) } else { text.to_owned() };
        let [source, target] = [texts.source, texts.target].map(shown);
        Ok(form_about(schema, [("source", &source), ("translation", &target)]))
    }

    fn schema_values(&self, cue: Cue) -> Value {
        json!({ "scale": self.templates.scenario.scale().map(Scale::max), "cue": cue == Cue::Marked })
    }
}

impl Example {
    /// Its texts, without a reference.
    pub fn texts(&self) -> Texts<'_> {
        let Self { source_lang, source, target_lang, target, .. } = self;
        Texts { source_lang, source, target_lang, target, reference: None }
    }
}

impl Templates {
    /// Reads the files of a scenario and these others, of which some may be left out.
    ///
    /// # Errors
    /// Those of [`Prompts::load`].
    pub fn load(
        scenario: Scenario,
        files: Files,
        others: [Option<File>; 3],
        settings: &Settings,
    ) -> setup::Result<Self> {
        let slots = [files.definitions, files.rubric, files.continuous];
        let used = [files.system, files.prompt].into_iter().chain(slots.into_iter().chain(others).flatten());
        let prompts = Prompts::load(&used.collect::<Vec<_>>(), settings)?;
        Ok(Self { files, prompts, scenario, preset: settings.preset })
    }

    /// The system message.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] for a template that uses a value without a definition.
    pub fn system(&self, schema: Option<&str>, cue: Cue) -> Result<String> {
        self.prompts.render(self.files.system, json!({ "schema": schema, "cue": cue == Cue::Marked }))
    }

    /// A question with these values.
    ///
    /// # Errors
    /// Those of [`Templates::system`].
    pub fn question(&self, values: Values) -> Result<String> {
        self.prompts.render(self.files.prompt, values)
    }

    /// The values of a question about these texts.
    ///
    /// # Errors
    /// Those of [`Templates::system`].
    pub fn values<'a>(&self, texts: &Texts<'a>, cue: Cue) -> Result<Values<'a>> {
        let slot = |file: Option<File>| file.map(|file| self.prompts.render(file, ())).transpose();
        Ok(Values {
            source_lang: texts.source_lang,
            source: texts.source,
            target_lang: texts.target_lang,
            target: texts.target,
            reference: texts.reference,
            cue: cue == Cue::Marked,
            paper: self.preset == Preset::Paper,
            scale: self.scenario.scale().map(Scale::max),
            definitions: slot(self.files.definitions)?,
            rubric: slot(self.files.rubric)?,
            continuous: slot(self.files.continuous)?,
        })
    }

    /// The examples of a file of shots, `None` for none.
    ///
    /// # Errors
    /// [`setup::Error::Line`], and [`setup::Error::Conflict`] for shots without points on the scale.
    pub fn examples(&self, shots: Option<File>, settings: &Settings) -> setup::Result<Vec<Example>> {
        let shots = shots::load(&self.prompts, shots, settings)?;
        shots.into_iter().map(|shot| self.example(shot)).collect()
    }

    fn example(&self, shot: Shot) -> setup::Result<Example> {
        let max = self.scenario.scale().map(Scale::max);
        if let Some(max) = max
            && !shot.errors.iter().all(|error| error.points.contains_key(&max.to_string()))
        {
            let reason = format!(
                "the shots have no points on a scale of {max}; hint: `\"points\": {{\"{max}\": 7}}` in each error"
            );
            return Err(setup::Error::Conflict(reason));
        }
        let answer = self.shot_answer(&shot).map_err(setup::Error::from_prompt)?;
        let Shot { source_lang, source, target_lang, target, .. } = shot;
        Ok(Example { source_lang, source, target_lang, target, answer })
    }

    /// An example's answer in the layout of the preset.
    fn shot_answer(&self, shot: &Shot) -> Result<String> {
        let max = self.scenario.scale().map(|scale| scale.max().to_string());
        if self.preset != Preset::Strict {
            let values = json!({ "errors": shot.errors, "scale": max });
            let answer = self.prompts.render(self.files.answer, values)?;
            return Ok(if self.preset == Preset::Code { answer } else { answer.trim_end().to_owned() });
        }
        let level = |error: &ShotError| match &max {
            Some(max) => Level::Points(error.points[max]),
            None => Level::Severity(error.severity),
        };
        let entry = |e: &ShotError| JsonEntry {
            category: e.category.clone(),
            span: e.span.clone(),
            severity: level(e),
        };
        let entries: Vec<Value> = shot.errors.iter().map(|error| json!(entry(error))).collect();
        Ok(json!({ "errors": entries }).to_string())
    }
}

/// Checks that the preset has a prompt with a reference, if one is to be shown.
fn check_reference(preset: Preset, shows: bool) -> setup::Result<()> {
    let reason = match preset {
        _ if !shows => return Ok(()),
        Preset::Strict => return Ok(()),
        Preset::Paper | Preset::Code => {
            "the paper's prompts have no reference; hint: leave `reference` out, or use preset `code` or `strict`"
        }
    };
    Err(setup::Error::Conflict(reason.into()))
}
