//! The names of error categories: MQM as WMT and the judges' papers use it, and one spelling for each.
//! Severities and weights are elsewhere.

use super::Side;

/// The typology: top categories, each with its subcategories.
///
/// Source: M-MAD Table 13 (WMT's hierarchy), with `wrong language` (FSP Figure 9), `creative
/// reinterpretation`, `source language fragment`, `gender mismatch` and `text-breaking`, which WMT's later
/// annotations carry.
pub const TYPOLOGY: &[(&str, &[&str])] = &[
    (
        "accuracy",
        &[
            "addition",
            "omission",
            "mistranslation",
            "untranslated text",
            "wrong language",
            "creative reinterpretation",
            "source language fragment",
            "gender mismatch",
        ],
    ),
    (
        "fluency",
        &[
            "punctuation",
            "spelling",
            "grammar",
            "register",
            "inconsistency",
            "character encoding",
            "text-breaking",
        ],
    ),
    ("terminology", &["inappropriate for context", "inconsistent use"]),
    ("style", &["awkward", "bad sentence structure"]),
    (
        "locale convention",
        &[
            "address format",
            "currency format",
            "date format",
            "name format",
            "telephone format",
            "time format",
        ],
    ),
    ("other", &[]),
    ("source error", &[]),
    ("non-translation", &[]),
    ("no-error", &[]),
];

/// Other spellings of a top category.
const TOP_ALIASES: &[(&str, &str)] = &[
    ("locale", "locale convention"),
    ("locale conventions", "locale convention"),
    ("source issue", "source error"),
    ("non translation", "non-translation"),
    ("nontranslation", "non-translation"),
    ("no error", "no-error"),
    ("no errors", "no-error"),
    ("no-errors", "no-error"),
];

/// Other spellings of a subcategory.
const SUB_ALIASES: &[(&str, &str)] = &[
    ("untranslated", "untranslated text"),
    ("encoding", "character encoding"),
    ("inappropriate", "inappropriate for context"),
    ("inconsistent", "inconsistent use"),
    ("unnatural or awkward", "awkward"),
    ("incorrect word order", "bad sentence structure"),
    ("word order", "bad sentence structure"),
    ("reinterpretation", "creative reinterpretation"),
    ("address", "address format"),
    ("currency", "currency format"),
    ("date", "date format"),
    ("name", "name format"),
    ("telephone", "telephone format"),
    ("time", "time format"),
];

/// One spelling for a category: lower case, `top/sub`. A category outside the typology is only lowercased.
///
/// ```
/// use tribunal_core::mqm::typology::normalise;
/// assert_eq!(normalise("Accuracy/Mistranslation"), "accuracy/mistranslation");
/// assert_eq!(normalise("accuracy (omission)"), "accuracy/omission");
/// assert_eq!(normalise("mistranslation"), "accuracy/mistranslation");
/// assert_eq!(normalise("Locale convention/Date"), "locale convention/date format");
/// assert_eq!(normalise("Non-translation!"), "non-translation");
/// assert_eq!(normalise("Source issue"), "source error");
/// assert_eq!(normalise("No-error"), "no-error");
/// assert_eq!(normalise("Fluency/Rhythm"), "fluency/rhythm");
/// ```
pub fn normalise(name: &str) -> String {
    let name = clean(name);
    match halves(&name) {
        (top, None) if top == name => bare(&top),
        // Something empty was cut off.
        (top, None) => normalise(&top),
        (top, Some(sub)) => {
            let top = alias(TOP_ALIASES, &top);
            format!("{top}/{}", alias(SUB_ALIASES, &sub))
        }
    }
}

/// Joins a category and a type that an answer gives apart; an empty type is left out.
pub fn join(category: &str, kind: &str) -> String {
    let (category, kind) = (normalise(category), clean(kind));
    if kind.is_empty() || kind == category || category.contains('/') {
        return category;
    }
    // A type that repeats its category (`accuracy` with `accuracy/omission`) is the whole path already.
    if kind.contains('/') { normalise(&kind) } else { normalise(&format!("{category}/{kind}")) }
}

/// Returns true if the typology has this path (after [`normalise`]).
///
/// ```
/// use tribunal_core::mqm::typology::is_known;
/// assert!(is_known("Fluency/Grammar") && is_known("style") && is_known("omission"));
/// assert!(!is_known("non") && !is_known("fluency/rhythm"));
/// ```
pub fn is_known(name: &str) -> bool {
    let path = normalise(name);
    match path.split_once('/') {
        None => TYPOLOGY.iter().any(|(top, _)| *top == path),
        Some((top, sub)) => TYPOLOGY.iter().any(|(t, subs)| *t == top && subs.contains(&sub)),
    }
}

/// The text in which errors of this category are marked: omissions and source errors in the source.
///
/// Source: M-MAD Appendix B (WMT's annotation guidelines).
pub fn side(category: &str) -> Side {
    match normalise(category).as_str() {
        "accuracy/omission" | "source error" => Side::Source,
        path if path.starts_with("source error/") => Side::Source,
        _ => Side::Target,
    }
}

/// Lower case, single spaces, no brackets, quotes, emphasis or final `!` around the name.
fn clean(name: &str) -> String {
    let name = name.to_lowercase().replace('_', " ");
    let name = name.trim_matches(|c: char| c.is_whitespace() || "[]\"'`*!“”".contains(c));
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `top/sub`, `top-sub` and `top (sub)` cut apart; a hyphen cuts only behind a known top category.
fn halves(name: &str) -> (String, Option<String>) {
    let parts = |top: &str, sub: &str| (clean(top), Some(clean(sub)).filter(|sub| !sub.is_empty()));
    if let Some((top, sub)) = name.split_once('/') {
        return parts(top, sub);
    }
    if let Some((top, sub)) = name.split_once('(').filter(|_| name.ends_with(')')) {
        return parts(top, sub.trim_end_matches(')'));
    }
    match name.split_once('-') {
        Some((top, sub)) if is_top(top.trim()) => parts(top, sub),
        _ => (name.into(), None),
    }
}

/// The path of a name that stands alone: a top category, or a subcategory of exactly one.
fn bare(name: &str) -> String {
    let top = alias(TOP_ALIASES, name);
    if is_top(top) {
        return top.into();
    }
    let sub = alias(SUB_ALIASES, name);
    let mut owners = TYPOLOGY.iter().filter(|(_, subs)| subs.contains(&sub));
    match (owners.next(), owners.next()) {
        (Some((top, _)), None) => format!("{top}/{sub}"),
        _ => name.into(),
    }
}

fn is_top(name: &str) -> bool {
    TYPOLOGY.iter().any(|(top, _)| *top == name)
}

fn alias<'a>(aliases: &[(&'a str, &'a str)], name: &'a str) -> &'a str {
    aliases.iter().find(|(other, _)| *other == name).map_or(name, |(_, ours)| ours)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_path_is_its_own_normal_form() {
        for (top, subs) in TYPOLOGY {
            assert_eq!(normalise(top), *top);
            for sub in *subs {
                assert_eq!(normalise(&format!("{top}/{sub}")), format!("{top}/{sub}"));
                assert_eq!(normalise(sub), format!("{top}/{sub}"), "a bare subcategory finds its top");
            }
        }
    }

    #[test]
    fn spellings_of_the_papers_and_of_wmt() {
        let check = |name: &str, path: &str| assert_eq!(normalise(name), path, "{name}");
        check("accuracy-untranslated text", "accuracy/untranslated text");
        check("Style/Unnatural or awkward", "style/awkward");
        check("Terminology/Inappropriate for context", "terminology/inappropriate for context");
        check("Locale convention/Address format", "locale convention/address format");
        check("[fluency/character_encoding]", "fluency/character encoding");
        check("**Other**", "other");
        check("non-translation", "non-translation");
        check("text-breaking", "fluency/text-breaking");
        check("Accuracy/Creative Reinterpretation", "accuracy/creative reinterpretation");
        check("", "");
    }

    #[test]
    fn joins_what_an_answer_gives_apart() {
        assert_eq!(join("accuracy", "mistranslation"), "accuracy/mistranslation");
        assert_eq!(join("other", ""), "other");
        assert_eq!(join("other", "other"), "other");
        assert_eq!(join("Fluency", "fluency/grammar"), "fluency/grammar");
        assert_eq!(join("other", "Tone"), "other/tone");
    }

    #[test]
    fn sides() {
        assert_eq!(side("Accuracy/Omission"), Side::Source);
        assert_eq!(side("source issue"), Side::Source);
        assert_eq!(side("accuracy/addition"), Side::Target);
    }

    proptest! {
        #[test]
        fn normal_forms_stay(name in "(accuracy|style|date|non|translation|Omission|[ a-z/()!\\[\\]\"*_-]){0,8}") {
            let once = normalise(&name);
            prop_assert_eq!(normalise(&once), once);
        }
    }
}
