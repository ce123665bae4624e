//! The arguments of tool calls, as the authors' program reads them.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use tribunal_judges::{
    Error, Result,
    rate::{agents, tools::Arguments},
    reading::{self, pattern},
};

use crate::python::{ascii_digits, parse_float};

/// An argument as Python prints it: the program parses digits as a number, which drops leading zeros.
pub(super) fn argument(arguments: &Arguments, key: &str) -> Option<String> {
    let original = arguments.get(key)?;
    let value = ascii_digits(original);
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let digits = value.trim_start_matches('0');
    Some(match (is_number, digits) {
        (true, "") => "0".into(),
        (true, digits) => digits.into(),
        (false, _) => original.clone(),
    })
}

/// An argument as Python prints it; `None` for a missing one.
pub(super) fn text(arguments: &Arguments, key: &str) -> String {
    argument(arguments, key).unwrap_or_else(|| "None".into())
}

/// `float(...)` of the core agent's argument; the program ends on another one.
pub(super) fn score_argument(arguments: &Arguments, key: &str) -> Result<f64> {
    let value = text(arguments, key);
    let score = parse_float(&value).filter(|score| score.is_finite());
    score.ok_or_else(|| Error::Unparsable(format!("the core agent's `{key}` is not a number: `{value}`")))
}

static VALUE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<arg_value>(.*?)</arg_value>"));

/// The search queries of a tool call: the JSON list in its first argument, whatever the argument's name.
///
/// Source: `parse_search_args`.
pub(super) fn queries(text: &str) -> Result<Vec<String>> {
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
