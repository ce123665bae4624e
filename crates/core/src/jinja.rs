//! Jinja templates from untrusted sources: limits on length, nesting, instructions and output. Operators on
//! strings and lists are minijinja's and are not limited. Dialects, chats and prompts are the callers'
//! business.

use std::{borrow::Cow, fmt, fmt::Write as _, io, thread};

use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};

use crate::panics;

mod filters;
mod python;
mod spaces;

pub use python::method;

/// The longest template. Unit: bytes.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// The most that one rendering prints, blocks and macros included, and the longest result of a filter or
/// method. Unit: bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// Instructions of one rendering, and how many bytes of a template's own text they may print into blocks: a
/// template that loops or recurses ends.
const FUEL: u64 = 100_000;
const MAX_COPIED_BYTES: u64 = 4 << 30;

/// The longest tag without its strings and blanks: the parser nests once for each operator of a chain, and
/// folds constants in time quadratic in their number. Unit: bytes.
const MAX_TAG_BYTES: usize = 8_000;

/// The most `elif`, each of which is nested in the one before.
const MAX_ELIFS: usize = 10_000;

/// The stack of parser and renderer: enough for values nested once for each instruction. Unit: bytes.
const STACK_BYTES: usize = 64 << 20;

/// An environment with filters as in Jinja2, where nothing is escaped.
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(print);
    filters::add(&mut environment);
    environment
}

/// Makes printing `none` an error of the environment's templates.
pub fn refuse_none(environment: &mut Environment<'static>) {
    environment.set_formatter(|out, state, value| {
        let refused = || Err(Error::new(ErrorKind::InvalidOperation, "it prints `none`"));
        if value.is_none() { refused() } else { print(out, state, value) }
    });
}

fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let Left(left) = state.get_or_insert_extension_with(|| Left(MAX_BYTES));
    let mut counted = Bounded { out, left };
    write!(counted, "{value}").map_err(|_| too_long(MAX_BYTES))
}

/// Adds a template to an environment. A byte order mark is dropped, and lines end with `\n` however the file
/// ends them, as in Jinja2.
///
/// # Errors
/// A template that is too long or too deeply nested, or that does not parse.
pub fn add(
    environment: &mut Environment<'static>,
    name: &'static str,
    source: impl Into<Cow<'static, str>>,
) -> Result<(), Error> {
    let source = source.into();
    if source.len() > MAX_SOURCE_BYTES {
        return Err(rejected(format!(
            "it has {} bytes; templates larger than {MAX_SOURCE_BYTES} bytes are rejected",
            source.len()
        )));
    }
    let source = plain(source);
    check_tags(&source)?;
    on_large_stack(|| environment.add_template_owned(name, source))?;
    let n_bytes: usize = environment.templates().map(|(_, template)| template.source().len()).sum();
    environment.set_fuel(Some(FUEL.min(MAX_COPIED_BYTES / (n_bytes as u64).max(1))));
    Ok(())
}

/// Renders a template of an environment.
///
/// # Errors
/// A template that fails, does not end, prints more than `max_bytes`, or on which minijinja panics.
///
/// # Panics
/// Never: whole strings are written.
pub fn render(
    environment: &Environment<'_>,
    name: &str,
    values: Value,
    max_bytes: usize,
) -> Result<String, Error> {
    let mut out = Limited { bytes: Vec::new(), max_bytes };
    let rendered =
        on_large_stack(|| environment.get_template(name)?.render_captured_to(values, &mut out).map(drop));
    match rendered {
        Err(e) if e.kind() == ErrorKind::WriteFailure => Err(too_long(max_bytes)),
        rendered => rendered.map(|()| String::from_utf8(out.bytes).expect("whole strings are written")),
    }
}

fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || panics::caught(work));
        let thread = thread.map_err(|e| rejected(format!("no thread can be started for it: {e}")))?;
        let done = thread.join().ok().flatten();
        let panicked = || Error::new(ErrorKind::InvalidOperation, "the template engine panicked on it");
        done.unwrap_or_else(|| Err(panicked()))
    })
}

/// The output of a rendering.
struct Limited {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max_bytes - self.bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes that a rendering may still print.
struct Left(usize);

/// Fails behind the last byte that is left.
struct Bounded<'a, W> {
    out: &'a mut W,
    left: &'a mut usize,
}

impl<W: fmt::Write> fmt::Write for Bounded<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        *self.left = self.left.checked_sub(text.len()).ok_or(fmt::Error)?;
        self.out.write_str(text)
    }
}

/// # Errors
/// More than [`MAX_BYTES`].
fn bounded(bytes: usize) -> Result<(), Error> {
    if bytes <= MAX_BYTES { Ok(()) } else { Err(too_long(MAX_BYTES)) }
}

fn too_long(max_bytes: usize) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("it makes more than {max_bytes} bytes of text"))
}

fn rejected(reason: String) -> Error {
    Error::new(ErrorKind::SyntaxError, reason)
}

/// The source without a byte order mark, its lines ended by `\n`.
fn plain(source: Cow<'static, str>) -> Cow<'static, str> {
    if !source.starts_with('\u{feff}') && !source.contains('\r') {
        return source;
    }
    let text = source.strip_prefix('\u{feff}').unwrap_or(&source);
    text.replace("\r\n", "\n").replace('\r', "\n").into()
}

/// # Errors
/// A tag longer than [`MAX_TAG_BYTES`], or more than [`MAX_ELIFS`].
fn check_tags(source: &str) -> Result<(), Error> {
    if source.matches("elif").count() > MAX_ELIFS {
        return Err(rejected(format!("it has more than {MAX_ELIFS} `elif`")));
    }
    let mut tail = source;
    while let Some((_, tag)) = tail.split_once('{') {
        tail = match tag.as_bytes().first() {
            Some(b'#') => Some(tag[1..].split_once("#}").map_or("", |(_, tail)| tail)),
            Some(b'%') if is_tag(&tag[1..], "raw") => {
                let end = tag.match_indices("{%").find(|(at, _)| is_tag(&tag[at + 2..], "endraw"));
                Some(end.map_or("", |(at, _)| &tag[at + 2..]))
            }
            Some(b'%') => after_tag(&tag[1..], b'%'),
            Some(b'{') => after_tag(&tag[1..], b'}'),
            _ => Some(tag),
        }
        .ok_or_else(|| {
            let line = source[..source.len() - tag.len()].matches('\n').count() + 1;
            rejected(format!("line {line}: a tag of more than {MAX_TAG_BYTES} bytes besides its strings"))
        })?;
    }
    Ok(())
}

/// Returns true if the tag that opens before this text is `{% name %}`.
fn is_tag(text: &str, name: &str) -> bool {
    let text = text.trim_start_matches(['-', '+']).trim_start().strip_prefix(name);
    text.is_some_and(|text| text.trim_start().trim_start_matches(['-', '+']).starts_with("%}"))
}

/// The text behind a tag that closes with `end` and a brace; `None` if the tag is too long.
fn after_tag(tag: &str, end: u8) -> Option<&str> {
    let (mut depth, mut n_bytes, mut quote) = (0, 0, None);
    let mut bytes = tag.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, _) if depth == 0 && byte == end && tag.as_bytes().get(at + 1) == Some(&b'}') => {
                return Some(&tag[at + 2..]);
            }
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth -= 1,
            _ => {}
        }
        n_bytes += usize::from(quote.is_none() && !byte.is_ascii_whitespace());
        if n_bytes > MAX_TAG_BYTES {
            return None;
        }
    }
    Some("")
}

#[cfg(test)]
mod tests;
