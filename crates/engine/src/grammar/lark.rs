//! Writes the grammar of a shape or a layout in llguidance's Lark dialect: every answer in one spelling,
//! properties in schema order. It does not read JSON Schema; [`super::schema`] does.

use std::fmt::Write;
use std::sync::Arc;

use super::layout::Part;
use super::regex::{Pattern, lark_regex, lark_string};
use super::schema::{Brackets, Property, Shape};
use super::span::SpanText;

/// One code point of a span in JSON spelling.
const SPAN_CHARACTER: &str = r"([^\\]|\\[^u]|\\u[0-9a-f]{4})";

/// The grammar of a JSON answer.
pub(super) fn json(shape: &Shape) -> String {
    let mut writer = Writer::default();
    let start = writer.expression(shape);
    format!("start: {start}\n{}", writer.definitions)
}

/// The grammar of an answer that one pattern describes as a whole.
pub(super) fn whole(pattern: &Pattern) -> String {
    format!("start: WHOLE\nWHOLE: {}\n", pattern.lark())
}

/// The grammar of an answer in a layout: a single terminal, since a lexer takes the longest text that a
/// terminal matches, which is not always the layout's reading.
pub(super) fn layout(part: &Part) -> String {
    let mut writer = Writer::default();
    let full = writer.part(part);
    format!("start: WHOLE\nWHOLE: {full}\n{}", writer.definitions)
}

#[derive(Default)]
struct Writer {
    definitions: String,
    n_rules: usize,
    /// Texts that have a terminal already, by their address.
    texts: Vec<(Arc<SpanText>, String)>,
}

impl Writer {
    /// The name of a rule or terminal for this shape.
    fn expression(&mut self, shape: &Shape) -> String {
        match shape {
            Shape::Scalar(pattern) => self.terminal(pattern.lark()),
            Shape::Span { texts, min, max } => self.span(texts, *min, *max),
            Shape::Array { item, min, max, brackets } => self.array(item, *min, *max, brackets),
            Shape::Object { properties, brackets } => self.object(properties, brackets),
            Shape::AnyOf(shapes) => {
                let branches: Vec<String> = shapes.iter().map(|shape| self.expression(shape)).collect();
                self.rule(&branches.join(" | "))
            }
        }
    }

    /// A part of a layout as part of a terminal.
    fn part(&mut self, part: &Part) -> String {
        match part {
            Part::Pattern(pattern) => pattern.lark().to_owned(),
            Part::Span(span) => {
                let sources: Vec<String> = span.texts.iter().map(|text| self.text(text)).collect();
                let any = self.terminal(&sources.join(" | "));
                self.terminal(&format!("{any} & {}", lark_regex(&span.allowed)))
            }
            Part::Sequence(parts) if parts.is_empty() => "\"\"".into(),
            Part::Sequence(parts) => self.parts(parts, " "),
            Part::OneOf(parts) => self.parts(parts, " | "),
            Part::Repeat { part, min, max } => {
                let max = max.map(|max| max.to_string()).unwrap_or_default();
                format!("({}){{{min},{max}}}", self.part(part))
            }
        }
    }

    fn parts(&mut self, parts: &[Part], between: &str) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.part(part)).collect();
        format!("({})", parts.join(between))
    }

    fn span(&mut self, texts: &[Arc<SpanText>], min: usize, max: Option<usize>) -> String {
        let sources: Vec<String> = texts.iter().map(|text| self.text(text)).collect();
        let length = match (min, max) {
            (0, None) => "(?s:.*)".to_owned(),
            (1, None) => "(?s:.+)".to_owned(),
            (min, None) => format!("(?s:{SPAN_CHARACTER}{{{min},}})"),
            (min, Some(max)) => format!("(?s:{SPAN_CHARACTER}{{{min},{max}}})"),
        };
        let any = self.terminal(&sources.join(" | "));
        self.terminal(&format!("\"\\\"\" ({any} & /{length}/) \"\\\"\""))
    }

    fn text(&mut self, text: &Arc<SpanText>) -> String {
        if let Some((_, name)) = self.texts.iter().find(|(known, _)| Arc::ptr_eq(known, text)) {
            return name.clone();
        }
        let chunks = serde_json::Value::from(text.chunks());
        let name = self.terminal(&format!("%regex {{\"substring_chunks\": {chunks}}}"));
        self.texts.push((Arc::clone(text), name.clone()));
        name
    }

    fn array(&mut self, item: &Shape, min: usize, max: Option<usize>, brackets: &Brackets) -> String {
        let item = self.expression(item);
        let next = self.rule(&format!("{} {item}", lark_string(&brackets.separator)));
        let more = match (min.max(1) - 1, max) {
            // Lark has no range that ends at 0.
            (_, Some(0 | 1)) => String::new(),
            (least, None) => format!("{next}{{{least},}}"),
            (least, Some(most)) => format!("{next}{{{least},{}}}", most - 1),
        };
        let full = format!("{} {item} {more} {}", lark_string(&brackets.open), lark_string(&brackets.close));
        let empty = lark_string(&brackets.empty);
        match (min, max) {
            (0, Some(0)) => self.rule(&empty),
            (0, _) => self.rule(&format!("{empty} | {full}")),
            _ => self.rule(&full),
        }
    }

    fn object(&mut self, properties: &[Property], brackets: &Brackets) -> String {
        let values: Vec<String> =
            properties.iter().map(|property| self.expression(&property.shape)).collect();
        // `rest` is the expression of the text that may follow when the properties from here on are still to
        // come: after a first property, and before any.
        let close = lark_string(&brackets.close);
        let mut closing = (close, lark_string(&brackets.empty));
        for (property, value) in properties.iter().zip(&values).rev() {
            let next = self.member(&brackets.separator, property, value, &closing.0, &closing.0);
            let first = self.member(&brackets.open, property, value, &closing.0, &closing.1);
            closing = (next, first);
        }
        closing.1
    }

    /// `lead "key": value` and the text after it, or, when the property may be absent, the text after it
    /// alone.
    fn member(&mut self, lead: &str, property: &Property, value: &str, after: &str, without: &str) -> String {
        let with = format!("{} {value} {after}", lark_string(&format!("{lead}{}", property.key)));
        if property.required { self.rule(&with) } else { self.rule(&format!("{with} | {without}")) }
    }

    fn rule(&mut self, body: &str) -> String {
        self.define("r", body)
    }

    fn terminal(&mut self, body: &str) -> String {
        self.define("T", body)
    }

    fn define(&mut self, prefix: &str, body: &str) -> String {
        let name = format!("{prefix}{}", self.n_rules);
        self.n_rules += 1;
        writeln!(self.definitions, "{name}: {body}").expect("writing to a string cannot fail");
        name
    }
}
