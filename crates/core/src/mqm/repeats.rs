//! Errors that were named more than once. It looks at names, not at places: where a span stands is [`super::locate`]'s.

use super::ErrorSpan;

/// One span and one type are one error, however often a judge named it and however many agents did: small models
/// repeat themselves, and agents find the same thing. The first naming keeps its place in the list and counts the
/// others ([`ErrorSpan::times`]); severity and weight are the worst that were named, with the explanation that came
/// with them, the confidence is the highest.
///
/// Without a span, only namings with the same explanation are the same error: an answer that merely counts errors
/// has neither.
///
/// ```
/// use tribunal_core::mqm::{ErrorSpan, Severity::*, repeats::merged};
///
/// let named = |category, severity| ErrorSpan::new(category, "Bank", severity);
/// let errors = merged(vec![
///     named("accuracy/mistranslation", Minor),
///     named("Accuracy/Mistranslation", Major),
///     named("fluency/grammar", Minor),
/// ]);
/// assert_eq!(errors.len(), 2);
/// assert_eq!((errors[0].severity, errors[0].times), (Major, 2));
/// ```
#[must_use]
pub fn merged(errors: Vec<ErrorSpan>) -> Vec<ErrorSpan> {
    let mut kept: Vec<ErrorSpan> = Vec::with_capacity(errors.len());
    for error in errors {
        match kept.iter_mut().find(|other| is_same(other, &error)) {
            Some(first) => absorb(first, error),
            None => kept.push(error),
        }
    }
    kept
}

fn is_same(a: &ErrorSpan, b: &ErrorSpan) -> bool {
    let named = (a.side, &a.span, &a.category) == (b.side, &b.span, &b.category);
    let has_reason = a.explanation.is_some() && a.explanation == b.explanation;
    named && (!a.span.is_empty() || has_reason)
}

fn absorb(first: &mut ErrorSpan, again: ErrorSpan) {
    first.times += again.times;
    first.confidence = match (first.confidence, again.confidence) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
    // The worst severity is the least of its order.
    let is_worse =
        again.severity < first.severity || again.severity == first.severity && again.weight > first.weight;
    if is_worse {
        first.severity = again.severity;
        first.weight = again.weight;
        first.explanation = again.explanation.or(first.explanation.take());
    } else if first.explanation.is_none() {
        first.explanation = again.explanation;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqm::{Severity, Side};

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
        let merged = merged(named);
        assert_eq!(merged.len(), 1);
        assert_eq!((merged[0].severity, merged[0].times), (Severity::Major, 3));
        assert_eq!(merged[0].explanation.as_deref(), Some("b"));
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
        let merged = merged(named);
        assert_eq!(merged.iter().map(|e| e.times).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 2, 1, 1]);
    }
}
