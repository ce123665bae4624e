//! Chat templates in the dialect that Hugging Face renders: Jinja with Python's methods, `raise_exception`,
//! `tojson` as `json.dumps` prints, and `strftime_now` of a fixed date. It encodes nothing.

use std::fmt::Write;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value, context};

use super::ChatTemplate;
use crate::jinja::{self, Template};
use crate::llm::{self, Chat, Speaker};

/// The date that every template is given as today's: results must not depend on the day they are made. Its
/// printed form, `26 Jul 2024`, is the date that Llama 3's own template falls back to.
pub const TEMPLATE_DATE: &str = "2024-07-26";

/// How deep a value may be nested, and how wide its indent be, where it is printed as JSON; and its most bytes.
const MAX_DEPTH: usize = 100;
const MAX_JSON_BYTES: usize = 64 << 20;

/// A template and what it is rendered in.
pub(super) fn compiled(source: &str) -> Result<(Environment<'static>, Template), llm::Error> {
    let refused = |e: Error| llm::Error::Template(format!("it does not parse: {e:#}"));
    let mut environment = jinja::environment();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(refused)?;
    environment.set_syntax(syntax);
    environment.set_unknown_method_callback(jinja::python_method);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| strftime(&format));
    environment.add_filter("tojson", |value: Value, options: Kwargs| -> Result<String, Error> {
        let indent = options.get::<Option<usize>>("indent")?;
        let escape = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
        options.assert_all_used()?;
        let mut text = String::new();
        write_json(&value, indent, 0, &mut text)?;
        Ok(if escape { escape_non_ascii(&text) } else { text })
    });
    let template = Template::parse("chat", without_generation_tags(source), &environment).map_err(refused)?;
    Ok((environment, template))
}

/// Renders the chat with the given contents in place of its own.
pub(super) fn render(template: &ChatTemplate, chat: &Chat, contents: &[&str]) -> Result<String, llm::Error> {
    let message = |role: Speaker, content: &str| -> Value {
        let role = match role {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        Value::from_pairs([("role", role), ("content", content)])
    };
    let messages: Vec<Value> =
        chat.turns().iter().zip(contents).map(|(turn, content)| message(turn.role, content)).collect();
    let context = context! {
        messages => messages,
        add_generation_prompt => true,
        bos_token => &template.bos_token,
        eos_token => &template.eos_token,
        ..Value::from(minijinja::value::Serde(&template.options))
    };
    let rendered = template.template.render(&template.environment, context);
    rendered.map_err(|e| llm::Error::Template(reason(&e)))
}

/// The message of `raise_exception` alone, or everything that the template engine reports.
fn reason(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        _ => format!("{error:#}"),
    }
}

/// `{% generation %}` marks training targets for Hugging Face's trainer; for rendering it is an empty block.
fn without_generation_tags(source: &str) -> String {
    let mut text = source.to_owned();
    for dash in ["", "-"] {
        for end in ["", "-"] {
            for (tag, plain) in [("generation", "if true"), ("endgeneration", "endif")] {
                text = text
                    .replace(&format!("{{%{dash} {tag} {end}%}}"), &format!("{{%{dash} {plain} {end}%}}"));
            }
        }
    }
    text
}

/// [`TEMPLATE_DATE`] at midnight in the C locale. An unknown directive is an error, not a guess.
fn strftime(format: &str) -> Result<String, Error> {
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        text.push_str(match chars.next() {
            Some('d') => "26",
            Some('m') => "07",
            Some('Y') => "2024",
            Some('y') => "24",
            Some('b') => "Jul",
            Some('B') => "July",
            Some('a') => "Fri",
            Some('A') => "Friday",
            Some('j') => "208",
            Some('F') => TEMPLATE_DATE,
            Some('H' | 'M' | 'S') => "00",
            Some('%') => "%",
            other => {
                let message = format!("strftime_now: the directive `%{}` is not known", other.unwrap_or(' '));
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        });
    }
    Ok(text)
}

/// Prints as Python's `json.dumps(value, ensure_ascii=False, indent=indent)`.
fn write_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH || out.len() > MAX_JSON_BYTES || indent.is_some_and(|width| width > MAX_DEPTH) {
        let message = "tojson: the value is too deep or too large, or its indent too wide";
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool | ValueKind::Number => out.push_str(&value.to_string().to_lowercase()),
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            let line = Line { open: '{', close: '}', indent, depth };
            line.write(&keys, out, |key, out| {
                push_string(&key.to_string(), out);
                out.push_str(": ");
                write_json(&value.get_item(key)?, indent, depth + 1, out)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let line = Line { open: '[', close: ']', indent, depth };
            line.write(&items, out, |item, out| write_json(item, indent, depth + 1, out))?;
        }
        _ => push_string(&value.to_string(), out),
    }
    Ok(())
}

/// The brackets and separators of one JSON list or object.
struct Line {
    open: char,
    close: char,
    indent: Option<usize>,
    depth: usize,
}

impl Line {
    fn write(
        &self,
        items: &[Value],
        out: &mut String,
        each: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(self.open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(if self.indent.is_some() { "," } else { ", " });
            }
            self.new_line(self.depth + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            self.new_line(self.depth, out);
        }
        out.push(self.close);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(width) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    }
}

fn push_string(text: &str, out: &mut String) {
    // serde_json escapes what Python's json escapes with ensure_ascii=False, and nothing else.
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        }
    }
    out
}
