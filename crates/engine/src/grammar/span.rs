//! A text that spans are copied from, cut into chunks at grapheme boundaries and spelled as in JSON or
//! without escapes. It builds no grammar.

use std::sync::Arc;

use memchr::memmem;
use unicode_segmentation::UnicodeSegmentation;

/// A text in the spelling of the answer, with the positions where a span may begin and end.
pub(super) struct SpanText {
    /// Each grapheme, escaped where the answer escapes.
    chunks: Vec<String>,
    /// True for each chunk that a span may contain.
    usable: Vec<bool>,
    /// All chunks joined.
    escaped: Vec<u8>,
    /// The start of each chunk in `escaped`, and the end of the last.
    starts: Vec<usize>,
    /// Code points before each chunk, and in all.
    n_chars: Vec<usize>,
}

impl std::fmt::Debug for SpanText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpanText").field("chunks", &self.chunks.len()).finish_non_exhaustive()
    }
}

/// Each text once, in the order of first occurrence.
pub(super) fn distinct(texts: impl Iterator<Item = Arc<SpanText>>) -> Vec<Arc<SpanText>> {
    let mut all: Vec<Arc<SpanText>> = Vec::new();
    for text in texts {
        if !all.iter().any(|known| Arc::ptr_eq(known, &text)) {
            all.push(text);
        }
    }
    all
}

impl SpanText {
    /// A text as the content of a JSON string.
    pub(super) fn json(text: &str) -> Self {
        Self::new(text, |grapheme| {
            let quoted = serde_json::Value::from(grapheme).to_string();
            (quoted[1..quoted.len() - 1].to_owned(), true)
        })
    }

    /// A text without escapes, whose spans contain none of the characters of `without`.
    pub(super) fn raw(text: &str, without: &str) -> Self {
        Self::new(text, |grapheme| (grapheme.to_owned(), !grapheme.contains(|c| without.contains(c))))
    }

    fn new(text: &str, spelled: impl Fn(&str) -> (String, bool)) -> Self {
        let mut all = Self {
            chunks: Vec::new(),
            usable: Vec::new(),
            escaped: Vec::new(),
            starts: vec![0],
            n_chars: vec![0],
        };
        let mut n_chars = 0;
        for grapheme in text.graphemes(true) {
            let (chunk, usable) = spelled(grapheme);
            all.escaped.extend_from_slice(chunk.as_bytes());
            all.starts.push(all.escaped.len());
            n_chars += grapheme.chars().count();
            all.n_chars.push(n_chars);
            all.usable.push(usable);
            all.chunks.push(chunk);
        }
        all
    }

    /// Returns true if no span can be copied from the text.
    pub(super) fn is_barren(&self) -> bool {
        !self.usable.contains(&true)
    }

    /// Code points of the text.
    pub(super) fn len(&self) -> usize {
        *self.n_chars.last().expect("it begins with a zero")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn chunks(&self) -> &[String] {
        &self.chunks
    }

    /// The shortest span of between `min` and `max` code points.
    fn shortest(&self, min: usize, max: Option<usize>) -> Option<&[u8]> {
        let spans = (0..self.chunks.len()).filter_map(|first| {
            let last = first + self.n_chars[first..].partition_point(|&n| n - self.n_chars[first] < min);
            let is_usable = self.usable.get(first..last)?.iter().all(|&usable| usable);
            let fits = max.is_none_or(|max| self.n_chars[last] - self.n_chars[first] <= max);
            (is_usable && fits).then(|| &self.escaped[self.starts[first]..self.starts[last]])
        });
        spans.min_by_key(|span| span.len())
    }

    /// The text after the first occurrence of this prefix, up to the longest span; `None` when it
    /// is empty or does not occur.
    pub(super) fn following(&self, content: &[u8]) -> Option<&[u8]> {
        let first = if content.is_empty() { None } else { self.places(content).next() }?;
        let n_usable = self.usable[first..].iter().take_while(|&&usable| usable).count();
        self.escaped.get(self.starts[first] + content.len()..self.starts[first + n_usable])
    }

    /// The chunks at which these bytes occur in the text, overlapping occurrences included.
    fn places<'a>(&'a self, content: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let finder = memmem::Finder::new(content);
        let mut from = 0;
        let found = std::iter::from_fn(move || {
            let at = from + finder.find(self.escaped.get(from..)?)?;
            from = at + 1;
            Some(at)
        });
        found.filter_map(|at| self.starts[..self.chunks.len()].binary_search(&at).ok())
    }
}

/// The shortest span of any of the texts, of between `min` and `max` code points.
pub(super) fn shortest(texts: &[Arc<SpanText>], min: usize, max: Option<usize>) -> Option<Vec<u8>> {
    if min == 0 {
        return Some(Vec::new());
    }
    let spans = texts.iter().filter_map(|text| text.shortest(min, max));
    spans.min_by_key(|span| span.len()).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_graphemes_in_json_spelling() {
        let text = SpanText::json("e\u{301}\"\n👩‍👩‍👧\u{1}");
        assert_eq!(text.chunks(), ["e\u{301}", "\\\"", "\\n", "👩‍👩‍👧", "\\u0001"]);
        assert_eq!(text.len(), 2 + 1 + 1 + 5 + 1);
    }

    #[test]
    fn the_shortest_span_is_whole_and_within_its_bounds() {
        let json = Arc::new(SpanText::json("wäre die \"wä\""));
        let raw = Arc::new(SpanText::raw("\"älter\r\n", "\"\n"));
        let span = |text: &Arc<SpanText>, min, max| {
            shortest(std::slice::from_ref(text), min, max).map(|span| String::from_utf8(span).unwrap())
        };
        assert_eq!(span(&json, 0, None).as_deref(), Some(""));
        assert_eq!(span(&json, 1, None).as_deref(), Some("w"));
        assert_eq!(span(&json, 3, Some(3)).as_deref(), Some("re "));
        assert_eq!(span(&json, 14, None), None, "longer than the text");
        assert_eq!(span(&raw, 1, None).as_deref(), Some("l"), "the quote is excluded");
        assert_eq!(span(&raw, 6, None), None, "nor is the line end part of a span");
        assert!(SpanText::raw("\"\n", "\"\n").is_barren() && SpanText::raw("", "").is_barren());
    }

    #[test]
    fn the_text_after_a_copied_beginning() {
        let text = SpanText::json("wäre die \"wä\"");
        assert_eq!(text.following("wär".as_bytes()), Some("e die \\\"wä\\\"".as_bytes()));
        assert!(text.following(b"").is_none() && text.following(b"x").is_none());
        let raw = SpanText::raw("der \"alte\r\nHut", "\"\n");
        assert_eq!(raw.following(b"al"), Some(&b"te"[..]), "up to an excluded character");
    }
}
