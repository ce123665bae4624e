//! A model's confidence in the spans that it named: the probabilities of the tokens that spell them in the
//! answer. The meaning of the answer plays no part.
//!
//! A span's confidence is the geometric mean of its tokens' probabilities over the whole vocabulary, at
//! temperature 1, to four digits. Range: 0 to 1. It is missing where the reply has no tokens.

use std::ops::Range;

use crate::{llm::Reply, mqm::ErrorSpan};

/// The confidence in each string value of this key, in the order of a JSON answer.
pub fn value_confidences(reply: &Reply, key: &str) -> Vec<Option<f64>> {
    let spelled = Spelled::new(reply);
    values(&reply.text, key).into_iter().map(|value| spelled.mean(&value)).collect()
}

/// Writes its confidence into each error of an answer, in the order of the answer: JSON whose spans are the
/// values of this key, or else text that holds the spans.
pub fn note(reply: &Reply, key: &str, errors: &mut [ErrorSpan]) {
    let values = value_confidences(reply, key);
    if values.len() == errors.len() {
        for (error, confidence) in errors.iter_mut().zip(values) {
            error.confidence = confidence;
        }
        return;
    }
    let spelled = Spelled::new(reply);
    let mut from = 0;
    for error in errors.iter_mut().filter(|error| !error.span.is_empty()) {
        let Some(at) = reply.text[from..].find(&error.span).map(|at| from + at) else { continue };
        let span = at..at + error.span.len();
        from = span.end;
        error.confidence = spelled.mean(&span);
    }
}

/// The tokens of a reply with the byte range of its text that each wrote.
struct Spelled<'r> {
    reply: &'r Reply,
    bytes: Vec<Range<usize>>,
}

impl<'r> Spelled<'r> {
    /// Follows the tokens through the text. A character can be spelled by several tokens, none of which is
    /// valid text on its own: they share the bytes up to the next one that is.
    fn new(reply: &'r Reply) -> Self {
        let mut bytes: Vec<Range<usize>> = Vec::with_capacity(reply.tokens.len());
        let mut at = 0;
        let mut unplaced = 0;
        for token in &reply.tokens {
            let tail = reply.text.get(at..).unwrap_or_default();
            let is_text = !token.text.is_empty() && !token.text.contains('\u{fffd}');
            let found = if unplaced == 0 {
                tail.starts_with(&token.text).then_some(0)
            } else {
                tail.find(&token.text)
            };
            let Some(skipped) = found.filter(|_| is_text) else {
                bytes.push(at..at);
                unplaced += 1;
                continue;
            };
            share(&mut bytes, unplaced, at..at + skipped);
            unplaced = 0;
            let start = at + skipped;
            at = start + token.text.len();
            bytes.push(start..at);
        }
        share(&mut bytes, unplaced, at..reply.text.len().max(at));
        Self { reply, bytes }
    }

    /// The geometric mean of a span; `None` for an empty span, which no token spells.
    fn mean(&self, span: &Range<usize>) -> Option<f64> {
        if span.is_empty() {
            return None;
        }
        let spells = |bytes: &Range<usize>| bytes.start < span.end && span.start < bytes.end;
        let tokens = self.reply.tokens.iter().zip(&self.bytes).filter(|(_, bytes)| spells(bytes));
        let (sum, n) = tokens.fold((0.0, 0usize), |(sum, n), (token, _)| (sum + token.logprob, n + 1));
        let mean = (n > 0).then(|| (sum / n as f64).exp()).filter(|mean| mean.is_finite())?;
        Some((mean * 1e4).round() / 1e4)
    }
}

/// Gives the last `n` tokens these bytes together.
fn share(bytes: &mut [Range<usize>], n: usize, shared: Range<usize>) {
    let first = bytes.len() - n;
    bytes[first..].fill(shared);
}

/// Ranges of the string values of a key in a JSON text, without their quotes. The key inside a string is not
/// found, since its quotes would be escaped.
fn values(text: &str, key: &str) -> Vec<Range<usize>> {
    let key = format!("\"{key}\"");
    let mut found = Vec::new();
    for (at, _) in text.match_indices(&key) {
        let tail = text[at + key.len()..].trim_start();
        let Some(value) = tail.strip_prefix(':').and_then(|tail| tail.trim_start().strip_prefix('"')) else {
            continue;
        };
        let start = text.len() - value.len();
        let mut escaped = false;
        let end = value.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        found.push(start..end.map_or(text.len(), |end| start + end));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        llm::{Token, TokenSource},
        mqm::Severity,
    };

    /// A reply whose tokens have these probabilities.
    fn reply(tokens: &[(&str, f64)]) -> Reply {
        let token = |(text, p): &(&str, f64)| Token {
            id: 0,
            text: (*text).into(),
            logprob: p.ln(),
            masked_logprob: 0.0,
            source: TokenSource::Sampled,
        };
        let text = tokens.iter().map(|(text, _)| *text).collect();
        Reply { text, tokens: tokens.iter().map(token).collect(), ..Reply::default() }
    }

    #[test]
    fn values_of_a_json_answer() {
        let reply = reply(&[
            ("{\"a", 0.1),
            ("\": [{\"", 0.1),
            ("span\": \"", 0.1),
            ("Ba", 0.5),
            ("nk", 0.125),
            ("\"}, {\"span\": ", 0.1),
            ("\"a \\\"", 0.3),
            ("b\"", 0.3),
            ("}, {\"span\": \"\"}]}", 0.9),
            ("<|end|>", 0.9),
        ]);
        let text = &reply.text;
        assert_eq!(
            values(text, "span").into_iter().map(|v| &text[v]).collect::<Vec<_>>(),
            ["Bank", "a \\\"b", ""]
        );
        // sqrt(0.5 * 0.125) = 0.25; a token that spells more than the value counts with it.
        assert_eq!(value_confidences(&reply, "span"), [Some(0.25), Some(0.3), None]);
        assert_eq!(value_confidences(&reply, "other"), []);
        let bare = Reply { tokens: Vec::new(), ..reply };
        assert_eq!(value_confidences(&bare, "span"), [None, None, None]);
    }

    #[test]
    fn characters_of_several_tokens() {
        // 夺 is spelled by two tokens that are no text, and the stop token is no part of it.
        let mut reply = reply(&[
            ("{\"s\": \"", 0.1),
            ("\u{fffd}", 0.5),
            ("\u{fffd}", 0.5),
            ("笋", 0.5),
            ("\"}", 0.1),
            ("<end>", 0.1),
        ]);
        reply.text = "{\"s\": \"夺笋\"}".into();
        assert_eq!(value_confidences(&reply, "s"), [Some(0.5)]);
        reply.tokens[3].logprob = 0.0625f64.ln();
        assert_eq!(value_confidences(&reply, "s"), [Some(0.25)]);
    }

    #[test]
    fn spans_of_a_text_answer() {
        let reply = reply(&[
            ("Major:\n", 0.9),
            ("x - \"", 0.9),
            ("Bank", 0.4),
            ("\"\ny - \"", 0.9),
            ("Bank", 0.8),
            ("\"", 0.9),
        ]);
        let error = |span: &str| ErrorSpan::new("style/awkward", span, Severity::Major);
        let mut errors = [error("Bank"), error("nowhere"), error(""), error("Bank")];
        note(&reply, "span", &mut errors);
        assert_eq!(errors.map(|e| e.confidence), [Some(0.4), None, None, Some(0.8)]);
    }
}
