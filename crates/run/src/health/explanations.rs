//! Explanations copied from the prompt, or about a text in another language.

use regex::Regex;

use crate::{call::CallLine, record::Record, segment::lang};

/// The prompt of a question about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    doc: String,
    /// `None` when the question was about the whole group.
    seg: Option<usize>,
    text: String,
}

impl Question {
    /// The question of a recorded call; `None` where its text was not kept.
    pub fn from_call(call: &CallLine) -> Option<Self> {
        let texts: Vec<_> = call.content.as_ref()?.chat.texts().collect();
        Some(Self { doc: call.doc.clone(), seg: call.seg, text: texts.join("\n") })
    }

    /// Returns true if the question was about this unit.
    pub fn is_of(&self, doc: &str, seg: Option<usize>) -> bool {
        self.doc == doc && self.seg == seg
    }

    /// Returns true if the question can contain a model's answer about this unit, as in later stages.
    fn is_about(&self, record: &Record) -> bool {
        self.doc == record.doc && (self.seg.is_none() || record.seg.is_none() || self.seg == record.seg)
    }
}

/// A shorter explanation, in bytes, may be right for two texts.
const LEAST_COPIED: usize = 40;

/// Words in quotation marks, the variable parts of an explanation's template. Double quotes are not among
/// them, for in prompts they hold whole explanations.
const QUOTED: &str =
    r"\B'[^'\n]{1,80}'\B|‘[^’\n]{1,80}’|“[^”\n]{1,80}”|„[^“”\n]{1,80}[“”]|«[^»\n]{1,80}»|「[^」\n]{1,80}」";

/// The questions' texts, normalised for the comparison with explanations.
pub struct QuestionTexts<'a> {
    quoted: Regex,
    questions: Vec<(&'a Question, String)>,
}

impl<'a> QuestionTexts<'a> {
    pub fn new(questions: &'a [Question]) -> Self {
        let quoted = Regex::new(QUOTED).expect("the expression is well-formed");
        let questions = questions.iter().map(|question| (question, plain(&quoted, &question.text))).collect();
        Self { quoted, questions }
    }

    /// The explanation, if a question about another unit contains it; quoted words are ignored.
    pub fn copied(&self, record: &Record, explanation: &str) -> Option<String> {
        let sought = plain(&self.quoted, explanation);
        let sought = sought.trim_end_matches(['.', ' ']);
        let stands_in =
            |(question, text): &(&Question, String)| !question.is_about(record) && text.contains(sought);
        (sought.len() >= LEAST_COPIED && self.questions.iter().any(stands_in))
            .then(|| format!("`{explanation}`"))
    }
}

/// Normalises a text: masks quoted words, lower-cases, removes double quotes, backticks and backslashes, and
/// collapses white space, also that of JSON's `\n`, `\r` and `\t`.
fn plain(quoted: &Regex, text: &str) -> String {
    let spaced = ["\\n", "\\r", "\\t"].iter().fold(text.to_owned(), |text, escape| text.replace(escape, " "));
    let masked = quoted.replace_all(&spaced, "_").replace(['"', '\\', '`'], "").to_lowercase();
    masked.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Nouns that follow the name of a language if a text in it is meant.
const TEXTS: &str = "source|original|text|translation|sentence|segment|word|phrase|version|language|expression|equivalent|\
                     input|output|grammar|term";

/// Finds names of languages that are used of a text, such as `Chinese text` and `into French.`.
pub struct Names(Regex);

impl Names {
    pub fn new() -> Self {
        // Latin words occur in texts of every language.
        let names = lang::names().filter(|name| *name != "Latin").collect::<Vec<_>>().join("|");
        let expression = format!(
            r"\b(?:({names})\s+(?:{TEXTS})s?\b|(?:in|into|from|to)\s+({names})(?:\s*[.,;:!?)]|\s*$))"
        );
        Self(Regex::new(&expression).expect("names of languages are plain words"))
    }

    /// The words of an explanation that name a language which is neither of the unit's nor in its texts.
    pub fn foreign(&self, record: &Record, explanation: &str) -> Option<String> {
        let is_there = |name: &str| {
            // `Arabic` of `Egyptian Arabic`, `Chinese` of `Chinese (China)`.
            let mut languages = [&record.src_lang, &record.tgt_lang].into_iter();
            languages.any(|lang| lang.name().split(|c: char| !c.is_alphanumeric()).any(|word| word == name))
                || record.source.contains(name)
                || record.hypothesis.contains(name)
        };
        self.0.captures_iter(explanation).find_map(|found| {
            let name = found.get(1).or(found.get(2))?.as_str();
            (!is_there(name)).then(|| {
                format!(
                    "`{}` in `{explanation}`",
                    found[0].trim_end_matches(['.', ',', ';', ':', '!', '?', ')'])
                )
            })
        })
    }
}
