//! RUBRIC-MQM's questions: the conversation about a segment and the form of its answer, in one scenario and
//! preset. No model is called and no answer parsed here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Cue, Options, Scenario, Texts,
    entries::{JsonEntry, Level},
    files::Files,
    scenario::Scale,
    unmarked,
};
use crate::{
    Error,
    answers::form_about,
    llm::{Chat, ResponseFormat},
    prompt::{File, Prompts},
    setup::{self, Preset, Settings},
    shots::{self, Shot, ShotError},
};

/// The questions of one scenario in one preset.
pub struct Questions {
    files: Files,
    prompts: Prompts,
    scenario: Scenario,
    preset: Preset,
    shows_reference: bool,
    examples: Vec<Example>,
}

/// An example and its answer in the form of the preset.
struct Example {
    source_lang: String,
    source: String,
    target_lang: String,
    target: String,
    answer: String,
}

/// An example of the published code, with its answer word for word in each layout: `severity`, `4`, `8`,
/// `100`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeShot {
    source_lang: String,
    source: String,
    target_lang: String,
    target: String,
    answers: BTreeMap<String, String>,
}

/// The values of a template. `None` leaves a part of the prompt out.
#[derive(Serialize)]
struct Values<'a> {
    source_lang: &'a str,
    source: &'a str,
    target_lang: &'a str,
    target: &'a str,
    reference: Option<&'a str>,
    cue: bool,
    paper: bool,
    scale: Option<u32>,
    definitions: Option<String>,
    rubric: Option<String>,
    continuous: Option<String>,
}

impl Questions {
    /// Reads the prompts and the examples.
    ///
    /// # Errors
    /// Files that cannot be used, and a reference where the preset shows none.
    pub fn load(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let (preset, scenario) = (settings.preset, *options.scenario);
        let shows_reference = options.reference.is_shown(settings);
        check_reference(scenario, preset, shows_reference)?;
        let files = Files::of(scenario, preset);
        let shots = settings.has_shots(*options.has_shots)?.then_some(files.shots);
        let is_code_shots = preset == Preset::Code && settings.shots.is_none();
        let answer = (preset != Preset::Strict && !is_code_shots).then_some(files.answer);
        let optional = [files.definitions, files.rubric, files.continuous, shots, answer, files.schema];
        let used: Vec<File> =
            [files.system, files.prompt].into_iter().chain(optional.into_iter().flatten()).collect();
        let prompts = Prompts::load(&used, settings)?;
        let mut questions = Self { files, prompts, scenario, preset, shows_reference, examples: Vec::new() };
        questions.examples = match shots {
            Some(file) if is_code_shots => questions.code_examples(file)?,
            shots => {
                let shots = shots::load(&questions.prompts, shots, settings)?;
                shots.into_iter().map(|shot| questions.example(shot)).collect::<Result<_, _>>()?
            }
        };
        let reference = shows_reference.then_some("c");
        let sample = Texts { source_lang: "", source: "a", target_lang: "", target: "b", reference };
        questions.chat(&sample, Cue::Marked).map_err(setup::Error::from_prompt)?;
        Ok(questions)
    }

    #[must_use]
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    #[must_use]
    pub fn shows_reference(&self) -> bool {
        self.shows_reference
    }

    /// The conversation that ends in the question about these texts.
    ///
    /// # Errors
    /// [`Error::Failed`] for a template that uses a value without a definition.
    pub fn chat(&self, texts: &Texts, cue: Cue) -> Result<Chat, Error> {
        let is_marked = cue == Cue::Marked;
        let is_code = self.preset == Preset::Code;
        let schema = self.files.schema.map(|file| self.schema(file, cue)).transpose()?;
        let mut chat = Chat::new()
            .system(self.prompts.render(self.files.system, json!({ "schema": schema, "cue": is_marked }))?);
        // The code's examples lack the sentence about the marks, though they have marks.
        let cue_of_examples = if is_code { Cue::Unmarked } else { cue };
        let examples_have_definitions = !(is_code && self.scenario.code_examples_are_gemba());
        for example in &self.examples {
            let texts = Texts {
                source_lang: &example.source_lang,
                source: &example.source,
                target_lang: &example.target_lang,
                target: &example.target,
                reference: None,
            };
            let mut values = self.values(&texts, cue_of_examples)?;
            values.definitions = values.definitions.filter(|_| examples_have_definitions);
            let question = self.prompts.render(self.files.prompt, values)?;
            let question = if is_marked { question } else { unmarked(&question) };
            chat = chat.user(question).assistant(&example.answer);
        }
        let question = self.prompts.render(self.files.prompt, self.values(texts, cue)?)?;
        // The code takes marks out of all texts that it sends, also the user's own.
        Ok(chat.user(if is_code && !is_marked { unmarked(&question) } else { question }))
    }

    /// The form of an answer about these texts.
    ///
    /// # Errors
    /// [`Error::Failed`] for a schema that is not JSON.
    pub fn form(&self, texts: &Texts, cue: Cue) -> Result<ResponseFormat, Error> {
        let Some(file) = self.files.schema else { return Ok(ResponseFormat::Text) };
        let schema = serde_json::from_str(&self.schema(file, cue)?)
            .map_err(|e| Error::Failed(format!("prompt `{}` is not JSON: {e}", file.name)))?;
        // Without a cue, a `<v>` in a text is the text's own, and is shown.
        let shown = |text: &str| if cue == Cue::Marked { unmarked(text) } else { text.to_owned() };
        let [source, target] = [texts.source, texts.target].map(shown);
        Ok(form_about(schema, [("source", &source), ("translation", &target)]))
    }

    fn schema(&self, file: File, cue: Cue) -> Result<String, Error> {
        let scale = self.scenario.scale().map(Scale::max);
        self.prompts.render(file, json!({ "scale": scale, "cue": cue == Cue::Marked }))
    }

    fn values<'a>(&self, texts: &Texts<'a>, cue: Cue) -> Result<Values<'a>, Error> {
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

    /// The published code's own examples.
    fn code_examples(&self, file: File) -> Result<Vec<Example>, setup::Error> {
        let text = self.prompts.render(file, ()).map_err(setup::Error::from_prompt)?;
        let layout = self.scenario.scale().map_or("severity".to_owned(), |scale| scale.max().to_string());
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let example = |(idx, line): (usize, &str)| {
            let unfit = |reason: String| setup::Error::Shot { file: file.name.into(), line: idx + 1, reason };
            let mut shot: CodeShot = serde_json::from_str(line).map_err(|e| unfit(e.to_string()))?;
            let Some(answer) = shot.answers.remove(&layout) else {
                return Err(unfit(format!("`answers` has no `{layout}`")));
            };
            let CodeShot { source_lang, source, target_lang, target, .. } = shot;
            Ok(Example { source_lang, source, target_lang, target, answer })
        };
        lines.map(example).collect()
    }

    fn example(&self, shot: Shot) -> Result<Example, setup::Error> {
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
    fn shot_answer(&self, shot: &Shot) -> Result<String, Error> {
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
fn check_reference(scenario: Scenario, preset: Preset, shows: bool) -> Result<(), setup::Error> {
    let reason = match preset {
        _ if !shows => return Ok(()),
        Preset::Strict => return Ok(()),
        Preset::Code if scenario.code_shows_reference() => return Ok(()),
        Preset::Code => {
            "the published code shows no reference in this scenario; hint: leave `reference` out, or use \
             `deeprubric-100` or preset `strict`"
        }
        Preset::Paper => {
            "the paper's prompts have no reference; hint: leave `reference` out, or use preset `code` or `strict`"
        }
    };
    Err(setup::Error::Conflict(reason.into()))
}
