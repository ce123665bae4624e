//! Worked examples of EAPrompt: those of a file of shots, and the rule that selects those shown before a
//! segment. Nothing is rendered here.

use std::{collections::BTreeSet, fmt};

use super::{ExampleSet, Options};
use crate::{
    prompt::{File, Prompts},
    segment::{Segment, lang},
    setup::{self, Settings},
    shots::{self, Shot},
};

/// The examples of a run: shots, or a type of example that has one.
pub struct Examples<E = Shot> {
    all: Vec<E>,
    /// Those of the segment's own languages only.
    by_pair: bool,
    /// Examples are switched off.
    is_off: bool,
}

impl Examples {
    /// Reads the shots in force, if any, and keeps those that the variant can show.
    ///
    /// # Errors
    /// [`setup::Error::Line`] or [`setup::Error::Conflict`] for a file that cannot be used.
    pub fn load(
        prompts: &Prompts,
        file: Option<File>,
        settings: &Settings,
        options: &Options,
    ) -> setup::Result<Self> {
        let Some(file) = file else { return Ok(Self::new(None, settings, options)) };
        let text = prompts.render(file, ()).map_err(setup::Error::from_prompt)?;
        if is_authors(&text) {
            let reason = "they are in the layout of the authors' code; hint: use preset `code`";
            return Err(unusable(file, settings, reason));
        }
        Ok(Self::new(Some(shots::load(prompts, Some(file), settings)?), settings, options))
    }
}

impl<E: AsRef<Shot>> Examples<E> {
    /// The examples of the file in force, `None` without one. Those without a reference that is to be shown
    /// are left out.
    pub fn new(all: Option<Vec<E>>, settings: &Settings, options: &Options) -> Self {
        let (is_off, by_pair) = (all.is_none(), *options.shots != ExampleSet::All);
        let mut all = all.unwrap_or_default();
        let shows_reference = options.reference.is_shown(settings);
        all.retain(|example| !shows_reference || example.as_ref().reference.is_some());
        Self { all, by_pair, is_off }
    }

    /// All of them.
    pub fn all(&self) -> &[E] {
        &self.all
    }

    /// The examples before a segment.
    pub fn of(&self, segment: &Segment) -> Vec<&E> {
        self.all.iter().filter(|example| !self.by_pair || is_of(example.as_ref(), segment)).collect()
    }
}

/// For the signature: `pair(english-german)`, the pairs whose examples are shown before segments of their own
/// languages; `all(...)`; or `0`.
impl<E: AsRef<Shot>> fmt::Display for Examples<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |example: &E| {
            let Shot { source_lang, target_lang, .. } = example.as_ref();
            format!("{}-{}", plain(source_lang), plain(target_lang)).to_lowercase()
        };
        let pairs: BTreeSet<String> = self.all.iter().map(pair).collect();
        let pairs = pairs.into_iter().collect::<Vec<_>>().join("+");
        let pairs = if pairs.is_empty() { "none" } else { &pairs };
        match (self.is_off, self.by_pair) {
            (true, _) => f.write_str("0"),
            (_, true) => write!(f, "pair({pairs})"),
            (_, false) => write!(f, "all({pairs})"),
        }
    }
}

/// True if a file is the authors' and not one of shots, which begins with JSON.
pub fn is_authors(text: &str) -> bool {
    !text.trim_start().starts_with('{') && text.contains("EXAMPLE_")
}

/// The error for examples that cannot be used.
pub fn unusable(file: File, settings: &Settings, reason: &str) -> setup::Error {
    let name = settings.shots.as_ref().map_or(file.name.into(), |path| path.display().to_string());
    setup::Error::Conflict(format!("the examples of `{name}` cannot be used: {reason}"))
}

/// True if an example translates between the segment's languages, in any region and script.
fn is_of(example: &Shot, segment: &Segment) -> bool {
    let same = |name: &str, lang: &lang::Lang| plain(name) == plain(lang.name());
    same(&example.source_lang, &segment.src_lang) && same(&example.target_lang, &segment.tgt_lang)
}

/// `Chinese` of `Chinese (China)`.
fn plain(name: &str) -> &str {
    name.split_once(" (").map_or(name, |(language, _)| language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_match_without_their_regions() {
        let shot =
            r#"{"source_lang":"English","source":"a","target_lang":"German","target":"b","errors":[]}"#;
        let example = &shots::read("f", shot).unwrap()[0];
        let matches = |pair: &str| {
            let pair = lang::parse_pair(pair).unwrap();
            is_of(example, &Segment::new(pair, "", ""))
        };
        assert!(matches("en-de") && matches("en-de_DE"));
        assert!(!matches("de-en") && !matches("en-cs"));
    }
}
