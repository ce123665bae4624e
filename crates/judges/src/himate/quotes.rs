//! The span of an error that is described and not marked: the words of the text that its explanation quotes.
//! Other parts of an answer are read elsewhere.
//!
//! HiMATE's subtype evaluation asks for existence, severity and an explanation. The spans of its worked cases
//! (Tables 11 to 17) are the shortest phrases that the explanations quote from the text.

use crate::mqm::locate;

/// Opening marks with their closing marks. Marks that are the same on both sides pair up in turn.
const MARKS: [(char, &[char]); 8] = [
    ('"', &['"']),
    ('“', &['”', '“']),
    ('„', &['“', '”', '"']),
    ('«', &['»']),
    ('»', &['«']),
    ('「', &['」']),
    ('‘', &['’']),
    ('\'', &['\'']),
];

/// The shortest phrase that an explanation quotes and that stands in the text in whole words; of equally
/// short ones the first. A sign that closes the quotation (`"know,"`) may be the explanation's own.
pub fn shortest<'t>(explanation: &str, text: &'t str) -> Option<&'t str> {
    let phrases = quoted(explanation).into_iter();
    let found = phrases.filter_map(|phrase| {
        let trimmed = phrase.trim_end_matches(['.', ',', ';', ':', '!', '?']);
        find(phrase, text).or_else(|| find(trimmed, text))
    });
    found.min_by_key(|span| span.chars().count())
}

/// All quoted phrases, in order.
fn quoted(text: &str) -> Vec<&str> {
    let mut phrases = Vec::new();
    let mut tail = text;
    let mut before = ' ';
    while let Some(mark) = tail.chars().next() {
        let body = &tail[mark.len_utf8()..];
        let closing =
            MARKS.iter().find(|(open, _)| *open == mark && opens(mark, before)).map(|(_, close)| *close);
        before = mark;
        tail = body;
        if let Some((phrase, after)) = closing.and_then(|closing| close(body, mark, closing)) {
            phrases.push(phrase.trim());
            tail = after;
        }
    }
    phrases
}

/// True if a mark can open a quotation here: an apostrophe after a letter cannot.
fn opens(mark: char, before: char) -> bool {
    mark != '\'' || !before.is_alphanumeric()
}

/// The texts before and after the closing mark; an apostrophe before a letter closes nothing.
fn close<'t>(body: &'t str, mark: char, closing: &[char]) -> Option<(&'t str, &'t str)> {
    let closes = |(at, sign): &(usize, &str)| {
        let next = body[at + sign.len()..].chars().next();
        mark != '\'' && mark != '‘' || !next.is_some_and(char::is_alphanumeric)
    };
    let (at, sign) = body.match_indices(closing).find(closes)?;
    Some((&body[..at], &body[at + sign.len()..]))
}

/// The phrase where it stands in the text without cutting a word.
fn find<'t>(phrase: &str, text: &'t str) -> Option<&'t str> {
    if phrase.is_empty() {
        return None;
    }
    let (_, span) =
        text.match_indices(phrase).find(|(at, span)| locate::is_whole(text, *at..at + span.len()))?;
    Some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(explanation: &str, text: &str, span: Option<&str>) {
        assert_eq!(shortest(explanation, text), span, "{explanation}");
    }

    /// The errors' names in the tables, beside their explanations.
    #[test]
    fn the_spans_of_the_worked_cases() {
        let first = "I hope you know about it.";
        check(
            "The translation \"I hope you know about it\" does not accurately convey the meaning of the source text \
             \"希望你们了解一下\" which more appropriately translates to \"I hope you all understand\" or \"I hope you \
             all are aware\" The use of \"know about it\" implies a lesser degree of understanding",
            first,
            Some("know about it"),
        );
        check(
            "The term \"了解\" implies a deeper comprehension than \"know,\" which could be seen as inappropriate",
            first,
            Some("know"),
        );
        check(
            "The translation omits the word \"希望\" (\"hope\") in the source, which changes the tone",
            "希望你们了解一下",
            Some("希望"),
        );
        let second =
            "From reception, makeup, costumes, lighting, photography to the late stage, it is impeccable.";
        check(
            "The phrase \"to the late stage\" in the translation does not accurately convey the meaning of the original \
             Chinese text, which implies that everything is impeccable \"from reception to post-production\" without \
             a clear distinction or segmentation of \"the late stage.\"",
            second,
            Some("the late stage"),
        );
        check(
            "The translation introduces the phrase \"the late stage\" which is not present in the source text (\"后期\" \
             could refer to a general later stage rather than a specific term).",
            second,
            Some("the late stage"),
        );
        check(
            "The phrase \"to the late stage\" does not accurately reflect the intended meaning of \"后期\" which \
             typically refers to \"post-production\" or \"editing\" in a context involving photography or film.",
            second,
            Some("to the late stage"),
        );
        check(
            "The translation omits the phrase \"无论从\" (which means \"regardless of\" or \"no matter if\")",
            "无论从接待、化妆、服装、灯光、摄影到后期都无可挑剔。",
            Some("无论从"),
        );
        let third = "die diese Woche noch stärker gemacht wurde, als er ein Feuerwerk auslöste.";
        check(
            "The phrase \"stärker gemacht wurde\" is somewhat awkward in German. A more natural phrasing could be \
             \"intensiver wurde\" or \"mehr an Intensität gewann.\"",
            third,
            Some("stärker gemacht wurde"),
        );
        check(
            "The translation uses \"Feuerwerk\" which is more commonly associated with fireworks in a literal sense",
            third,
            Some("Feuerwerk"),
        );
    }

    #[test]
    fn quotation_marks() {
        let text = "Er saß auf der Bank, nicht am Ufer's Rand.";
        check("„Bank“ is wrong", text, Some("Bank"));
        check("“Bank” is wrong", text, Some("Bank"));
        check("«Bank» is wrong", text, Some("Bank"));
        check("It's 'Bank' that isn't right", text, Some("Bank"));
        check("It's the bank that isn't right", text, None);
        check("\"Ufer's Rand\" or 'am Ufer's Rand'", text, Some("Ufer's Rand"));
        check("\"B\" is a letter and \"Ban\" a part of a word", text, None);
        check("an open \"Bank", text, None);
        check("no quotation", text, None);
        check("\"\" and \" \"", text, None);
        check("", "", None);
    }
}
