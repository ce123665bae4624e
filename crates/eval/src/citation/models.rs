//! Models of a cited run: their sizes, licences and papers, as the run folder and the card that it names have
//! them. No file of a model is read.

use serde_json::{Value, json};

use crate::{
    hub::{self, Card},
    judges::bibliography::{self, Entry},
    run::{RunFile, description::ModelFiles},
};

/// Papers of models by the beginning of their cards' names, the longest that fits first.
const PAPERS: [(&str, &str); 10] = [
    ("qwen2.5-coder-", "hui-etal-2024-qwen25-coder"),
    ("qwen2.5-", "yang-etal-2024-qwen25"),
    ("qwen3-", "yang-etal-2025-qwen3"),
    ("llama-3.1-", "grattafiori-etal-2024-llama"),
    ("multilingual-e5-", "wang-etal-2024-multilingual"),
    ("remedy-9b-", "tan-monz-2025-remedy"),
    ("wmt22-comet-da", "rei-etal-2022-comet"),
    ("wmt22-cometkiwi-da", "rei-etal-2022-cometkiwi"),
    ("wmt23-cometkiwi-da-xl", "rei-etal-2023-scaling"),
    ("xcomet-xl", "guerreiro-etal-2024-xcomet"),
];

/// A model of a run, with its card where the run had it from one.
pub struct CitedModel<'r> {
    pub files: &'r ModelFiles,
    card: Option<Card>,
}

impl<'r> CitedModel<'r> {
    /// All models of a run, in the order of its description.
    pub fn all(run: &'r RunFile) -> Vec<Self> {
        run.origin.models.iter().map(|files| Self { files, card: card(files) }).collect()
    }

    /// The paper that its card is known to come with.
    pub fn paper(&self) -> Option<Entry> {
        let name = &self.card.as_ref()?.name;
        let (_, key) = PAPERS.iter().find(|(beginning, _)| name.starts_with(beginning))?;
        bibliography::find(key)
    }

    /// Facts for the texts, as the run and the card state them.
    pub fn facts(&self) -> Value {
        let card = self.card.as_ref();
        let parameters = card.map(|card| card.parameters.as_str()).filter(|parameters| *parameters != "?");
        let licence = card.map(|card| format!("{} ({})", card.licence.name, card.licence.url));
        let paper = self.paper().map(|paper| paper.label());
        json!({ "files": self.files, "paper": paper, "parameters": parameters, "licence": licence })
    }

    /// The entry of its paper, or one for its files, with the key.
    pub fn entry(&self) -> (String, String) {
        if let Some(entry) = self.paper() {
            return (entry.key().into(), entry.text.into());
        }
        let ModelFiles { name, sha256, revision, sources, .. } = self.files;
        let key = name.replace(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c), "-");
        let of_hub = |source: &String| Some(source.strip_prefix("hub ")?.split(',').next()?.to_owned());
        let url = sources.iter().find_map(of_hub).map(|name| format!("https://huggingface.co/{name}"));
        let revision = revision.as_ref().map(|revision| format!("revision {revision}, ")).unwrap_or_default();
        let note = format!("{revision}SHA-256 of the weights {sha256}");
        let fields =
            [("title", Some(name)), ("key", Some(name)), ("url", url.as_ref()), ("note", Some(&note))];
        let fields = fields.into_iter().filter_map(|(field, value)| Some((field, escaped(value?))));
        let fields: String = fields.map(|(field, value)| format!("    {field} = {{{value}}},\n")).collect();
        (key.clone(), format!("@misc{{{key},\n{fields}}}"))
    }
}

/// The card that the command named, or the one whose pinned hash the weights have.
fn card(files: &ModelFiles) -> Option<Card> {
    let is_pinned = |card: &Card| card.files.iter().any(|file| file.sha256.digits() == Some(&files.sha256));
    let pins_other =
        |card: &Card| card.files.len() == 1 && card.files[0].sha256.digits().is_some() && !is_pinned(card);
    let named = hub::find(&files.given).ok().filter(|card| !pins_other(card));
    named.or_else(|| hub::all().ok()?.into_iter().find(is_pinned))
}

/// A recorded text as LaTeX prints it, without the characters that end a field.
pub fn escaped(text: &str) -> String {
    let plain = text.replace(['{', '}', '\\'], "").replace('_', "\\_").replace('%', "\\%");
    plain.replace('&', "\\&").replace('#', "\\#").replace('$', "\\$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cited(given: &str, sha256: &str, sources: &[&str]) -> RunFile {
        let files = ModelFiles {
            given: given.into(),
            name: given.rsplit('/').next().unwrap().into(),
            sha256: sha256.into(),
            revision: Some("abc".into()),
            sources: sources.iter().map(ToString::to_string).collect(),
            ..ModelFiles::default()
        };
        let mut run = RunFile::default();
        run.origin.models.push(files);
        run
    }

    #[test]
    fn a_model_is_cited_by_the_paper_of_its_card() {
        for (beginning, key) in PAPERS {
            assert!(bibliography::find(key).is_some(), "{key}");
            assert!(hub::all().unwrap().iter().any(|card| card.name.starts_with(beginning)), "{beginning}");
            let first = PAPERS.iter().find(|(other, _)| beginning.starts_with(other)).unwrap();
            assert_eq!(first.0, beginning, "a shorter beginning hides it");
        }
        let run = cited("qwen2.5-7b-instruct", "00", &[]);
        let [model] = &CitedModel::all(&run)[..] else { panic!() };
        assert_eq!(model.paper().unwrap().key(), "yang-etal-2024-qwen25");
        let facts = model.facts();
        assert_eq!((&facts["parameters"], &facts["paper"]), (&json!("7.61B"), &json!("Yang et al. 2024")));
        assert!(facts["licence"].as_str().unwrap().starts_with("Apache-2.0 (https://"), "{facts}");
    }

    #[test]
    fn other_weights_under_a_cards_name_are_not_the_cards() {
        let pin = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046";
        let run = cited("elsewhere/coder", pin, &[]);
        assert_eq!(CitedModel::all(&run)[0].facts()["parameters"], "1.54B");
        let run = cited("qwen2.5-coder-1.5b-instruct", "00", &["hub A/B_c, revision unpinned"]);
        let [model] = &CitedModel::all(&run)[..] else { panic!() };
        assert!(model.paper().is_none() && model.facts()["licence"].is_null());
        let (key, text) = model.entry();
        assert_eq!(key, "qwen2.5-coder-1.5b-instruct");
        assert!(text.contains("url = {https://huggingface.co/A/B\\_c},"), "{text}");
        assert!(text.contains("note = {revision abc, SHA-256 of the weights 00},"), "{text}");
        assert_eq!(escaped("a_b{\\x}%"), "a\\_bx\\%");
    }
}
