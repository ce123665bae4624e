//! Text filters that minijinja lacks or implements differently from Jinja2.
//!
//! Source: Jinja2 3.1.6, `filters.py` and `utils.py`.

use std::fmt::Write;

use minijinja::{
    Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs, from_args},
};

use super::{
    budget::{make, read},
    python,
};

pub fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    environment.add_filter("indent", indent);
    environment.add_filter("truncate", truncate);
    for name in ["length", "count"] {
        environment.add_filter(name, |value: &Value| -> Result<usize, Error> {
            if value.is_undefined() { Ok(0) } else { filters::length(value) }
        });
    }
    environment.add_filter("first", |value: Value| -> Result<Value, Error> {
        if value.is_undefined() { Ok(value) } else { filters::first(&value) }
    });
    environment.add_filter("last", |value: Value| -> Result<Value, Error> {
        match value.kind() {
            ValueKind::Undefined => Ok(value),
            ValueKind::Map => Ok(value.try_iter()?.last().unwrap_or_default()),
            _ => filters::last(value),
        }
    });
    // Whatever has a length and places is a sequence to Jinja2.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Bytes)
    });
    environment.add_test("callable", |value: &Value| {
        matches!(value.kind(), ValueKind::Plain | ValueKind::Undefined)
    });
    environment.add_filter("wordcount", |text: StringInput<'_>| wordcount(text.as_str()));
    environment.add_filter("center", center);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("trim", |text: StringInput<'_>, chars: Option<&str>| -> Value {
        let goes = |c: char| chars.map_or_else(|| python::is_space(c), |chars| chars.contains(c));
        text.as_str().trim_matches(goes).into()
    });
}

/// The integer part of a value; the default, or 0, if it is not a number.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn int(value: &Value, default: Option<Value>, base: Option<u32>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| 0.into());
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    let cut = |number: f64| number.is_finite().then(|| Value::from(number.trunc() as i128));
    let number = match (value.as_str(), value.kind()) {
        (Some(text), _) => {
            let text = text.trim_matches(python::is_space).replace('_', "");
            whole(&text, base).map(Value::from).or_else(|| text.parse().ok().and_then(cut))
        }
        (None, ValueKind::Bool) => Some(i64::from(value.is_true()).into()),
        (None, _) if value.is_integer() => Some(value.clone()),
        (None, _) => f64::try_from(value.clone()).ok().and_then(cut),
    };
    Ok(number.unwrap_or(default))
}

/// A number in the digits of a base; 0 stands for the base that its prefix names.
fn whole(text: &str, base: u32) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_lowercase();
    let named = [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find_map(|(prefix, of)| {
        let digits = lower.strip_prefix(prefix).filter(|_| base == 0 || base == of)?;
        Some((digits, of))
    });
    let (digits, base) = named.unwrap_or((&lower, if base == 0 { 10 } else { base }));
    if !(2..=36).contains(&base) || digits.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(digits, base).ok().map(|number| sign * number)
}

/// A number with a point; the default, or 0.0, for what is none.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn float(value: &Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| 0.0.into());
    named.assert_all_used()?;
    let number = match value.as_str() {
        Some(text) => text.trim_matches(python::is_space).replace('_', "").parse::<f64>().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(number.map_or(default, Value::from))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn escape(state: &mut State<'_, '_>, text: StringInput<'_>) -> Result<Value, Error> {
    make(state, 5 * text.as_str().len() as u64)?;
    let mut made = String::with_capacity(text.as_str().len());
    for c in text.as_str().chars() {
        match c {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '"' => made.push_str("&#34;"),
            '\'' => made.push_str("&#39;"),
            c => made.push(c),
        }
    }
    Ok(Value::from_safe_string(made))
}

/// Lines behind an indent, which is a number of blanks or a text; the first and blank ones only where that is asked.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn indent(
    state: &mut State<'_, '_>,
    text: StringInput<'_>,
    args: Rest<ValueOrKwargs>,
) -> Result<String, Error> {
    let args = args.into_values();
    let (width, first, blank, named): (Option<Value>, Option<bool>, Option<bool>, Kwargs) = from_args(&args)?;
    let width = width.or(named.get("width")?).unwrap_or_else(|| 4.into());
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let n_bytes =
        width.as_str().map_or_else(|| width.as_i64().map_or(0, i64::unsigned_abs), |text| text.len() as u64);
    let lines = python::lines(text.as_str(), false);
    make(state, n_bytes.saturating_mul(lines.len() as u64 + 1))?;
    make(state, text.as_str().len() as u64)?;
    let indent = match width.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(width.as_usize().unwrap_or(0)),
    };
    let mut made = String::new();
    // What ends with a line's end has an empty line behind it; so has an empty text.
    let ends = text.as_str().chars().next_back().is_none_or(python::ends_line);
    for (i, line) in lines.into_iter().chain(ends.then_some("")).enumerate() {
        if i > 0 {
            made.push('\n');
        }
        let is_indented = if i == 0 { first } else { blank || !line.is_empty() };
        if is_indented {
            made.push_str(&indent);
        }
        made.push_str(line);
    }
    Ok(made)
}

/// A text cut behind so many characters, at a word's end, where it has more than five beyond them.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn truncate(text: StringInput<'_>, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (length, killwords, end, named): (Option<usize>, Option<bool>, Option<&str>, Kwargs) =
        from_args(&args)?;
    let length = length.or(named.get("length")?).unwrap_or(255);
    let killwords = killwords.or(named.get("killwords")?).unwrap_or(false);
    let given: Option<String> = named.get("end")?;
    let end = end.or(given.as_deref()).unwrap_or("...");
    let leeway = named.get::<Option<usize>>("leeway")?.unwrap_or(5);
    named.assert_all_used()?;
    let (text, n_end) = (text.as_str(), end.chars().count());
    if length < n_end {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("expected length >= {n_end}, got {length}"),
        ));
    }
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.to_owned());
    }
    let cut: String = text.chars().take(length - n_end).collect();
    let kept =
        if killwords { cut.as_str() } else { cut.rsplit_once(' ').map_or(cut.as_str(), |(kept, _)| kept) };
    Ok(format!("{kept}{end}"))
}

/// The runs of letters, digits and underscores.
fn wordcount(text: &str) -> usize {
    text.split(|c: char| !(c == '_' || c.is_alphanumeric())).filter(|word| !word.is_empty()).count()
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn center(
    state: &mut State<'_, '_>,
    text: StringInput<'_>,
    width: Option<usize>,
    named: Kwargs,
) -> Result<String, Error> {
    let width = width.or(named.get("width")?).unwrap_or(80);
    named.assert_all_used()?;
    make(state, width as u64)?;
    let n = width.saturating_sub(text.as_str().chars().count());
    let left = n / 2 + (n & width & 1);
    Ok(python::filled(text.as_str(), left, n - left, ' '))
}

/// A text with what no URL may hold as `%XX`; pairs of a map or of a list as a query.
fn urlencode(state: &mut State<'_, '_>, value: &Value) -> Result<String, Error> {
    read(state, value)?;
    make(state, 3 * value.as_str().map_or(0, str::len) as u64)?;
    let pairs: Vec<(Value, Value)> = match value.kind() {
        ValueKind::Map => {
            let pair = |key: Value| Ok((key.clone(), value.get_item(&key)?));
            value.try_iter()?.map(pair).collect::<Result<_, Error>>()?
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let pair = |pair: Value| Ok((pair.get_item(&0.into())?, pair.get_item(&1.into())?));
            value.try_iter()?.map(pair).collect::<Result<_, Error>>()?
        }
        _ => return Ok(quoted(&value.to_string(), false)),
    };
    let mut query = String::new();
    for (key, value) in pairs {
        let (key, value) = (key.to_string(), value.to_string());
        make(state, 3 * (key.len() + value.len()) as u64 + 2)?;
        let between = if query.is_empty() { "" } else { "&" };
        let _ = write!(query, "{between}{}={}", quoted(&key, true), quoted(&value, true));
    }
    Ok(query)
}

/// Python's `urllib.parse.quote`; in a query a slash is quoted too, and a blank is a plus sign.
fn quoted(text: &str, in_query: bool) -> String {
    let mut made = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' if in_query => made.push('+'),
            b'/' if !in_query => made.push('/'),
            b'_' | b'.' | b'-' | b'~' => made.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => made.push(char::from(byte)),
            _ => {
                let _ = write!(made, "%{byte:02X}");
            }
        }
    }
    made
}
