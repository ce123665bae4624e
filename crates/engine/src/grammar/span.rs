//! A text that spans are copied from, cut into chunks at grapheme boundaries and spelled as in JSON or
//! without escapes. It builds no grammar.

use memchr::memmem;
use unicode_segmentation::UnicodeSegmentation;

use super::regex::PrefixMatch;

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
    /// The first of the shortest chunks.
    shortest: Option<usize>,
}

impl std::fmt::Debug for SpanText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpanText").field("chunks", &self.chunks.len()).finish_non_exhaustive()
    }
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
            shortest: None,
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
        let usable = (0..all.chunks.len()).filter(|&i| all.usable[i]);
        all.shortest = usable.min_by_key(|&i| all.chunks[i].len());
        all
    }

    /// Returns true if no span can be copied from the text.
    pub(super) fn is_barren(&self) -> bool {
        self.shortest.is_none()
    }

    /// Reads an unquoted span as far as it matches the text: every length at which it could end, and, when
    /// all of `content` was read, the shortest rest.
    pub(super) fn read(&self, content: &[u8]) -> PrefixMatch {
        let mut reading = PrefixMatch { complete: Vec::new(), end: None };
        if content.is_empty() {
            reading.end = self.shortest.map(|chunk| self.chunks[chunk].clone().into_bytes());
            return reading;
        }
        for first in (0..self.chunks.len()).filter(|&chunk| self.escaped[self.starts[chunk]] == content[0]) {
            self.read_at(first, content, &mut reading);
        }
        reading
    }

    fn read_at(&self, first: usize, content: &[u8], reading: &mut PrefixMatch) {
        let mut rest = content;
        for chunk in (first..self.chunks.len()).take_while(|&chunk| self.usable[chunk]) {
            let bytes = self.chunks[chunk].as_bytes();
            let Some(after) = rest.strip_prefix(bytes) else {
                let missing = bytes.strip_prefix(rest);
                let shorter = |end: &&[u8]| reading.end.as_ref().is_none_or(|known| end.len() < known.len());
                if let Some(end) = missing.filter(shorter) {
                    reading.end = Some(end.to_vec());
                }
                return;
            };
            rest = after;
            let length = content.len() - rest.len();
            if !reading.complete.contains(&length) {
                reading.complete.push(length);
            }
            if rest.is_empty() {
                reading.end = Some(Vec::new());
                return;
            }
        }
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

    /// Returns true if this escaped content is a run of whole chunks with a permitted number of code points.
    pub(super) fn holds(&self, content: &[u8], min: usize, max: Option<usize>) -> bool {
        if content.is_empty() {
            return min == 0;
        }
        self.places(content).any(|first| {
            let last = self.starts.binary_search(&(self.starts[first] + content.len()));
            last.is_ok_and(|last| {
                let n = self.n_chars[last] - self.n_chars[first];
                n >= min && max.is_none_or(|max| n <= max)
            })
        })
    }

    /// The shortest bytes that complete this beginning of a content, without the closing quote.
    pub(super) fn shortest_end(&self, content: &[u8], min: usize, max: Option<usize>) -> Option<&[u8]> {
        if content.is_empty() && min == 0 {
            return Some(&[]);
        }
        if content.is_empty() && min <= 1 && max.is_none() {
            let chunk = self.shortest?;
            return Some(&self.escaped[self.starts[chunk]..self.starts[chunk + 1]]);
        }
        let mut best: Option<&[u8]> = None;
        for first in self.places(content) {
            let Some(end) = self.end_at(first, content.len(), min, max) else { continue };
            if end.is_empty() {
                return Some(end);
            }
            if best.is_none_or(|best| end.len() < best.len()) {
                best = Some(end);
            }
        }
        best
    }

    /// The completion of a content of this length that begins at a chunk.
    fn end_at(&self, first: usize, length: usize, min: usize, max: Option<usize>) -> Option<&[u8]> {
        let from = self.starts[first] + length;
        let mut last = self.starts.partition_point(|&start| start < from).max(first + 1);
        let n_chars = |last: usize| self.n_chars[last] - self.n_chars[first];
        while n_chars(last) < min && last < self.chunks.len() {
            last += 1;
        }
        let fits = n_chars(last) >= min && max.is_none_or(|max| n_chars(last) <= max);
        fits.then(|| &self.escaped[from..self.starts[last]])
    }

    /// The text after the first occurrence of this prefix, up to the longest span; `None` when it
    /// is empty or does not occur.
    pub(super) fn following(&self, content: &[u8]) -> Option<&[u8]> {
        let first = if content.is_empty() { None } else { self.places(content).next() }?;
        let n_usable = self.usable[first..].iter().take_while(|&&usable| usable).count();
        self.escaped.get(self.starts[first] + content.len()..self.starts[first + n_usable])
    }

    /// A bound on the length of every shortest end, quotes included.
    pub(super) fn most(&self, min: usize) -> usize {
        let longest = self.chunks.iter().map(String::len).max().unwrap_or(0);
        longest * min.max(1) + 2
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
    fn ends_are_shortest_and_whole() {
        let text = SpanText::json("wäre die \"wä\"");
        let end = |content: &str, min| text.shortest_end(content.as_bytes(), min, None).map(<[u8]>::to_vec);
        assert_eq!(end("", 1), Some(b"w".to_vec()));
        assert_eq!(end("", 0), Some(Vec::new()));
        assert_eq!(end("wä", 1), Some(Vec::new()));
        assert_eq!(end("wä", 3), Some(b"r".to_vec()));
        assert_eq!(end("die \\", 1), Some(b"\"".to_vec()));
        assert_eq!(end("nie", 1), None);
        assert_eq!(text.shortest_end(b"w\xc3", 1, None), Some(&b"\xa4"[..]));
        assert!(text.holds("die \\\"w".as_bytes(), 1, None));
        assert!(!text.holds(b"die \\", 1, None) && !text.holds(b"", 1, None) && text.holds(b"", 0, None));
        assert!(!text.holds("wäre".as_bytes(), 1, Some(3)));
        assert_eq!(text.following("wär".as_bytes()), Some("e die \\\"wä\\\"".as_bytes()));
        assert!(text.following(b"").is_none() && text.following(b"x").is_none());
    }
    #[test]
    fn raw_spans_stop_at_what_they_may_not_hold() {
        let text = SpanText::raw("der \"alte\r\nHut, der Mann e\u{301}", "\"\n");
        let read = |content: &str| text.read(content.as_bytes());
        let ends = |complete: &[usize], end: Option<&str>| PrefixMatch {
            complete: complete.to_vec(),
            end: end.map(|end| end.as_bytes().to_vec()),
        };
        assert_eq!(read(""), ends(&[], Some("d")));
        assert_eq!(read("der"), ends(&[1, 2, 3], Some("")));
        assert_eq!(read("der \" x"), ends(&[1, 2, 3, 4], None), "the quote is not the span's");
        assert_eq!(read("alte\r\nHut"), ends(&[1, 2, 3, 4], None), "nor is the line end");
        assert_eq!(read("der Ma\""), ends(&[1, 2, 3, 4, 5, 6], None), "where it goes on longest");
        assert_eq!(text.read(b"n e\xcc").end.as_deref(), Some(&b"\x81"[..]));
        assert_eq!(read("x"), ends(&[], None));
        assert_eq!(text.following(b"al"), Some(&b"te"[..]));
        assert!(SpanText::raw("\"\n", "\"\n").is_barren() && SpanText::raw("", "").is_barren());
    }
}
