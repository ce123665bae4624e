//! Chat templates in the dialect that Hugging Face renders: Jinja with Python's methods, `raise_exception`,
//! `tojson` as `json.dumps` prints, and `strftime_now` of a fixed date. It encodes nothing.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::{ChatTemplate, json, reasoning};
use crate::jinja;
use crate::llm::{self, Chat, MessageRole};

/// The date given to every template as today's: results must not depend on the day they are made. Its printed
/// form, `26 Jul 2024`, is the default date of Llama 3's own template.
pub const TEMPLATE_DATE: &str = "2024-07-26";

/// The only template of its environment.
const NAME: &str = "chat";

/// The most that a template adds to the contents, of which it may print each twice. Unit: bytes.
const MAX_ADDED_BYTES: usize = 1 << 20;

/// The longest format of `strftime_now`. Unit: bytes.
const MAX_FORMAT_BYTES: usize = 1_000;

/// An environment with the template.
pub(super) fn compiled(source: &str) -> llm::Result<Environment<'static>> {
    let refused = |e: Error| llm::Error::Template(format!("it does not parse: {e:#}"));
    let mut environment = jinja::environment();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(refused)?;
    environment.set_syntax(syntax);
    environment.set_unknown_method_callback(jinja::method);
    environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.to_string()))
    });
    environment.add_function("strftime_now", |format: String| strftime(&format));
    environment.add_filter("tojson", json::tojson);
    jinja::add(&mut environment, NAME, without_generation_tags(source)).map_err(refused)?;
    Ok(environment)
}

/// Renders the chat with the given contents in place of its own.
pub(super) fn render(template: &ChatTemplate, chat: &Chat, contents: &[&str]) -> llm::Result<String> {
    let message = |role: MessageRole, content: &str| -> Value {
        let role = match role {
            MessageRole::System => "system",
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
        };
        Value::from_pairs([("role", role), ("content", content)])
    };
    let messages: Vec<Value> =
        chat.messages().iter().zip(contents).map(|(turn, content)| message(turn.role, content)).collect();
    // Chats have neither tools nor documents, which templates compare with none.
    let mut values: BTreeMap<&str, Value> = ["tools", "documents"].map(|name| (name, Value::from(()))).into();
    values.extend(template.roles.iter().map(|(role, name)| (role.as_str(), Value::from(name.as_str()))));
    values.extend(template.options.iter().map(|(name, value)| (name.as_str(), Value::from(Serde(value)))));
    values.extend(reasoning::chat_variables(&template.source, chat));
    values.insert("messages", messages.into());
    values.insert("add_generation_prompt", template.opens_answer.into());
    let max_bytes = MAX_ADDED_BYTES + 2 * contents.iter().map(|content| content.len()).sum::<usize>();
    let rendered = jinja::render(&template.environment, NAME, values.into(), max_bytes);
    rendered.map_err(|e| llm::Error::Template(reason(&e)))
}

/// The message of `raise_exception` alone, or the template engine's whole report.
fn reason(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        _ => format!("{error:#}"),
    }
}

/// `{% generation %}` marks training targets for Hugging Face's trainer; for rendering it is an empty block.
fn without_generation_tags(source: &str) -> String {
    let (mut text, mut tail) = (String::with_capacity(source.len()), source);
    while let Some(at) = tail.find("{%") {
        let (before, tag) = tail.split_at(at + 2);
        text.push_str(before);
        tail = tag;
        if let Some((plain, after)) = generation_tag(tag) {
            text.push_str(&plain);
            tail = after;
        }
    }
    text + tail
}

/// A tag of that block rewritten as one that every template has, and the text after it.
fn generation_tag(tag: &str) -> Option<(String, &str)> {
    let sign = |text: &str| usize::from(text.starts_with(['-', '+']));
    let (open, inner) = tag.split_at(sign(tag));
    let inner = inner.trim_start();
    let (plain, behind) = match inner.strip_prefix("endgeneration") {
        Some(behind) => ("endif", behind),
        None => ("if true", inner.strip_prefix("generation")?),
    };
    let behind = behind.trim_start();
    let (close, behind) = behind.split_at(sign(behind));
    let after = behind.strip_prefix("%}")?;
    Some((format!("{open} {plain} {close}%}}"), after))
}

/// [`TEMPLATE_DATE`] at midnight in the C locale. An unknown directive is an error.
fn strftime(format: &str) -> Result<String, Error> {
    let unknown = |directive: Option<char>| {
        let message = format!("strftime_now: the directive `%{}` is not known", directive.unwrap_or(' '));
        Error::new(ErrorKind::InvalidOperation, message)
    };
    if format.len() > MAX_FORMAT_BYTES {
        let message = format!("strftime_now: the format has more than {MAX_FORMAT_BYTES} bytes");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        text.push_str(match chars.next() {
            // glibc: without a leading zero.
            Some('-') => match chars.next() {
                Some('d') => "26",
                Some('m') => "7",
                Some('H' | 'M' | 'S') => "0",
                Some('I') => "12",
                Some('y') => "24",
                other => return Err(unknown(other)),
            },
            Some('d' | 'e') => "26",
            Some('m') => "07",
            Some('Y') => "2024",
            Some('y') => "24",
            Some('b' | 'h') => "Jul",
            Some('B') => "July",
            Some('a') => "Fri",
            Some('A') => "Friday",
            Some('j') => "208",
            Some('u' | 'w') => "5",
            Some('F') => TEMPLATE_DATE,
            Some('D' | 'x') => "07/26/24",
            Some('c') => "Fri Jul 26 00:00:00 2024",
            Some('T' | 'X') => "00:00:00",
            Some('R') => "00:00",
            Some('H' | 'M' | 'S') => "00",
            Some('I') => "12",
            Some('p') => "AM",
            Some('f') => "000000",
            // Both are empty for a date without a time zone.
            Some('z' | 'Z') => "",
            Some('n') => "\n",
            Some('t') => "\t",
            Some('%') => "%",
            other => return Err(unknown(other)),
        });
    }
    Ok(text)
}
