//! Worked examples of EAPrompt: our files of shots, or the authors' own file ([`code`]). Nothing is rendered
//! here.

use std::{collections::BTreeSet, fmt};

use super::{ExampleSet, Options};
use crate::{
    Error,
    prompt::{File, Prompts},
    segment::{Segment, lang},
    setup::{self, Preset, Settings},
    shots::{self, Shot, ShotError},
};

mod code;

use code::{Demo, is_authors, read_authors};

/// The pairs that the authors have an example of.
const AUTHORS: [(&str, &str); 3] = [("en", "de"), ("en", "ru"), ("zh", "en")];

/// The examples of a run, and the rule that selects those shown before a segment.
pub struct Examples {
    all: Vec<Example>,
    /// Those of the segment's own languages only.
    by_pair: bool,
    /// A pair of the authors is refused without its example.
    as_code: bool,
    /// Examples are switched off.
    is_off: bool,
}

impl Examples {
    /// Reads the examples in force, if any, and keeps those that the variant can show.
    ///
    /// # Errors
    /// [`setup::Error::Shot`] or [`setup::Error::Conflict`] for a file that cannot be used.
    pub fn load(
        prompts: &Prompts,
        file: Option<File>,
        settings: &Settings,
        options: &Options,
    ) -> Result<Self, setup::Error> {
        let by_pair = *options.shots != ExampleSet::All;
        let mut all = file.map_or(Ok(Vec::new()), |file| read(prompts, file, settings, options))?;
        let is_detailed = *options.is_detailed;
        all.retain(|example| {
            let is_said = !is_detailed || matches!(example.answer, Answer::Words { .. });
            is_said && (!options.reference.is_shown(settings) || example.reference.is_some())
        });
        let as_code = by_pair && file.is_some() && settings.preset == Preset::Code;
        Ok(Self { all, by_pair, as_code, is_off: file.is_none() })
    }

    /// All of them.
    pub fn all(&self) -> &[Example] {
        &self.all
    }

    /// The examples before a segment.
    ///
    /// # Errors
    /// [`Error::Failed`] where the example of the authors is missing: without it, the question would not be
    /// theirs.
    pub fn of(&self, segment: &Segment) -> Result<Vec<&Example>, Error> {
        let found: Vec<_> = self.all.iter().filter(|e| !self.by_pair || e.is_of(segment)).collect();
        let pair = (segment.src_lang.language(), segment.tgt_lang.language());
        if found.is_empty() && self.as_code && AUTHORS.contains(&pair) {
            let reason = format!(
                "the authors' example for {}-{} is not at hand in this variant; hint: give \
                 `EAPrompt/constants/context.py` as shots, from a copy of Coldmist-Lu/ErrorAnalysis_Prompt, or shots=0",
                pair.0, pair.1
            );
            return Err(Error::Failed(reason));
        }
        Ok(found)
    }
}

/// For the signature: `pair(english-german)`, the pairs whose examples are shown before segments of their own
/// languages; `all(...)`; or `0`.
impl fmt::Display for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair =
            |e: &Example| format!("{}-{}", plain(&e.source_lang), plain(&e.target_lang)).to_lowercase();
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

/// The examples of a file: shots, or the authors' file.
fn read(
    prompts: &Prompts,
    file: File,
    settings: &Settings,
    options: &Options,
) -> Result<Vec<Example>, setup::Error> {
    let text = prompts.render(file, ()).map_err(setup::Error::from_prompt)?;
    if !is_authors(&text) {
        return Ok(shots::load(prompts, Some(file), settings)?.into_iter().map(Example::from).collect());
    }
    let conflict = |reason: String| {
        let name = settings.shots.as_ref().map_or(file.name.into(), |path| path.display().to_string());
        setup::Error::Conflict(format!("the examples of `{name}` cannot be used: {reason}"))
    };
    if settings.preset != Preset::Code {
        return Err(conflict("they are in the layout of the authors' code; hint: use preset `code`".into()));
    }
    let demo = if *options.is_detailed { Demo::Detailed } else { Demo::Itemized };
    read_authors(&text, demo, options.reference.is_shown(settings)).map_err(conflict)
}

/// One example.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// English names of the languages.
    pub source_lang: String,
    pub target_lang: String,
    pub source: String,
    pub reference: Option<String>,
    pub target: String,
    pub answer: Answer,
}

/// Content of the answer to an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Errors, to be written in the layout of the preset.
    Errors(Vec<ShotError>),
    /// The authors' words, and the counts that end the answer when one step does both.
    Words { errors: String, counts: String },
}

impl Example {
    /// True if the example translates between the segment's languages, in any region and script.
    fn is_of(&self, segment: &Segment) -> bool {
        let same = |name: &str, lang: &lang::Lang| plain(name) == plain(lang.name());
        same(&self.source_lang, &segment.src_lang) && same(&self.target_lang, &segment.tgt_lang)
    }
}

impl From<Shot> for Example {
    fn from(shot: Shot) -> Self {
        let Shot { source_lang, source, target_lang, target, errors, reference } = shot;
        Self { source_lang, target_lang, source, reference, target, answer: Answer::Errors(errors) }
    }
}

/// `Chinese` of `Chinese (China)`.
fn plain(name: &str) -> &str {
    name.split_once(" (").map_or(name, |(language, _)| language)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = include_str!("../../../../tests/golden/eaprompt_examples.py");

    #[test]
    fn the_layout_of_the_authors_file() {
        assert!(is_authors(OURS) && !is_authors("{\"source\": \"EXAMPLE_\"}"));
        let [de, zh] = &read_authors(OURS, Demo::Itemized, true).unwrap()[..] else { panic!("two examples") };
        assert_eq!((de.source_lang.as_str(), de.target_lang.as_str()), ("English", "German"));
        assert_eq!(de.reference.as_deref(), Some("Sie machte das Fenster zu und las weiter."));
        assert_eq!(zh.source, "他把\"窗户\"关上了。");
        let Answer::Words { errors, counts } = &de.answer else { panic!("their words") };
        assert!(errors.starts_with("Major errors:\n(1) “ging") && errors.ends_with("Grammar'"), "{errors}");
        assert_eq!(counts, "1, 1");
        let detailed = read_authors(OURS, Demo::Detailed, false).unwrap();
        assert_eq!((detailed[0].reference.as_ref(), detailed[0].target.as_str()), (None, de.target.as_str()));
        assert!(
            matches!(&detailed[0].answer, Answer::Words { errors, .. } if errors.starts_with("The words"))
        );
    }

    #[test]
    fn what_is_wrong_with_a_file() {
        let check = |text: &str, expected: &str| {
            let error = read_authors(text, Demo::Itemized, false).unwrap_err();
            assert_eq!(error, expected, "{text}");
        };
        check("\"\"\"\nEXAMPLE_ENDE_SRC = \"x\"\n\"\"\"\n", "it has no constant `EXAMPLE_..._SRC`");
        check(
            "EXAMPLE_ENDE_SRC = \"\"\"\nSource: a",
            "the constant `EXAMPLE_ENDE_SRC` is a string that does not end",
        );
        check(
            "EXAMPLE_ENDE_SRC = \"a\\n\"",
            "the constant `EXAMPLE_ENDE_SRC` holds a backslash, and escapes are not read here",
        );
        check(
            "EXAMPLE_ENDE_SRC = \"Source: a\"",
            "the constant `EXAMPLE_ENDE_SRC` does not run from `Source:` to `Translation:`",
        );
        let texts = "EXAMPLE_ENDE_SRC = \"\"\"Source: a\nTranslation: b\"\"\"";
        check(texts, "the constant `EXAMPLE_ERROR_ITEMIZED_ENDE` is missing");
    }

    #[test]
    fn languages_match_without_their_regions() {
        let segment = |src: &str, tgt: &str| Segment {
            system: "s".into(),
            doc: "d".into(),
            seg: 0,
            src_lang: lang::Lang::parse(src).unwrap(),
            tgt_lang: lang::Lang::parse(tgt).unwrap(),
            source: String::new(),
            hypothesis: String::new(),
            reference: None,
            domain: None,
            reference_kind: None,
        };
        let example = &read_authors(OURS, Demo::Itemized, false).unwrap()[0];
        assert!(example.is_of(&segment("en", "de")) && example.is_of(&segment("en", "de_DE")));
        assert!(!example.is_of(&segment("de", "en")) && !example.is_of(&segment("en", "cs")));
    }
}
