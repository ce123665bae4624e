//! Methods of Python's strings and lists that minijinja-contrib lacks, or whose output its versions do not
//! bound.
//!
//! Source: Python 3.12, `str` and `list`.

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, Tuple, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

use super::{
    filters,
    spaces::{is_space, lines},
};

/// Calls a method of Python on a value: for templates written for Jinja2.
///
/// # Errors
/// A method that is unknown or changes its value, and those of the method itself.
pub fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return match (value.kind(), name) {
            (ValueKind::Seq, "index") => index(value, args),
            (ValueKind::Seq | ValueKind::Map, "copy") => from_args::<()>(args).map(|()| value.clone()),
            _ => pycompat::unknown_method_callback(state, value, name, args),
        };
    };
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
            let text = if name == "rstrip" { text } else { text.trim_start_matches(goes) };
            return Ok(if name == "lstrip" { text } else { text.trim_end_matches(goes) }.into());
        }
        "split" | "rsplit" => return split(text, name == "rsplit", args),
        "splitlines" => {
            let (keep, named): (Option<bool>, Kwargs) = from_args(args)?;
            let keep = keep.or(named.get("keepends")?).unwrap_or(false);
            return named.assert_all_used().map(|()| list(lines(text, keep)));
        }
        "partition" | "rpartition" => return partition(text, name == "rpartition", args),
        "removeprefix" | "removesuffix" => {
            let (affix,): (&str,) = from_args(args)?;
            let stripped =
                if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            return Ok(stripped.unwrap_or(text).into());
        }
        "index" | "rindex" => {
            let find = if name == "index" { "find" } else { "rfind" };
            let at = pycompat::unknown_method_callback(state, value, find, args)?;
            return if at.as_i64() == Some(-1) { Err(wrong("substring not found")) } else { Ok(at) };
        }
        "capitalize" => {
            let mut chars = text.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            return from_args::<()>(args).map(|()| (first + &chars.as_str().to_lowercase()).into());
        }
        "join" => {
            let (values,): (&Value,) = from_args(args)?;
            return filters::join(values, text, None).map(Value::from);
        }
        "replace" => {
            if let [from, to, ..] = args {
                let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                filters::check_replace(text, &part(from), &part(to))?;
            }
        }
        "format" => filters::check_format(text, args)?,
        _ => {}
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

fn wrong(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn list(parts: Vec<&str>) -> Value {
    parts.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

fn index(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (item,): (&Value,) = from_args(args)?;
    let at = list.try_iter()?.position(|other| other == *item);
    at.map(Value::from).ok_or_else(|| wrong("the item is not in the list"))
}

fn partition(text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(wrong("empty separator"));
    }
    let cut = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match cut {
        Some((before, after)) => [before, separator, after],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Tuple::from(parts.map(Value::from)).into())
}

fn split(text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (separator, most, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.or(named.get("sep")?).filter(|value| !value.is_none());
    let most = most.or(named.get("maxsplit")?).and_then(|most| usize::try_from(most).ok());
    named.assert_all_used()?;
    let Some(separator) = &separator else { return Ok(list(words(text, most, from_right))) };
    let separator = separator.as_str().ok_or_else(|| wrong("a separator is a string"))?;
    if separator.is_empty() {
        return Err(wrong("empty separator"));
    }
    let n = most.map_or(usize::MAX, |most| most.saturating_add(1));
    if !from_right {
        return Ok(list(text.splitn(n, separator).collect()));
    }
    let mut parts: Vec<&str> = text.rsplitn(n, separator).collect();
    parts.reverse();
    Ok(list(parts))
}

/// Words, of which at most so many are cut off, from the left or the right. The rest keeps the white space on
/// its outer side.
fn words(text: &str, most: Option<usize>, from_right: bool) -> Vec<&str> {
    let (mut tail, mut parts) = (text, Vec::new());
    loop {
        tail = if from_right { tail.trim_end_matches(is_space) } else { tail.trim_start_matches(is_space) };
        if tail.is_empty() {
            break;
        }
        let cut = if most.is_some_and(|most| parts.len() >= most) {
            None
        } else if from_right {
            tail.rsplit_once(is_space).map(|(others, word)| (word, others))
        } else {
            tail.split_once(is_space)
        };
        let (word, others) = cut.unwrap_or((tail, ""));
        parts.push(word);
        tail = others;
    }
    if from_right {
        parts.reverse();
    }
    parts
}
