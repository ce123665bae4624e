//! A compiled layout: patterns, and spans with their texts, without unsatisfiable parts. [`super::lark`]
//! writes its grammar.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::regex::Pattern;
use super::span::SpanText;
use crate::llm::Layout;

/// A part of a layout.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// Text that one regular expression describes.
    Pattern(Pattern),
    /// A run of chunks of one of the texts.
    Span(Span),
    Sequence(Vec<Part>),
    OneOf(Vec<Part>),
    Repeat {
        part: Box<Part>,
        min: usize,
        max: Option<usize>,
    },
}

/// The text of a span, and the characters allowed in it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub texts: Vec<Arc<SpanText>>,
    /// A regular expression that matches spans without the excluded characters.
    pub allowed: String,
}

/// Compiles a layout.
///
/// # Errors
/// The fault of the layout, or that no answer can satisfy it.
pub(super) fn part(layout: &Layout, texts: &BTreeMap<String, String>) -> Result<Part, String> {
    let part = Reader { texts, known: BTreeMap::new() }.read(layout)?;
    let part =
        part.ok_or("no answer can satisfy the layout: a text that a span must be copied from is empty")?;
    match part.shortest() {
        Some(answer) if answer.is_empty() => Err("the layout allows an empty answer".into()),
        _ => Ok(part),
    }
}

struct Reader<'a> {
    texts: &'a BTreeMap<String, String>,
    /// Texts by name and by the characters excluded from their spans, so that each is cut into chunks once.
    known: BTreeMap<(String, String), Arc<SpanText>>,
}

impl Reader<'_> {
    /// `None`: nothing can satisfy this part (a span of an empty text).
    fn read(&mut self, layout: &Layout) -> Result<Option<Part>, String> {
        match layout {
            Layout::Literal(text) => Ok(Some(Part::Pattern(Pattern::literals(std::slice::from_ref(text))?))),
            Layout::Matching(source) => Ok(Some(Part::Pattern(Pattern::new(source)?))),
            Layout::Span { texts, without } => self.span(texts, without),
            Layout::Sequence(parts) => {
                let parts = parts.iter().map(|part| self.read(part)).collect::<Result<Option<_>, _>>()?;
                Ok(parts.map(Part::Sequence))
            }
            Layout::OneOf(parts) => self.one_of(parts),
            Layout::Repeat { part, min, max } => self.repeat(part, *min, *max),
        }
    }

    fn span(&mut self, names: &[String], without: &str) -> Result<Option<Part>, String> {
        let mut texts = Vec::new();
        for name in names {
            let Some(text) = self.texts.get(name) else {
                return Err(format!("a span of the layout names the text `{name}`, which is not given"));
            };
            let key = (name.clone(), without.to_owned());
            let text = self.known.entry(key).or_insert_with(|| Arc::new(SpanText::raw(text, without)));
            if !text.is_barren() {
                texts.push(Arc::clone(text));
            }
        }
        Ok((!texts.is_empty()).then(|| Part::Span(Span { texts, allowed: allowed(without) })))
    }

    /// Texts to choose from become one pattern.
    fn one_of(&mut self, parts: &[Layout]) -> Result<Option<Part>, String> {
        let literal =
            |part: &Layout| if let Layout::Literal(text) = part { Some(text.clone()) } else { None };
        if parts.is_empty() {
            return Err("a part of the layout has nothing to choose from".into());
        }
        if let Some(texts) = parts.iter().map(literal).collect::<Option<Vec<String>>>() {
            return Ok(Some(Part::Pattern(Pattern::literals(&texts)?)));
        }
        let mut read = Vec::new();
        for part in parts {
            read.extend(self.read(part)?);
        }
        Ok(if read.len() > 1 { Some(Part::OneOf(read)) } else { read.pop() })
    }

    fn repeat(&mut self, part: &Layout, min: usize, max: Option<usize>) -> Result<Option<Part>, String> {
        if max.is_some_and(|max| max < min) {
            return Err(format!(
                "a part of the layout is repeated at least {min} times, but at most fewer times"
            ));
        }
        let part = if max == Some(0) { None } else { self.read(part)? };
        let Some(part) = part else {
            return Ok((min == 0).then(|| Part::Sequence(Vec::new())));
        };
        if part.shortest().is_some_and(|answer| answer.is_empty()) {
            return Err("a part of the layout that is repeated may be empty".into());
        }
        Ok(Some(Part::Repeat { part: Box::new(part), min, max }))
    }
}

fn allowed(without: &str) -> String {
    if without.is_empty() {
        return "(?s:.+)".into();
    }
    let class = without.chars().fold(String::new(), |mut class, c| {
        write!(class, "\\x{{{:x}}}", c as u32).expect("writing to a string cannot fail");
        class
    });
    format!("[^{class}]+")
}

impl Part {
    /// The texts that its spans are copied from, each once.
    pub(super) fn texts(&self) -> Vec<Arc<SpanText>> {
        let parts: &[Self] = match self {
            Self::Pattern(_) => &[],
            Self::Span(span) => return span.texts.clone(),
            Self::Sequence(parts) | Self::OneOf(parts) => parts,
            Self::Repeat { part, .. } => std::slice::from_ref(part),
        };
        super::span::distinct(parts.iter().flat_map(Self::texts))
    }

    /// The shortest text; `None` where that of a pattern is unknown.
    pub(super) fn shortest(&self) -> Option<Vec<u8>> {
        match self {
            Self::Pattern(pattern) => pattern.shortest(),
            Self::Span(span) => super::span::shortest(&span.texts, 1, None),
            Self::Sequence(parts) => {
                Some(parts.iter().map(Self::shortest).collect::<Option<Vec<_>>>()?.concat())
            }
            Self::OneOf(parts) => parts.iter().filter_map(Self::shortest).min_by_key(Vec::len),
            Self::Repeat { part, min, .. } => Some(part.shortest()?.repeat(*min)),
        }
    }
}

#[cfg(test)]
mod tests;
