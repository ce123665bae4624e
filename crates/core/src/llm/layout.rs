//! Layouts: the format of an answer in lines of plain text, with spans copied from given texts. The engine
//! compiles them, and judges parse the answers.

/// A pattern of text. An answer of a [`super::ResponseFormat::Layout`] matches the whole of it.
///
/// ```
/// use std::collections::BTreeMap;
/// use tribunal_core::llm::{ResponseFormat, Layout};
///
/// // accuracy - "die alte"
/// let error = Layout::sequence([
///     "\n".into(),
///     Layout::one_of(["accuracy", "fluency"]),
///     " - ".into(),
///     Layout::quoted(["translation"]),
/// ]);
/// // Major: and then no-error, or one to five errors
/// let block = |name: &str| {
///     let errors = Layout::one_of(["\nno-error".into(), error.clone().repeat(1, Some(5))]);
///     Layout::sequence([name.into(), errors])
/// };
/// let layout = Layout::sequence([block("Major:"), block("\nMinor:")]);
/// let texts = BTreeMap::from([("translation".to_owned(), "die alte Brücke".to_owned())]);
/// let form = ResponseFormat::Layout { layout, texts };
/// // Its shortest answer: "Major:\nno-error\nMinor:\nno-error"
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// This text.
    Literal(String),
    /// A text that this regular expression matches as a whole.
    Matching(String),
    /// A verbatim, non-empty substring of one of the texts of these names, with nothing escaped, that
    /// contains none of the characters of `without`. It begins and ends between graphemes.
    Span { texts: Vec<String>, without: String },
    /// These parts, one after another.
    Sequence(Vec<Layout>),
    /// One of these parts. Those that no answer can satisfy are left out.
    OneOf(Vec<Layout>),
    /// The part at least `min` times and, unless `None`, at most `max` times. It must not be empty.
    Repeat { part: Box<Layout>, min: usize, max: Option<usize> },
}

impl Layout {
    /// These parts, one after another.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::Sequence(parts.into_iter().collect())
    }

    /// One of these parts, or one of these texts.
    pub fn one_of<T: Into<Self>>(parts: impl IntoIterator<Item = T>) -> Self {
        Self::OneOf(parts.into_iter().map(Into::into).collect())
    }

    /// A verbatim span of one of the texts of these names in straight double quotes, on one line. Since
    /// nothing is escaped, the span itself contains no double quote.
    pub fn quoted<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let texts = texts.into_iter().map(Into::into).collect();
        Self::Sequence(vec!["\"".into(), Self::Span { texts, without: "\"\r\n".into() }, "\"".into()])
    }

    /// This part at least `min` times and, unless `None`, at most `max` times.
    #[must_use]
    pub fn repeat(self, min: usize, max: Option<usize>) -> Self {
        Self::Repeat { part: Box::new(self), min, max }
    }
}

impl From<&str> for Layout {
    fn from(text: &str) -> Self {
        Self::Literal(text.to_owned())
    }
}

impl From<String> for Layout {
    fn from(text: String) -> Self {
        Self::Literal(text)
    }
}
