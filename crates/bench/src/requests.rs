//! The questions of a judge, recorded instead of answered, and files of them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Error, Result};
use crate::{
    files,
    judges::{Judge, Panel, Rehearsal, RehearsedQuestion, rehearse},
    llm::{Chat, ResponseFormat, Sampling},
    segment::Segment,
};

/// One question, in a form that can also be sent to other engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub id: String,
    /// The system and document that it is about; requests about one document share a long prefix.
    pub doc: String,
    pub chat: Chat,
    /// The answer's JSON schema; `None` asks for free text.
    #[serde(default)]
    pub schema: Option<serde_json::Value>,
    /// The texts that the schema's `substringOf` names.
    #[serde(default)]
    pub texts: BTreeMap<String, String>,
    pub max_tokens: usize,
    /// The prompt's token ids, for other engines. This engine tokenizes the prompt itself, so they may be
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_ids: Vec<u32>,
}

impl Request {
    /// The answer's form.
    pub fn form(&self) -> ResponseFormat {
        match &self.schema {
            Some(schema) => ResponseFormat::Json { schema: schema.clone(), texts: self.texts.clone() },
            None => ResponseFormat::Text,
        }
    }
}

/// The questions that a judge asks about each group whatever the answers are, in order. Forms other than JSON
/// become free text.
pub fn of_judge(judge: &Judge, groups: &[Vec<Segment>]) -> Vec<Request> {
    let panel = Panel::new(Arc::new(Rehearsal::default()), Sampling::default());
    let requests = groups.iter().flat_map(|group| {
        let doc = format!("{}/{}", group[0].system, group[0].doc);
        rehearse(judge, &panel, group, None).into_iter().map(move |question| request(&doc, question))
    });
    requests.enumerate().map(|(i, request)| Request { id: i.to_string(), ..request }).collect()
}

fn request(doc: &str, RehearsedQuestion { chat, form, max_tokens, .. }: RehearsedQuestion) -> Request {
    let (schema, texts) = match form {
        ResponseFormat::Json { schema, texts } => (Some(schema), texts),
        _ => (None, BTreeMap::new()),
    };
    Request { id: String::new(), doc: doc.into(), chat, schema, texts, max_tokens, prompt_ids: Vec::new() }
}

/// Reads requests, one JSON object per line.
///
/// # Errors
/// If the file cannot be read or a line is not a request.
pub fn read(path: &Path) -> Result<Vec<Request>> {
    let file = path.display().to_string();
    let open = |source| Error::File { file: file.clone(), source };
    let mut requests = Vec::new();
    for line in files::text::lines(path).map_err(open)? {
        let (number, line) = line.map_err(open)?;
        let wrong =
            |e: serde_json::Error| Error::Request { file: file.clone(), line: number, reason: e.to_string() };
        if !line.trim().is_empty() {
            requests.push(serde_json::from_str(&line).map_err(wrong)?);
        }
    }
    Ok(requests)
}

/// Writes requests, one JSON object per line.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, requests: &[Request]) -> Result<()> {
    let failed = |source| Error::File { file: path.display().to_string(), source };
    let written = files::write(path, |file| {
        requests.iter().try_for_each(|request| {
            serde_json::to_writer(&mut *file, request)?;
            file.write_all(b"\n")
        })
    });
    written.map_err(|error| failed(error.source))
}
