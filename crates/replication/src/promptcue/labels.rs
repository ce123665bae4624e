//! The ten error labels, no-error, and their names in the sets, in MQM and in answers. Nothing is scored
//! here.
//!
//! Source: RUBRIC-MQM, Appendix E.

/// No answer for the marked span.
pub const NONE: &str = "none";

pub const NO_ERROR: &str = "no-error";

/// The labels of the errors.
pub const ERRORS: [&str; 10] = [
    "omission",
    "mistranslation",
    "grammar",
    "addition",
    "source",
    "terminology",
    "inconsistency",
    "punctuation",
    "word order",
    "untranslated",
];

/// Name of each label in MQM's typology, by the beginning of its path: Appendix E.1.
const MQM: [(&str, &str); 12] = [
    ("accuracy/mistranslation", "mistranslation"),
    ("accuracy/addition", "addition"),
    ("accuracy/omission", "omission"),
    ("accuracy/source language fragment", "untranslated"),
    ("fluency/punctuation", "punctuation"),
    ("fluency/grammar", "grammar"),
    ("fluency/inconsistency", "inconsistency"),
    ("source issue", "source"),
    ("source error", "source"),
    ("style/bad sentence structure", "word order"),
    ("terminology/inappropriate for context", "terminology"),
    ("terminology/inconsistent", "terminology"),
];

/// Other names of the labels in gold sets. PTB calls its perturbed half `non-translation`, a label that its
/// own framework does not have: it is mistranslation.
const SYNONYMS: [(&str, &str); 8] = [
    ("non-translation", "mistranslation"),
    ("non-translation!", "mistranslation"),
    ("no error", NO_ERROR),
    ("no-error", NO_ERROR),
    ("source issue", "source"),
    ("source error", "source"),
    ("incorrect word order", "word order"),
    ("untranslated text", "untranslated"),
];

/// Words that name a label in an answer. In an MQM path the last part counts.
const SPOKEN: [(&str, &str); 13] = [
    ("omission", "omission"),
    ("mistranslation", "mistranslation"),
    ("grammar", "grammar"),
    ("addition", "addition"),
    ("source issue", "source"),
    ("source error", "source"),
    ("terminology", "terminology"),
    ("inconsistency", "inconsistency"),
    ("punctuation", "punctuation"),
    ("word order", "word order"),
    ("untranslated", "untranslated"),
    ("no-error", NO_ERROR),
    ("no error", NO_ERROR),
];

/// The label of an MQM category; `None` for categories that the sets leave out.
///
/// ```
/// use tribunal_replication::promptcue::labels::from_mqm;
/// assert_eq!(from_mqm("Style/Bad sentence structure"), Some("word order"));
/// assert_eq!(from_mqm("Terminology/Inconsistent use"), Some("terminology"));
/// assert_eq!(from_mqm("Locale convention/Date format"), None);
/// ```
pub fn from_mqm(category: &str) -> Option<&'static str> {
    let category = category.trim().to_lowercase();
    if category.starts_with("no-error") || category.starts_with("no error") {
        return Some(NO_ERROR);
    }
    MQM.iter().find(|(path, _)| category.starts_with(path)).map(|(_, label)| *label)
}

/// The label that an answer's words name; of several parts of a path, the last that names one.
///
/// ```
/// use tribunal_replication::promptcue::labels::spoken;
/// assert_eq!(spoken("accuracy/untranslated text"), Some("untranslated"));
/// assert_eq!(spoken("incorrect word order"), Some("word order"));
/// assert_eq!(spoken("fluency"), None);
/// ```
pub fn spoken(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let named = |part: &str| {
        let places = SPOKEN.iter().filter_map(|(word, label)| Some((part.find(word)?, *label)));
        places.min_by_key(|(place, _)| *place).map(|(_, label)| label)
    };
    text.rsplit('/').find_map(named)
}

/// The label of a gold category in any case: the label itself, a synonym, a path of MQM's typology, or
/// another path that ends in a label. `None` for categories without a label in the framework.
///
/// ```
/// use tribunal_replication::promptcue::labels::from_gold;
/// assert_eq!(from_gold("Accuracy/Mistranslation"), Some("mistranslation"));
/// assert_eq!(from_gold("accuracy/untranslated text"), Some("untranslated"));
/// assert_eq!(from_gold("Word Order"), Some("word order"));
/// assert_eq!(from_gold("Style/Awkward"), None);
/// ```
pub fn from_gold(category: &str) -> Option<&'static str> {
    let category = category.trim().to_lowercase();
    let plain = |name: &str| {
        let name = name.trim();
        let synonym = SYNONYMS.iter().find(|(known, _)| *known == name).map(|(_, label)| *label);
        synonym.or_else(|| ERRORS.into_iter().find(|label| *label == name))
    };
    plain(&category)
        .or_else(|| from_mqm(&category))
        .or_else(|| category.rsplit_once('/').and_then(|(_, last)| plain(last)))
}

/// The severity of a gold cue in any case; critical counts as major (Appendix E.2).
///
/// ```
/// use tribunal_replication::promptcue::labels::severity;
/// assert_eq!((severity("Major"), severity("neutral")), (Some("major"), None));
/// ```
pub fn severity(text: &str) -> Option<&'static str> {
    match text.trim().to_lowercase().as_str() {
        "major" | "critical" => Some("major"),
        "minor" => Some("minor"),
        "no-error" | "no error" => Some(NO_ERROR),
        _ => None,
    }
}

/// A label recorded beside an answer, unchanged; [`NONE`] where none was recorded.
pub fn recorded(label: Option<&str>) -> String {
    label.map(|label| label.trim().to_lowercase()).filter(|l| !l.is_empty()).unwrap_or(NONE.to_owned())
}
