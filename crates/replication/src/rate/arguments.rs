//! The arguments of tool calls, as the authors' program reads them.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use tribunal_judges::{
    Error,
    rate::{agents, tools::Arguments},
    reading,
};

use crate::python::{ascii_digits, parse_float};

/// An argument as Python prints it: digits alone are a number there, and lose their leading zeros.
pub(super) fn argument(arguments: &Arguments, key: &str) -> Option<String> {
    let value = &ascii_digits(arguments.get(key)?);
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let digits = value.trim_start_matches('0');
    Some(match (is_number, digits) {
        (true, "") => "0".into(),
        (true, digits) => digits.into(),
        (false, _) => arguments[key].clone(),
    })
}

/// The argument with `None` where it is missing.
pub(super) fn text(arguments: &Arguments, key: &str) -> String {
    argument(arguments, key).unwrap_or_else(|| "None".into())
}

/// `float(...)` of an argument.
pub(super) fn number(arguments: &Arguments, key: &str) -> Result<f64, Error> {
    let value = text(arguments, key);
    let number = parse_float(&value).filter(|number| number.is_finite());
    number.ok_or_else(|| Error::Unparsable(format!("the core agent's `{key}` is not a number: `{value}`")))
}

static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)<arg_value>(.*?)</arg_value>").expect("the pattern is a constant that compiles")
});

/// `parse_search_args`: the list in the first argument, under any name.
pub(super) fn queries(text: &str) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    struct Query {
        q: String,
    }
    let found =
        VALUE.captures(text).ok_or_else(|| reading::unusable(text, "the search agent called no tool"))?;
    let queries: Vec<Query> =
        reading::json(&found[1]).map_err(|error| agents::within("the search agent", error))?;
    Ok(queries.into_iter().map(|query| query.q).collect())
}
