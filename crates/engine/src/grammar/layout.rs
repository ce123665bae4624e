//! A compiled layout: patterns as automata, spans with their texts, without unsatisfiable parts; and its
//! matching against an answer. [`super::lark`] writes its grammar.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::outcomes::{Outcomes, scalar};
use super::regex::{Pattern, PrefixMatch};
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
    match shortest(&part) {
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
        if shortest(&part).is_some_and(|answer| answer.is_empty()) {
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
        let mut all: Vec<Arc<SpanText>> = Vec::new();
        for text in parts.iter().flat_map(Self::texts) {
            if !all.iter().any(|known| Arc::ptr_eq(known, &text)) {
                all.push(text);
            }
        }
        all
    }
}

/// A bound on the length of every shortest end of a part.
pub(super) fn most(part: &Part) -> usize {
    match part {
        Part::Pattern(pattern) => pattern.most(),
        Part::Span(span) => span.texts.iter().map(|text| text.most(1)).max().unwrap_or(0),
        Part::Sequence(parts) => parts.iter().map(most).fold(0, usize::saturating_add),
        Part::OneOf(parts) => parts.iter().map(most).max().unwrap_or(0),
        Part::Repeat { part, min, .. } => most(part).saturating_mul((*min).max(1)),
    }
}

/// The possible results of reading a part from some position.
pub(super) fn read(part: &Part, input: &[u8], at: usize) -> Outcomes {
    match part {
        Part::Pattern(pattern) => scalar(pattern, input, at),
        Part::Span(span) => read_span(span, input, at),
        Part::Sequence(parts) => sequence(parts, input, at),
        Part::OneOf(parts) => {
            let mut all = Outcomes::default();
            for part in parts {
                all.merge(read(part, input, at));
            }
            all
        }
        Part::Repeat { part, min, max } => repeat(part, *min, *max, input, at),
    }
}

fn read_span(span: &Span, input: &[u8], at: usize) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for text in &span.texts {
        let PrefixMatch { complete, end } = text.read(&input[at..]);
        for n in complete {
            outcomes.end(at + n);
        }
        if end.is_some() && at < input.len() {
            outcomes.copying = Some(at);
        }
        if let Some(end) = end.filter(|end| !end.is_empty()) {
            outcomes.open(end);
        }
    }
    outcomes
}

fn sequence(parts: &[Part], input: &[u8], at: usize) -> Outcomes {
    let mut all = Outcomes::default();
    let mut heads = vec![at];
    for (idx, part) in parts.iter().enumerate() {
        heads = advance(&mut all, part, input, &heads, || {
            parts[idx + 1..].iter().map(shortest).collect::<Option<Vec<_>>>().map(|rest| rest.concat())
        });
    }
    for head in heads {
        all.end(head);
    }
    all
}

fn repeat(part: &Part, min: usize, max: Option<usize>, input: &[u8], at: usize) -> Outcomes {
    let mut all = Outcomes::default();
    let mut heads = vec![at];
    let mut n = 0;
    loop {
        if n >= min {
            for &head in &heads {
                all.end(head);
            }
            // Already complete: another repetition would only lengthen the end.
            heads.retain(|&head| head < input.len());
        }
        if heads.is_empty() || max.is_some_and(|max| n >= max) {
            return all;
        }
        n += 1;
        heads =
            advance(&mut all, part, input, &heads, || Some(shortest(part)?.repeat(min.saturating_sub(n))));
    }
}

/// Reads a part from each of these positions and returns those where it may end. Where the input ends inside
/// the part, the part's completion, followed by `rest`, is an open end of the whole.
fn advance(
    all: &mut Outcomes,
    part: &Part,
    input: &[u8],
    heads: &[usize],
    rest: impl FnOnce() -> Option<Vec<u8>>,
) -> Vec<usize> {
    let mut next = Outcomes::default();
    for &head in heads {
        next.merge(read(part, input, head));
    }
    all.copying = all.copying.or(next.copying);
    if let Some(mut end) = next.open
        && let Some(rest) = rest()
    {
        end.extend(rest);
        all.open(end);
    }
    next.ends
}

/// The shortest text of a part.
pub(super) fn shortest(part: &Part) -> Option<Vec<u8>> {
    read(part, &[], 0).shortest(0)
}

#[cfg(test)]
mod tests;
