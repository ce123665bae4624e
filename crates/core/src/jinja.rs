//! Jinja templates from untrusted sources: limits on length, nesting and output, so that none overflows the stack, hangs or
//! exhausts memory. It knows no dialect, no chat and no prompt.

use std::{borrow::Cow, collections::BTreeMap, thread};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Value,
    machinery::{self, CodeGenerator, Instructions, Token},
};

use crate::panics;

mod budget;
mod grows;
mod held;
mod python;
mod words;

pub use grows::python_method;

/// The longest template. Unit: bytes.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// What one rendering may make: every text that it prints, captures, joins or repeats counts. Unit: bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// Instructions of one rendering, and calls of macros within each other: a template that loops or recurses ends.
const FUEL: u64 = 10_000_000;
const MAX_DEPTH: usize = 100;

/// The most words and signs in one pair of brackets: `1+1+...` nests once for each.
const MAX_TAG_TOKENS: usize = 4_000;

/// The most `elif` of a template, each of which is nested in the one before.
const MAX_ELIFS: usize = 1_000;

/// The stack that templates are parsed on; what the limits above let through needs less. Unit: bytes.
const STACK_BYTES: usize = 64 << 20;

/// An environment within which templates are rendered: its filters say beforehand what they will make, and what would
/// print without a bound is not there. Nothing is escaped.
#[must_use]
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|out, state, value| {
        budget::print(state, value)?;
        minijinja::escape_formatter(out, state, value)
    });
    held::add_filters(&mut environment);
    grows::add_filters(&mut environment);
    words::add_filters(&mut environment);
    environment
}

/// A parsed template, to be rendered in the same environment.
pub struct Template {
    instructions: Instructions<'static>,
    blocks: BTreeMap<&'static str, Instructions<'static>>,
}

impl Template {
    /// Parses a template; the text of one that was read from somewhere is kept as long as the program runs. A byte
    /// order mark is dropped, and lines end with `\n` however the file ends them, as in Jinja2.
    ///
    /// # Errors
    /// A template that is too long or too deeply nested, or that does not parse.
    pub fn parse(
        name: &'static str,
        source: impl Into<Cow<'static, str>>,
        environment: &Environment<'_>,
    ) -> Result<Self, Error> {
        let source = source.into();
        if source.len() > MAX_SOURCE_BYTES {
            return Err(refused(format!(
                "it has {} bytes; templates larger than {MAX_SOURCE_BYTES} bytes are rejected",
                source.len()
            )));
        }
        let source: &'static str = match plain(source) {
            Cow::Borrowed(source) => source,
            Cow::Owned(source) => source.leak(),
        };
        let syntax = environment.syntax().clone();
        let parse = || -> Result<Self, Error> {
            check_nesting(source, syntax.clone())?;
            let tree = machinery::parse(source, name, syntax)?;
            let mut generator = CodeGenerator::new(name, source);
            generator.compile_stmt(&tree);
            let (instructions, blocks) = generator.finish();
            let blocks = blocks.iter().map(|(name, block)| (*name, held::held(block))).collect();
            Ok(Self { instructions: held::held(&instructions), blocks })
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, || panics::caught(parse));
            let thread = thread.map_err(|e| refused(format!("no thread can be started to parse it: {e}")))?;
            let parsed = thread.join().ok().flatten();
            parsed.unwrap_or_else(|| Err(refused("the template parser panicked on it".into())))
        })
    }

    /// Fills in a template.
    ///
    /// # Errors
    /// A template that fails, does not end, makes more than [`MAX_BYTES`], or on which the template engine panics.
    pub fn render(&self, environment: &Environment<'_>, values: Value) -> Result<String, Error> {
        panics::caught(|| self.evaluate(environment, values)).unwrap_or_else(|| {
            Err(Error::new(ErrorKind::InvalidOperation, "the template engine panicked on it"))
        })
    }

    fn evaluate(&self, environment: &Environment<'_>, values: Value) -> Result<String, Error> {
        let mut text = String::new();
        let mut out = machinery::make_string_output(&mut text);
        machinery::eval(environment, &self.instructions, values, &self.blocks, &mut out, AutoEscape::None)?;
        drop(out);
        Ok(text)
    }
}

/// The source without a byte order mark, its lines ended by `\n`.
fn plain(source: Cow<'static, str>) -> Cow<'static, str> {
    if !source.starts_with('\u{feff}') && !source.contains('\r') {
        return source;
    }
    let text = source.strip_prefix('\u{feff}').unwrap_or(&source);
    text.replace("\r\n", "\n").replace('\r', "\n").into()
}

/// Refuses what would nest too deeply before anything is parsed: the parser bounds brackets itself, but neither chains
/// of operators nor of `elif`.
fn check_nesting(source: &str, syntax: minijinja::syntax::SyntaxConfig) -> Result<(), Error> {
    let (mut in_tag, mut elifs) = (0, 0);
    for token in machinery::tokenize(source, false, syntax) {
        let (token, at) = token?;
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => in_tag = 0,
            Token::Ident("elif") => elifs += 1,
            _ => in_tag += 1,
        }
        if in_tag > MAX_TAG_TOKENS || elifs > MAX_ELIFS {
            return Err(refused(format!(
                "line {}: more than {MAX_TAG_TOKENS} words and signs in one pair of brackets, or more than \
                 {MAX_ELIFS} `elif`",
                at.start_line
            )));
        }
    }
    Ok(())
}

fn refused(reason: String) -> Error {
    Error::new(ErrorKind::SyntaxError, reason)
}

#[cfg(test)]
mod tests;
