//! Repeated errors: which of them count as separate errors, and where each is located. Weights are applied
//! elsewhere.

use super::{ErrorSpan, Side, locate};

/// Treatment of further namings of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeats {
    /// Charges every naming, like the papers and their programs.
    Charged,
    /// Charges a span and category as often as the span occurs; see [`merged`].
    #[default]
    Merged,
}

impl Repeats {
    /// The errors that are charged, each on its side and with its offsets.
    pub fn settled(self, mut errors: Vec<ErrorSpan>, source: &str, target: &str) -> Vec<ErrorSpan> {
        if self == Self::Merged {
            errors = merged(errors, source, target);
        }
        locate::place(&mut errors, source, target);
        errors
    }
}

/// Merges repeated namings of one span and category, keeping as many as the span has occurrences in its text,
/// overlapping ones not counted; further ones add to the last one's [`ErrorSpan::times`]. That has the worst
/// severity and weight, the explanation and suggestion that came with them, and the highest confidence. Small
/// models repeat themselves, and several agents can name one error.
///
/// A span that is in neither text is kept once. Without a span, only namings with the same explanation are
/// repetitions: an answer that merely counts errors has neither.
///
/// ```
/// use tribunal_core::mqm::{ErrorSpan, Severity::*, repeats::merged};
///
/// let named = |category, severity| ErrorSpan::new(category, "der", severity);
/// let errors = vec![
///     named("fluency/grammar", Minor),
///     named("Fluency/Grammar", Minor),
///     named("accuracy/mistranslation", Minor),
///     named("fluency/grammar", Major),
/// ];
/// // Two are wrong in two places; the third repeats the second.
/// let errors = merged(errors, "", "der Hund und der Bank");
/// assert_eq!(errors.len(), 3);
/// assert_eq!((errors[0].severity, errors[0].times), (Minor, 1));
/// assert_eq!((errors[1].severity, errors[1].times), (Major, 2));
/// ```
pub fn merged(mut errors: Vec<ErrorSpan>, source: &str, target: &str) -> Vec<ErrorSpan> {
    locate::choose_sides(&mut errors, source, target);
    let mut merged: Vec<ErrorSpan> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = if error.side == Side::Target { target } else { source };
        let n_places = locate::occurrences(text, &error.span).max(1);
        let n_kept = merged.iter().filter(|other| is_same(other, &error)).count();
        match merged.iter_mut().rfind(|other| is_same(other, &error)) {
            Some(last) if n_kept >= n_places => merge_into(last, error),
            _ => merged.push(error),
        }
    }
    merged
}

fn is_same(a: &ErrorSpan, b: &ErrorSpan) -> bool {
    let named = (a.side, &a.span, &a.category) == (b.side, &b.span, &b.category);
    let has_reason = a.explanation.is_some() && a.explanation == b.explanation;
    named && (!a.span.is_empty() || has_reason)
}

fn merge_into(last: &mut ErrorSpan, repeated: ErrorSpan) {
    last.times += repeated.times;
    last.confidence = match (last.confidence, repeated.confidence) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
    // The worst severity is the least of its order.
    let is_worse = repeated.severity < last.severity
        || repeated.severity == last.severity && repeated.weight > last.weight;
    let earlier = (last.explanation.take(), last.suggestion.take());
    if is_worse {
        (last.severity, last.weight) = (repeated.severity, repeated.weight);
        last.explanation = repeated.explanation.or(earlier.0);
        last.suggestion = repeated.suggestion.or(earlier.1);
    } else {
        last.explanation = earlier.0.or(repeated.explanation);
        last.suggestion = earlier.1.or(repeated.suggestion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqm::Severity;

    fn error(span: &str, category: &str, severity: Severity, explanation: &str) -> ErrorSpan {
        ErrorSpan::new(category, span, severity).explained(explanation)
    }

    #[test]
    fn the_worst_naming_counts_once() {
        let named = vec![
            error("Bank", "accuracy/mistranslation", Severity::Minor, "a"),
            error("Bank", "accuracy/mistranslation", Severity::Major, "b"),
            error("Bank", "accuracy/mistranslation", Severity::Minor, "c"),
        ];
        let merged = merged(named, "on the bench", "auf der Bank");
        assert_eq!(merged.len(), 1);
        assert_eq!((merged[0].severity, merged[0].times), (Severity::Major, 3));
        assert_eq!(merged[0].explanation.as_deref(), Some("b"));
    }

    #[test]
    fn a_suggestion_comes_with_the_explanation() {
        let named = |severity, explanation: &str, suggestion: Option<&str>| ErrorSpan {
            suggestion: suggestion.map(str::to_owned),
            ..error("Bank", "accuracy/mistranslation", severity, explanation)
        };
        let kept = |first: ErrorSpan, again: ErrorSpan| {
            let merged = merged(vec![first, again], "on the bench", "auf der Bank");
            assert_eq!(merged.len(), 1);
            merged[0].suggestion.clone().unwrap()
        };
        let (minor, major) = (Severity::Minor, Severity::Major);
        assert_eq!(kept(named(minor, "a", Some("A")), named(major, "b", Some("B"))), "B");
        assert_eq!(kept(named(major, "a", Some("A")), named(minor, "b", Some("B"))), "A");
        assert_eq!(
            kept(named(minor, "a", None), named(minor, "b", Some("B"))),
            "B",
            "on the later one alone"
        );
        assert_eq!(
            kept(named(minor, "a", Some("A")), named(major, "b", None)),
            "A",
            "on the first one alone"
        );
    }

    #[test]
    fn other_spans_types_and_sides_are_other_errors() {
        let source = ErrorSpan { side: Side::Source, ..error("Bank", "other", Severity::Minor, "") };
        let named = vec![
            error("Bank", "other", Severity::Minor, ""),
            error("bank", "other", Severity::Minor, ""),
            error("Bank", "style/awkward", Severity::Minor, ""),
            source,
            error("", "accuracy/omission", Severity::Minor, "the first sentence"),
            error("", "accuracy/omission", Severity::Minor, "the last sentence"),
            error("", "accuracy/omission", Severity::Minor, "the last sentence"),
            error("", "accuracy/omission", Severity::Minor, ""),
            error("", "accuracy/omission", Severity::Minor, ""),
        ];
        let merged = merged(named, "the Bank", "Bank, bank");
        assert_eq!(merged.iter().map(|e| e.times).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 2, 1, 1]);
    }

    /// Severity, times and start of what stays of these namings in `der Hund, der Bank, der`.
    fn check(repeats: Repeats, named: Vec<ErrorSpan>, expected: &[(Severity, usize, Option<usize>)]) {
        let settled = repeats.settled(named, "the source", "der Hund, der Bank, der");
        let seen: Vec<_> = settled.iter().map(|e| (e.severity, e.times, e.start)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn as_many_namings_stay_as_there_are_occurrences_each_at_its_own() {
        use Severity::{Major, Minor};
        let der = |severity| error("der", "fluency/grammar", severity, "");
        check(Repeats::Merged, vec![der(Minor)], &[(Minor, 1, Some(0))]);
        check(Repeats::Merged, vec![der(Minor), der(Major)], &[(Minor, 1, Some(0)), (Major, 1, Some(10))]);
        let all = [(Minor, 1, Some(0)), (Minor, 1, Some(10)), (Major, 3, Some(20))];
        check(Repeats::Merged, vec![der(Minor), der(Minor), der(Minor), der(Major), der(Minor)], &all);
        // Another type has places of its own.
        let other = error("der", "style/awkward", Minor, "");
        let mixed = vec![other.clone(), der(Minor), der(Minor), der(Major)];
        check(
            Repeats::Merged,
            mixed,
            &[(Minor, 1, Some(0)), (Minor, 1, Some(10)), (Minor, 1, Some(20)), (Major, 1, Some(0))],
        );
        let nowhere = error("die", "style/awkward", Minor, "");
        check(Repeats::Merged, vec![nowhere.clone(), nowhere], &[(Minor, 2, None)]);
    }

    #[test]
    fn what_papers_and_programs_charge_stays() {
        use Severity::Minor;
        let bank = error("Bank", "fluency/grammar", Minor, "");
        check(Repeats::Charged, vec![bank.clone(), bank], &[(Minor, 1, Some(14)), (Minor, 1, Some(14))]);
    }

    #[test]
    fn a_span_of_the_other_text_has_its_occurrences_there() {
        let the = || error("the", "accuracy/mistranslation", Severity::Minor, "");
        let settled = Repeats::Merged.settled(vec![the(), the(), the()], "the dog, the bear", "Hund, Bär");
        let seen: Vec<_> = settled.iter().map(|e| (e.side, e.start, e.times)).collect();
        assert_eq!(seen, [(Side::Source, Some(0), 1), (Side::Source, Some(9), 2)]);
    }
}
