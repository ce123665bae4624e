//! Filters and tests that minijinja lacks, or which make more than they are given.
//!
//! Source: Jinja2 3.1.6, `filters.py` and `tests.py`.

use std::fmt::Write;

use minijinja::{
    Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs, from_args},
};

use super::{Bounded, MAX_BYTES, bounded, spaces, too_long};

/// The widest field of a format string, and the most parts of `batch` and `slice`.
const MAX_WIDTH: usize = 100_000;

pub fn add(environment: &mut Environment<'_>) {
    add_bounded(environment);
    add_jinja2(environment);
    // It indents a value by its depth, line by line.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
}

/// Filters whose result is measured first.
fn add_bounded(environment: &mut Environment<'_>) {
    environment.add_filter(
        "format",
        |state: &mut State<'_, '_>, text: &Value, args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
            let args = args.into_values();
            check_format(text.as_str().unwrap_or_default(), &args)?;
            filters::format(state, text, Rest(args.into_iter().map(ValueOrKwargs::from).collect()))
        },
    );
    environment.add_filter(
        "replace",
        |text: StringInput<'_>, from: StringInput<'_>, to: StringInput<'_>, count: Option<usize>| {
            let (text, from, to) = (text.as_str(), from.as_str(), to.as_str());
            check_replace(text, from, to).map(|()| text.replacen(from, to, count.unwrap_or(usize::MAX)))
        },
    );
    environment.add_filter(
        "join",
        |values: &Value, between: Option<Value>, attribute: Option<Value>, named: Kwargs| {
            let between = between.or(named.get("d")?).map_or(String::new(), |between| between.to_string());
            let attribute = attribute.or(named.get("attribute")?);
            named.assert_all_used()?;
            join(values, &between, attribute.as_ref())
        },
    );
    environment.add_filter(
        "batch",
        |state: &mut State<'_, '_>, value: Value, n: usize, fill: Option<Value>| {
            check_width(n).and_then(|()| filters::batch(state, value, n, fill))
        },
    );
    environment.add_filter(
        "slice",
        |state: &mut State<'_, '_>, value: Value, n: usize, fill: Option<Value>| {
            check_width(n).and_then(|()| filters::slice(state, value, n, fill))
        },
    );
    environment.add_filter("indent", indent);
}

/// Filters, tests and functions that minijinja lacks or defines otherwise.
fn add_jinja2(environment: &mut Environment<'_>) {
    environment.add_filter("trim", |text: StringInput<'_>, chars: Option<&str>| -> Value {
        let goes = |c: char| chars.map_or_else(|| spaces::is_space(c), |chars| chars.contains(c));
        text.as_str().trim_matches(goes).into()
    });
    for name in ["d", "default"] {
        environment.add_filter(
            name,
            |value: Value, other: Option<Value>, lax: Option<bool>, named: Kwargs| -> Result<Value, Error> {
                let other = other.or(named.get("default_value")?).unwrap_or_else(|| "".into());
                let lax = lax.or(named.get("boolean")?).unwrap_or(false);
                named.assert_all_used()?;
                Ok(if value.is_undefined() || (lax && !value.is_true()) { other } else { value })
            },
        );
    }
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    for name in ["e", "escape"] {
        environment.add_filter(name, |text: StringInput<'_>| -> Value {
            let text = text.as_str().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            Value::from_safe_string(text.replace('"', "&#34;").replace('\'', "&#39;"))
        });
    }
    for name in ["length", "count"] {
        environment.add_filter(name, |value: &Value| -> Result<usize, Error> {
            if value.is_undefined() { Ok(0) } else { filters::length(value) }
        });
    }
    environment.add_filter("first", |value: Value| -> Result<Value, Error> {
        if value.is_undefined() { Ok(value) } else { filters::first(&value) }
    });
    environment.add_filter("last", |value: Value| -> Result<Value, Error> {
        if value.is_undefined() { Ok(value) } else { filters::last(value) }
    });
    environment.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    // A value with a length and places is a sequence to Jinja2; slices and sums of lists are iterables to
    // minijinja.
    environment.add_test("sequence", |value: &Value| {
        use ValueKind as Kind;
        matches!(value.kind(), Kind::Seq | Kind::Iterable | Kind::Map | Kind::String | Kind::Undefined)
    });
    environment.add_test("callable", |value: &Value| {
        matches!(value.kind(), ValueKind::Plain | ValueKind::Undefined)
    });
}

fn check_width(n: usize) -> Result<(), Error> {
    if n <= MAX_WIDTH {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOperation, format!("`{n}` is more than {MAX_WIDTH}")))
}

/// Checks the widths in a format string, and what its fields print.
pub fn check_format(text: &str, args: &[Value]) -> Result<(), Error> {
    let (mut widths, mut printed) = (0, 0);
    for digits in text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
        let width = digits.parse().unwrap_or(usize::MAX);
        check_width(width)?;
        widths += width;
    }
    for arg in args {
        printed += join(&Value::from(vec![arg.clone()]), "", None)?.len();
    }
    let n_fields = 1 + text.matches(['%', '{']).count();
    bounded(text.len() + widths + n_fields * printed)
}

pub fn check_replace(text: &str, from: &str, to: &str) -> Result<(), Error> {
    bounded((text.matches(from).count()).saturating_mul(to.len()).saturating_add(text.len()))
}

/// The values, or their attribute, as one string.
pub fn join(values: &Value, between: &str, attribute: Option<&Value>) -> Result<String, Error> {
    let (mut text, mut left) = (String::new(), MAX_BYTES);
    let mut out = Bounded { out: &mut text, left: &mut left };
    for (i, value) in values.try_iter()?.enumerate() {
        let value = attribute.map_or(Ok(value.clone()), |attribute| value.get_item(attribute))?;
        let between = if i > 0 { between } else { "" };
        write!(out, "{between}{value}").map_err(|_| too_long(MAX_BYTES))?;
    }
    Ok(text)
}

/// The integer part of a value; the default, or 0, if it is not a number.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn int(value: &Value, default: Option<Value>, base: Option<u32>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| 0.into());
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    let cut = |number: f64| number.is_finite().then(|| Value::from(number.trunc() as i128));
    let number = match value.as_str() {
        Some(text) => {
            let text = text.trim().replace('_', "");
            let digits = text.strip_prefix("0x").filter(|_| base == 16).unwrap_or(&text);
            let integer = i128::from_str_radix(digits, base.clamp(2, 36)).ok().map(Value::from);
            integer.or_else(|| text.parse().ok().and_then(cut))
        }
        None if value.kind() == ValueKind::Bool => Some(i64::from(value.is_true()).into()),
        None if value.is_integer() => Some(value.clone()),
        None => f64::try_from(value.clone()).ok().and_then(cut),
    };
    Ok(number.unwrap_or(default))
}

/// A value as a float; the default, or 0.0, if it is not a number.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn float(value: &Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| 0.0.into());
    named.assert_all_used()?;
    let number = match value.as_str() {
        Some(text) => text.trim().replace('_', "").parse::<f64>().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(number.map_or(default, Value::from))
}

/// The lines, each behind so many blanks or a string; the first and empty ones only on request.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn indent(text: StringInput<'_>, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (width, first, blank, named): (Option<Value>, Option<bool>, Option<bool>, Kwargs) = from_args(&args)?;
    let width = width.or(named.get("width")?).unwrap_or_else(|| 4.into());
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let indent = match (width.as_str(), width.as_usize().unwrap_or(0)) {
        (Some(text), _) => text.to_owned(),
        (None, n) => check_width(n).map(|()| " ".repeat(n))?,
    };
    let text = format!("{}\n", text.as_str());
    let lines = spaces::lines(&text, false);
    bounded(indent.len().saturating_mul(lines.len()).saturating_add(text.len()))?;
    let indented = |(i, line): (usize, &&str)| {
        let is_indented = if i == 0 { first } else { blank || !line.is_empty() };
        if is_indented { format!("{indent}{line}") } else { (*line).to_owned() }
    };
    Ok(lines.iter().enumerate().map(indented).collect::<Vec<_>>().join("\n"))
}
