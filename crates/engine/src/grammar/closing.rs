//! The shortest completion of an unfinished answer that conforms. It works on bytes; the grammar converts
//! them to tokens.

use super::layout::{self, Part};
use super::outcomes::{Outcomes, scalar};
use super::regex::Pattern;
use super::schema::{Brackets, Property, Shape};

/// The parts of a form, for computing how it can be closed.
pub(super) struct Closer {
    form: Made,
    most: usize,
}

enum Made {
    Json(Shape),
    Whole(Pattern),
    Layout(Part),
    /// Compiled elsewhere: its shortest end is not known.
    Elsewhere,
}

impl Closer {
    pub(super) fn json(shape: Shape) -> Self {
        Self { most: most(&shape), form: Made::Json(shape) }
    }

    pub(super) fn whole(pattern: Pattern) -> Self {
        Self { most: pattern.most(), form: Made::Whole(pattern) }
    }

    pub(super) fn layout(part: Part) -> Self {
        Self { most: layout::most(&part), form: Made::Layout(part) }
    }

    pub(super) fn unknown() -> Self {
        Self { most: usize::MAX, form: Made::Elsewhere }
    }

    /// A bound on the length of every shortest end; `usize::MAX` when none is known.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The shortest bytes that make `answer` complete: empty when it is already. `None` when no conforming
    /// answer begins with it, or when the shortest end is not known.
    pub(super) fn shortest_end(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let outcomes = match &self.form {
            Made::Json(shape) => read(shape, answer, 0),
            Made::Whole(pattern) => scalar(pattern, answer, 0),
            Made::Layout(part) => layout::read(part, answer, 0),
            Made::Elsewhere => return None,
        };
        outcomes.shortest(answer.len())
    }

    /// The unfinished span at the end of the answer, where there seems to be one.
    pub(super) fn copying<'a>(&self, answer: &'a [u8]) -> Option<&'a [u8]> {
        match &self.form {
            Made::Json(_) => open_string(answer),
            Made::Layout(part) => layout::read(part, answer, 0).copying.map(|at| &answer[at..]),
            Made::Whole(_) | Made::Elsewhere => None,
        }
    }
}

/// A bound on the length of every shortest end of a shape: all of its parts, each at its longest.
fn most(shape: &Shape) -> usize {
    match shape {
        Shape::Scalar(pattern) => pattern.most(),
        Shape::Span { texts, min, .. } => texts.iter().map(|text| text.most(*min)).max().unwrap_or(0),
        Shape::Array { item, min, brackets, .. } => {
            let lead = brackets.open.len().max(brackets.separator.len());
            let items = most(item).saturating_add(lead).saturating_mul((*min).max(1));
            items.saturating_add(brackets.close.len())
        }
        Shape::Object { properties, brackets } => {
            let lead = brackets.open.len().max(brackets.separator.len());
            let members = properties.iter().map(|p| most(&p.shape).saturating_add(lead + p.key.len()));
            members.fold(brackets.close.len(), usize::saturating_add)
        }
        Shape::AnyOf(shapes) => shapes.iter().map(most).max().unwrap_or(0),
    }
}

fn read(shape: &Shape, input: &[u8], at: usize) -> Outcomes {
    match shape {
        Shape::Scalar(pattern) => scalar(pattern, input, at),
        Shape::Span { .. } => span(shape, input, at),
        Shape::Array { item, min, max, brackets } => {
            array(&Items { item, min: *min, max: *max, brackets }, input, at)
        }
        Shape::Object { properties, brackets } => object(properties, brackets, input, at),
        Shape::AnyOf(shapes) => {
            let mut all = Outcomes::default();
            for shape in shapes {
                all.merge(read(shape, input, at));
            }
            all
        }
    }
}

fn literal(text: &str, input: &[u8], at: usize) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let (text, rest) = (text.as_bytes(), &input[at..]);
    if rest.starts_with(text) {
        outcomes.end(at + text.len());
    } else if text.starts_with(rest) {
        outcomes.open(text[rest.len()..].to_vec());
    }
    outcomes
}

fn span(shape: &Shape, input: &[u8], at: usize) -> Outcomes {
    let Shape::Span { texts, min, max } = shape else { unreachable!("called for spans") };
    let mut outcomes = Outcomes::default();
    let Some(content) = input[at..].strip_prefix(b"\"") else {
        if at == input.len() {
            let ends = texts.iter().filter_map(|text| text.shortest_end(&[], *min, *max));
            if let Some(end) = ends.min_by_key(|end| end.len()) {
                outcomes.open([b"\"", end, b"\""].concat());
            }
        }
        return outcomes;
    };
    if let Some(length) = closing_quote(content) {
        if texts.iter().any(|text| text.holds(&content[..length], *min, *max)) {
            outcomes.end(at + 1 + length + 1);
        }
        return outcomes;
    }
    let ends = texts.iter().filter_map(|text| text.shortest_end(content, *min, *max));
    if let Some(end) = ends.min_by_key(|end| end.len()) {
        outcomes.open([end, b"\""].concat());
    }
    outcomes
}

/// The content so far of the string that an unfinished JSON text ends in.
fn open_string(json: &[u8]) -> Option<&[u8]> {
    let mut rest = json;
    loop {
        let quote = rest.iter().position(|&byte| byte == b'"')?;
        let content = &rest[quote + 1..];
        let Some(length) = closing_quote(content) else { return Some(content) };
        rest = &content[length + 1..];
    }
}

/// The position at which the content of a JSON string ends.
fn closing_quote(content: &[u8]) -> Option<usize> {
    let mut escaped = false;
    content.iter().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

struct Items<'a> {
    item: &'a Shape,
    min: usize,
    max: Option<usize>,
    brackets: &'a Brackets,
}

fn array(items: &Items, input: &[u8], at: usize) -> Outcomes {
    let mut all = Outcomes::default();
    if items.min == 0 {
        all.merge(literal(&items.brackets.empty, input, at));
    }
    // Positions at which `n_items` items are complete.
    let mut heads = vec![at];
    let mut n_items = 0;
    while !heads.is_empty() && items.max.is_none_or(|max| n_items < max) {
        let lead = if n_items == 0 { &items.brackets.open } else { &items.brackets.separator };
        let mut next = Outcomes::default();
        for &head in &heads {
            let started = literal(lead, input, head);
            next.merge(started.then(input, |input, at| read(items.item, input, at)));
        }
        n_items += 1;
        if let Some(mut end) = next.open
            && let Some(rest) = remaining_items(items, n_items)
        {
            end.extend(rest);
            all.open(end);
        }
        heads = next.ends;
        if n_items >= items.min {
            for &head in &heads {
                all.merge(literal(&items.brackets.close, input, head));
            }
        }
        heads.retain(|&head| head < input.len() || n_items < items.min);
    }
    all
}

/// The shortest bytes after `n_items` complete items.
fn remaining_items(items: &Items, n_items: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for n in n_items..items.min {
        let lead = if n == 0 { &items.brackets.open } else { &items.brackets.separator };
        bytes.extend(lead.as_bytes());
        bytes.extend(shortest(items.item)?);
    }
    bytes.extend(items.brackets.close.as_bytes());
    Some(bytes)
}

/// The shortest text of a shape.
fn shortest(shape: &Shape) -> Option<Vec<u8>> {
    read(shape, &[], 0).shortest(0)
}

fn object(properties: &[Property], brackets: &Brackets, input: &[u8], at: usize) -> Outcomes {
    members(&Members { properties, brackets, started: false }, input, at)
}

/// The properties that are still to come.
struct Members<'a> {
    properties: &'a [Property],
    brackets: &'a Brackets,
    /// True if a property came before them.
    started: bool,
}

fn members(members: &Members, input: &[u8], at: usize) -> Outcomes {
    let Members { properties, brackets, started } = *members;
    let Some((property, properties)) = properties.split_first() else {
        return literal(if started { &brackets.close } else { &brackets.empty }, input, at);
    };
    let lead = if started { &brackets.separator } else { &brackets.open };
    let rest = |started| Members { properties, brackets, started };
    let mut all = literal(&format!("{lead}{}", property.key), input, at)
        .then(input, |input, at| read(&property.shape, input, at))
        .then(input, |input, at| self::members(&rest(true), input, at));
    if !property.required {
        all.merge(self::members(&rest(started), input, at));
    }
    all
}
