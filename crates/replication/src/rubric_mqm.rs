//! RUBRIC-MQM as its published code runs it, trotacodigos/Rubric-MQM at 6221019d (MIT): its files, its reader
//! and its score. [`tribunal_judges::rubric_mqm`] lists what differs.

use std::collections::BTreeMap;

use serde::Deserialize;
use tribunal_core::{
    llm::{Chat, Reply, ResponseFormat},
    mqm::{ErrorSpan, Repeats},
    segment::Segment,
};
use tribunal_judges::{
    Judge, Panel, Preset, Protocol, Provenance, Result, Role, Settings, Verdict, confidence,
    prompt::File,
    rubric_mqm::{
        ANNOTATE, BUDGET, Cue, Options, RubricMqm, Scenario, Texts,
        files::Files,
        questions::{Example, Templates},
        scenario::Scale::{Eight, Four, Hundred},
        unmarked,
    },
    setup::{self, GivenOptions},
};

mod answers;

/// A file of this folder, under the name by which a user's file replaces it.
macro_rules! file {
    ($name:literal) => {
        File { name: concat!("rubric_mqm/code/", $name), text: include_str!(concat!("rubric_mqm/", $name)) }
    };
}

/// RUBRIC-MQM as published.
pub struct Published {
    templates: Templates,
    examples: Vec<Example>,
    shows_reference: bool,
    budget: usize,
}

/// A judge of marked spans, in any preset (PromptCUE).
pub enum Classifier {
    Printed(RubricMqm),
    Published(Published),
}

/// A worked example, with its answer word for word in each layout: `severity`, `4`, `8`, `100`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedExample {
    source_lang: String,
    source: String,
    target_lang: String,
    target: String,
    answers: BTreeMap<String, String>,
}

/// The judge of preset `code`.
///
/// # Errors
/// Options for which nothing is published, and prompts or shots that cannot be used.
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let judge = Published::new(settings, &Options::read(options))?;
    Ok(Judge::new(judge.provenance(), judge))
}

impl Classifier {
    /// The judge of the settings' preset.
    ///
    /// # Errors
    /// Those of [`RubricMqm::new`] and [`build`].
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        match settings.preset {
            Preset::Code => Published::new(settings, options).map(Self::Published),
            Preset::Paper | Preset::Strict => RubricMqm::new(settings, options).map(Self::Printed),
        }
    }

    /// Its inputs, for the signature.
    pub fn provenance(&self) -> Provenance {
        match self {
            Self::Printed(judge) => judge.provenance(),
            Self::Published(judge) => judge.provenance(),
        }
    }

    /// Its scenario.
    pub fn scenario(&self) -> Scenario {
        match self {
            Self::Printed(judge) => judge.scenario(),
            Self::Published(judge) => judge.templates.scenario,
        }
    }

    /// Classifies the marked spans of two texts. The answer is returned as lines of the printed layout.
    ///
    /// # Errors
    /// Those of [`RubricMqm::classify`].
    pub fn classify(&self, panel: &Panel, texts: &Texts) -> Result<String> {
        match self {
            Self::Printed(judge) => judge.classify(panel, texts),
            Self::Published(judge) => Ok(judge.ask(panel, texts, Cue::Marked)?.text),
        }
    }
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

impl Published {
    fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let scenario = *options.scenario;
        let shows_reference = options.reference.is_shown(settings);
        check_options(settings, options, shows_reference)?;
        let files = files(scenario);
        let shots = settings.has_shots(*options.has_shots)?.then_some(files.shots);
        // The answers of the published examples are in their file.
        let answer = settings.shots.as_ref().map(|_| files.answer);
        let templates = Templates::load(scenario, files, [shots, answer, None], settings)?;
        let examples = match shots {
            Some(file) if settings.shots.is_none() => published_examples(&templates, file)?,
            shots => templates.examples(shots, settings)?,
        };
        let budget = settings.max_tokens.unwrap_or(BUDGET);
        let judge = Self { templates, examples, shows_reference, budget };
        judge.chat(&Texts::sample(shows_reference), Cue::Marked).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn provenance(&self) -> Provenance {
        Provenance::of(&self.templates.prompts)
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let texts = Texts::of(segment, self.shows_reference)?;
        let reply = self.ask(panel, &texts, Cue::Unmarked)?;
        let scenario = self.templates.scenario;
        let (source, target) = (&segment.source, &segment.hypothesis);
        let mut errors = answers::read(&reply.text, scenario);
        confidence::note(&reply, "span", &mut errors);
        restore(&mut errors, source, target);
        errors = Repeats::Charged.settled(errors, source, target);
        let raw = answers::score(&errors, scenario);
        let score = if scenario.scale().is_none() { 0.0 - raw } else { raw };
        // On the scale of the score.
        for error in &mut errors {
            error.weight /= 100.0;
        }
        Ok(Verdict { raw, ..Verdict::new(score, errors) })
    }

    fn ask(&self, panel: &Panel, texts: &Texts, cue: Cue) -> Result<Reply> {
        let chat = self.chat(texts, cue)?;
        panel.answer(Role::Annotator, ANNOTATE, &panel.question(&chat, &ResponseFormat::Text, self.budget))
    }

    /// The conversation. The examples lack the sentence about the marks, though they have marks; without it,
    /// marks are taken out of all texts, also the user's own.
    fn chat(&self, texts: &Texts, cue: Cue) -> Result<Chat> {
        let Self { templates, examples, .. } = self;
        let shown = |question: String| if cue == Cue::Marked { question } else { unmarked(&question) };
        let mut chat = Chat::new().system(templates.system(None, cue)?);
        for example in examples {
            let mut values = templates.values(&example.texts(), Cue::Unmarked)?;
            // The examples of `deepcat` have the question of `gemba`.
            values.definitions = values.definitions.filter(|_| templates.scenario != Scenario::DeepCat);
            chat = chat.user(shown(templates.question(values)?)).assistant(&example.answer);
        }
        Ok(chat.user(shown(templates.question(templates.values(texts, cue)?)?)))
    }
}

fn files(scenario: Scenario) -> Files {
    use Scenario::{DeepCat, DeepCatShot, DeepQ, DeepRubric};
    Files {
        system: file!("system.j2"),
        prompt: file!("prompt.j2"),
        definitions: matches!(scenario, DeepCat | DeepCatShot).then_some(file!("definitions.j2")),
        rubric: match scenario {
            DeepRubric(Four) => Some(file!("rubric-4.j2")),
            DeepRubric(Eight) => Some(file!("rubric-8.j2")),
            DeepRubric(Hundred) => Some(file!("rubric-100.j2")),
            _ => None,
        },
        continuous: match scenario {
            DeepQ(Four) => Some(file!("q-4.j2")),
            DeepQ(Eight) => Some(file!("q-8.j2")),
            DeepQ(Hundred) => Some(file!("q-100.j2")),
            _ => None,
        },
        shots: if scenario.extends_shots() { file!("shots.extended.jsonl") } else { file!("shots.jsonl") },
        schema: None,
        ..Files::of(scenario, Preset::Code)
    }
}

/// The published examples, with their answers on the scale of the scenario.
fn published_examples(templates: &Templates, file: File) -> setup::Result<Vec<Example>> {
    let text = templates.prompts.render(file, ()).map_err(setup::Error::from_prompt)?;
    let layout = templates.scenario.scale().map_or("severity".to_owned(), |scale| scale.max().to_string());
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let example = |(idx, line): (usize, &str)| {
        let unfit = |reason: String| setup::Error::Line { file: file.name.into(), line: idx + 1, reason };
        let mut shot: PublishedExample = serde_json::from_str(line).map_err(|e| unfit(e.to_string()))?;
        let Some(answer) = shot.answers.remove(&layout) else {
            return Err(unfit(format!("`answers` has no `{layout}`")));
        };
        let PublishedExample { source_lang, source, target_lang, target, .. } = shot;
        Ok(Example { source_lang, source, target_lang, target, answer })
    };
    lines.map(example).collect()
}

/// Restores the marks of the texts in spans of texts that were shown without them.
fn restore(errors: &mut [ErrorSpan], source: &str, target: &str) {
    let is_marked = |text: &str| text.contains("<v>") || text.contains("</v>");
    for error in errors.iter_mut().filter(|_| is_marked(source) || is_marked(target)) {
        let is_verbatim = source.contains(&error.span) || target.contains(&error.span);
        if let Some(span) = [target, source].into_iter().find_map(|text| with_marks(text, &error.span))
            && !is_verbatim
        {
            error.span = span.to_owned();
        }
    }
}

/// The part of a text that equals this span without marks.
fn with_marks<'t>(text: &'t str, span: &str) -> Option<&'t str> {
    let (mut bare, mut places, mut at) = (String::new(), Vec::new(), 0);
    while let Some(c) = text[at..].chars().next() {
        if let Some(mark) = ["<v>", "</v>"].into_iter().find(|mark| text[at..].starts_with(mark)) {
            at += mark.len();
            continue;
        }
        // The offset of each byte of the bare text.
        places.extend(std::iter::repeat_n(at, c.len_utf8()));
        bare.push(c);
        at += c.len_utf8();
    }
    let start = bare.find(span).filter(|_| !span.is_empty())?;
    let last = span.chars().next_back()?.len_utf8();
    Some(&text[places[start]..places[start + span.len() - last] + last])
}

/// Options for which nothing is published.
fn check_options(settings: &Settings, options: &Options, shows_reference: bool) -> setup::Result<()> {
    let conflict = |text: &str| Err(setup::Error::Conflict(text.into()));
    if settings.weights.is_some() {
        return conflict(
            "rubric-mqm weighs errors only in scenarios without points, and not in preset `code`; hint: leave the weights out",
        );
    }
    if *options.is_mean {
        return conflict(
            "the published code sums the points; hint: leave `score=mean` out, or use preset `paper` or `strict`",
        );
    }
    // Its templates with a scale drop the reference, except the one of RUBRIC-MQM itself.
    let scenario = *options.scenario;
    if shows_reference && scenario.scale().is_some() && scenario != Scenario::DeepRubric(Hundred) {
        return conflict(
            "the published code shows no reference in this scenario; hint: leave `reference` out, or use \
             `deeprubric-100` or preset `strict`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::with_marks;

    #[test]
    fn spans_with_the_marks_of_the_text() {
        let text = "Das <v>ist</v> ein </v>Täg<v>, ja.";
        assert_eq!(with_marks(text, "ist ein Täg"), Some("ist</v> ein </v>Täg"));
        assert_eq!(with_marks(text, "Das ist"), Some("Das <v>ist"));
        assert_eq!(with_marks(text, "Täg, ja."), Some("Täg<v>, ja."));
        assert_eq!(with_marks(text, "Tag"), None);
        assert_eq!(with_marks(text, ""), None);
    }
}
