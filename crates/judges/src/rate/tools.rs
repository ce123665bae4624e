//! The core agent's tool calls: XML as in Figure 15, or JSON as `strict` constrains them, parsed into
//! actions. Nothing is carried out here.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Result,
    reading::{self, pattern},
};

/// The end of a tool call, at which models are stopped.
pub const CALL_END: &str = "</tool_call>";
const CALL_START: &str = "<tool_call>";

/// The authors' two patterns (`core_agent.py`): a tool's name with the text after it, and its arguments.
static CALL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<tool_call>\s*(\w+)(.*?)</tool_call>"));
static ARGUMENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?s)<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>"));

/// One tool call of the core agent.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: &'static str,
    pub action: Action,
}

/// Action of the core agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Search { query: String },
    Evaluate(EvaluateRequest),
    Compare(CompareRequest),
    Finish { score: f64 },
}

/// Arguments of `general_evaluation_agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluateRequest {
    pub notes: Option<String>,
    pub instruction: Option<String>,
}

/// Arguments of `comparison_agent`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompareRequest {
    /// 0 to 4.
    pub tentative: f64,
    pub notes: Option<String>,
    pub low: Option<String>,
    pub high: Option<String>,
}

/// The arguments of a call as text.
pub type Arguments = BTreeMap<String, String>;

/// A model's text after its thoughts.
pub fn answer(text: &str) -> &str {
    text.rsplit_once("</think>").map_or(text, |(_, answer)| answer)
}

/// True if a text ends inside its tool call.
pub fn is_open(text: &str) -> bool {
    text.rfind(CALL_START).is_some_and(|at| !text[at..].contains(CALL_END))
}

/// A text that was stopped inside its tool call, with the call closed.
pub fn closed(text: &str) -> String {
    if is_open(text) { format!("{}\n{CALL_END}", text.trim_end()) } else { text.to_owned() }
}

/// The name and the arguments of the first tool call in a text.
pub fn first_call(text: &str) -> Option<(String, Arguments)> {
    let found = CALL.captures(text)?;
    let arguments = ARGUMENT.captures_iter(found.get(2)?.as_str());
    let arguments =
        arguments.map(|argument| (argument[1].trim().to_owned(), argument[2].trim().to_owned())).collect();
    Some((found[1].to_owned(), arguments))
}

/// The first tool call of an answer, after the thoughts of a reasoning model.
///
/// # Errors
/// The fault of the call, for the core agent.
pub fn read_xml(text: &str) -> Result<ToolCall, String> {
    let (name, arguments) =
        first_call(answer(text)).ok_or("no tool call was found; write one <tool_call>")?;
    step(&name, &arguments)
}

/// The `search_query` of the search agent's call, in XML.
///
/// # Errors
/// The fault of the call.
pub fn read_search_xml(text: &str) -> Result<Vec<String>, String> {
    let (_, arguments) = first_call(answer(text)).ok_or("no tool call")?;
    let value = arguments.get("search_query").ok_or("no `search_query`")?;
    let queries: Vec<Query> = serde_json::from_str(value).map_err(|e| e.to_string())?;
    Ok(queries.into_iter().map(|query| query.q).collect())
}

/// One query of the search agent.
#[derive(Deserialize)]
pub struct Query {
    pub q: String,
}

/// A step in the constrained form.
///
/// # Errors
/// [`crate::Error::Unparsable`] when it is not that form; inside it, the fault of the call.
pub fn read_json(text: &str) -> Result<Result<ToolCall, String>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Message {
        #[serde(rename = "thought")]
        _thought: String,
        tool_call: Call,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call {
        name: String,
        arguments: serde_json::Map<String, Value>,
    }
    let Message { tool_call: Call { name, arguments }, .. } = reading::json(text)?;
    let plain = |value: Value| if let Value::String(text) = value { text } else { value.to_string() };
    let arguments = arguments.into_iter().map(|(key, value)| (key, plain(value))).collect();
    Ok(step(&name, &arguments))
}

fn step(name: &str, arguments: &Arguments) -> Result<ToolCall, String> {
    let argument = |key: &str| arguments.get(key).filter(|value| !value.is_empty()).cloned();
    let needed = |key: &str| argument(key).ok_or_else(|| format!("`{name}` needs `{key}`"));
    let score = |key: &str| {
        let value = needed(key)?;
        let score = value.parse::<f64>().ok().filter(|score| (0.0..=4.0).contains(score));
        score.ok_or_else(|| format!("`{key}` must be a number from 0 to 4, not `{value}`"))
    };
    let (name, action) = match name {
        "search_agent" => ("search_agent", Action::Search { query: needed("query")? }),
        "general_evaluation_agent" => {
            let request = EvaluateRequest {
                notes: argument("context_notes").filter(|notes| notes != "None"),
                instruction: argument("specific_instruction"),
            };
            ("general_evaluation_agent", Action::Evaluate(request))
        }
        "comparison_agent" => {
            let request = CompareRequest {
                tentative: score("tentative_score")?,
                notes: argument("context_notes").filter(|notes| notes != "None"),
                low: argument("synthetic_low_anchor"),
                high: argument("synthetic_high_anchor"),
            };
            ("comparison_agent", Action::Compare(request))
        }
        "finish_evaluation" => ("finish_evaluation", Action::Finish { score: score("final_score")? }),
        other => return Err(format!("there is no tool `{other}`")),
    };
    Ok(ToolCall { name, action })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_calls() {
        let call = |inner: &str| read_xml(&format!("Thought: go.\n<tool_call>{inner}</tool_call>"));
        let finish = "finish_evaluation\n<arg_key>final_score</arg_key>\n<arg_value>3.5</arg_value>\n\
                      <arg_key>final_rationale</arg_key><arg_value>a <b>\nc</arg_value>";
        assert_eq!(call(finish).unwrap().action, Action::Finish { score: 3.5 });
        let first = format!("{finish}</tool_call><tool_call>search_agent");
        assert_eq!(call(&first).unwrap().name, "finish_evaluation", "the first call counts");
        let thought = format!("<think><tool_call>search_agent</tool_call></think><tool_call>{finish}");
        assert_eq!(read_xml(&closed(&thought)).unwrap().name, "finish_evaluation");
        let evaluate = "general_evaluation_agent<arg_key>context_notes</arg_key><arg_value>None</arg_value>";
        assert_eq!(call(evaluate).unwrap().action, Action::Evaluate(EvaluateRequest::default()));
        let faults = [
            read_xml("I think it is fine."),
            call("search_agent"),
            call("ask_google<arg_key>query</arg_key><arg_value>x</arg_value>"),
            call("comparison_agent<arg_key>tentative_score</arg_key><arg_value>five</arg_value>"),
            call("finish_evaluation<arg_key>final_score</arg_key><arg_value>4.5</arg_value>"),
            call("search_agent<arg_key>query</arg_key>"),
        ]
        .map(|fault| fault.unwrap_err());
        insta::assert_snapshot!(faults.join("\n"), @"
        no tool call was found; write one <tool_call>
        `search_agent` needs `query`
        there is no tool `ask_google`
        `tentative_score` must be a number from 0 to 4, not `five`
        `final_score` must be a number from 0 to 4, not `4.5`
        `search_agent` needs `query`
        ");
    }

    #[test]
    fn a_stopped_call_is_closed() {
        assert_eq!(closed("t <tool_call>x\n"), "t <tool_call>x\n</tool_call>");
        assert_eq!(closed("t <tool_call>x</tool_call>"), "t <tool_call>x</tool_call>");
        assert_eq!(closed("no call"), "no call");
    }

    #[test]
    fn json_turns() {
        let turn = r#"{"thought": "t", "tool_call": {"name": "comparison_agent", "arguments": {"tentative_score": 2}}}"#;
        let Action::Compare(request) = read_json(turn).unwrap().unwrap().action else { panic!("{turn}") };
        assert_eq!(request, CompareRequest { tentative: 2.0, ..CompareRequest::default() });
        assert!(read_json("{\"thought\": 1}").is_err());
        assert!(read_json(&turn.replace("comparison_agent", "x")).unwrap().is_err());
    }

    #[test]
    fn searches() {
        let xml = |value: &str| {
            read_search_xml(&format!(
                "<tool_call>search\n<arg_key>search_query</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"
            ))
        };
        assert_eq!(xml(r#"[{"q": "a", "recency": null}, {"q": "b"}]"#).unwrap(), ["a", "b"]);
        assert!(xml("a").is_err());
        assert!(read_search_xml("a").is_err());
    }
}
