//! The ten error labels, no-error, and what models and MQM call them.

/// No answer for the marked span.
pub const NONE: &str = "none";

pub const NO_ERROR: &str = "no-error";

/// What each label is called in MQM's typology, by path: Appendix E.1.
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

/// Words that an answer names a label by. The one that stands last in an MQM path counts.
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
/// use tribunal::meta::promptcue::labels::of_mqm;
/// assert_eq!(of_mqm("Style/Bad sentence structure"), Some("word order"));
/// assert_eq!(of_mqm("Terminology/Inconsistent use"), Some("terminology"));
/// assert_eq!(of_mqm("Locale convention/Date format"), None);
/// ```
#[must_use]
pub fn of_mqm(category: &str) -> Option<&'static str> {
    let category = category.to_lowercase();
    if category.starts_with("no-error") || category.starts_with("no error") {
        return Some(NO_ERROR);
    }
    MQM.iter().find(|(path, _)| category.starts_with(path)).map(|(_, label)| *label)
}

/// The label that an answer's words name; of several parts of a path the last.
///
/// ```
/// use tribunal::meta::promptcue::labels::spoken;
/// assert_eq!(spoken("accuracy/untranslated text"), Some("untranslated"));
/// assert_eq!(spoken("incorrect word order"), Some("word order"));
/// assert_eq!(spoken("fluency"), None);
/// ```
#[must_use]
pub fn spoken(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let named = |part: &str| {
        let places = SPOKEN.iter().filter_map(|(word, label)| Some((part.find(word)?, *label)));
        places.min_by_key(|(place, _)| *place).map(|(_, label)| label)
    };
    text.rsplit('/').find_map(named)
}

/// The label of a gold or recorded category: the sets write synonyms of some.
///
/// PTB calls its perturbed half `non-translation`, which its own framework does not have: it is
/// mistranslation.
#[must_use]
pub fn of_gold(category: &str) -> String {
    match category.trim().to_lowercase().as_str() {
        "non-translation" => "mistranslation".to_owned(),
        "" => NONE.to_owned(),
        other => other.to_owned(),
    }
}
