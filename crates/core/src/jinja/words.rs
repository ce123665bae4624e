//! Filters of Jinja2 on texts that minijinja has not: `wordcount`, `center`, `urlencode`, `trim` by Python's white space.
//!
//! Source: Jinja2 3.1.6, `filters.py` and `utils.py`.

use std::fmt::Write;

use minijinja::{
    Environment, Error, State, Value,
    value::{Kwargs, StringInput, ValueKind},
};

use super::{
    budget::{make, read},
    python,
};

pub fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter("wordcount", |text: StringInput<'_>| wordcount(text.as_str()));
    environment.add_filter("center", center);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("trim", |text: StringInput<'_>, chars: Option<&str>| -> Value {
        let goes = |c: char| chars.map_or_else(|| python::is_space(c), |chars| chars.contains(c));
        text.as_str().trim_matches(goes).into()
    });
}

/// The runs of letters, digits and underscores.
fn wordcount(text: &str) -> usize {
    text.split(|c: char| !(c == '_' || c.is_alphanumeric())).filter(|word| !word.is_empty()).count()
}

/// A text between so many fill characters.
pub fn padded(text: &str, left: usize, right: usize, fill: char) -> String {
    let mut made = String::with_capacity(text.len() + left + right);
    made.extend(std::iter::repeat_n(fill, left));
    made.push_str(text);
    made.extend(std::iter::repeat_n(fill, right));
    made
}

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
    Ok(padded(text.as_str(), left, n - left, ' '))
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
