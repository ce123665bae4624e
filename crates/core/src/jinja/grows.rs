//! Filters and methods whose output can be far larger than their input; each checks the size against the budget first.

use minijinja::{
    Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Rest, StringInput, ValueOrKwargs},
};

use super::{
    budget::{ITEM_BYTES, make, print, read},
    python,
};

/// The most parts that a list is cut into.
const MAX_PARTS: usize = 100_000;

pub fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter("format", format);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter(
        "batch",
        |state: &mut State<'_, '_>, value: Value, n: usize, fill: Option<Value>| {
            parts(n).and_then(|()| filters::batch(state, value, n, fill))
        },
    );
    environment.add_filter(
        "slice",
        |state: &mut State<'_, '_>, value: Value, n: usize, fill: Option<Value>| {
            parts(n).and_then(|()| filters::slice(state, value, n, fill))
        },
    );
    environment.add_filter("striptags", minijinja_contrib::filters::striptags);
    environment.add_filter("filesizeformat", minijinja_contrib::filters::filesizeformat);
    environment.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    // Both indent a value by its depth, line by line; neither is for prompts.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
}

fn parts(n: usize) -> Result<(), Error> {
    if n <= MAX_PARTS {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOperation, format!("`{n}` parts; at most {MAX_PARTS} are made")))
}

fn format(state: &mut State<'_, '_>, text: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    widths(state, text.as_str().unwrap_or_default(), &args)?;
    filters::format(state, text, Rest(args.into_iter().map(ValueOrKwargs::from).collect()))
}

/// Takes what the widths and precisions in a format may make: every number in it, and every number that it is given,
/// since `*` takes its width from there.
fn widths(state: &mut State<'_, '_>, text: &str, args: &[Value]) -> Result<(), Error> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let from_text = numbers.map(|digits| digits.parse().unwrap_or(u64::MAX)).fold(0, u64::saturating_add);
    let stars =
        text.contains('*') || text.matches('{').count() > text.matches('}').count() || text.contains(":{");
    let whole = |value: &Value| value.as_i64().map_or(0, i64::unsigned_abs);
    let from_args = if stars { args.iter().map(whole).fold(0, u64::saturating_add) } else { 0 };
    // Groups of digits and signs at most double a width.
    make(state, from_text.saturating_add(from_args).saturating_mul(2).saturating_add(text.len() as u64))?;
    let fields = 1 + text.matches(['%', '{']).count() as u64;
    for arg in args {
        read(state, arg)?;
        if arg.as_str().is_some() || arg.as_object().is_some() {
            // The same value may be printed by every field.
            make(state, fields.saturating_mul(arg.len().unwrap_or(0) as u64))?;
        }
    }
    Ok(())
}

fn replace(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    replaced(state, value.as_str(), from.as_str(), to.as_str())?;
    filters::replace(state, value, from, to)
}

fn replaced(state: &mut State<'_, '_>, text: &str, from: &str, to: &str) -> Result<(), Error> {
    let bytes = (text.matches(from).count() as u64).saturating_mul(to.len() as u64);
    make(state, bytes.saturating_add(text.len() as u64))
}

fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let named = kwargs.get::<Option<Value>>("d")?;
    let between = joiner.as_ref().map(StringInput::as_str).or_else(|| named.as_ref()?.as_str());
    joined(state, value, between.unwrap_or_default())?;
    filters::join(state, value, joiner, attribute, kwargs)
}

fn joined(state: &mut State<'_, '_>, value: &Value, between: &str) -> Result<(), Error> {
    let n = match value.len() {
        Some(n) => n as u64,
        None => value.try_iter().map_or(0, |items| items.count() as u64),
    };
    make(state, n.saturating_mul(between.len() as u64))?;
    print(state, value)
}

/// The methods that Python's values have, within the budget: for templates written for Hugging Face's renderer.
///
/// # Errors
/// As the methods themselves, and a budget that is used up.
pub fn python_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    read(state, value)?;
    for arg in args {
        read(state, arg)?;
    }
    if let Some(text) = value.as_str() {
        match (method, args) {
            ("replace", [from, to, ..]) => {
                replaced(state, text, from.as_str().unwrap_or_default(), to.as_str().unwrap_or_default())?;
            }
            ("join", [values, ..]) => joined(state, values, text)?,
            ("format", _) => widths(state, text, args)?,
            ("split" | "rsplit" | "splitlines", _) => make(state, text.len() as u64 * ITEM_BYTES)?,
            ("center" | "ljust" | "rjust" | "zfill", [width, ..]) => {
                make(state, width.as_i64().map_or(0, i64::unsigned_abs).saturating_mul(4))?;
                make(state, text.len() as u64)?;
            }
            ("expandtabs", _) => {
                let size = args.first().map_or(8, |size| size.as_i64().map_or(1 << 32, i64::unsigned_abs));
                make(state, (text.matches('\t').count() as u64).saturating_mul(size))?;
                make(state, text.len() as u64)?;
            }
            _ => make(state, text.len() as u64)?,
        }
    }
    if let Some(value) = python::method(value, method, args)? {
        return Ok(value);
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}
