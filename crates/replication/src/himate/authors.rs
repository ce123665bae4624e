//! HiMATE's published prompts, read from the user's copy of the authors' repository. The repository has no
//! licence, so its texts are not part of this program. Nothing is filled in or asked here.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

use tribunal_core::segment::Segment;
use tribunal_judges::{himate::N_SUBTYPES, setup};

/// The error for missing files, with the repository that has them.
fn not_at_hand(file: String) -> setup::Error {
    setup::Error::AuthorsPrompts {
        what: file,
        repository: "https://github.com/nlp2ct-shijie/HiMATE",
        folder: "HiMATE",
    }
}

/// The agents of `score_computation.py` in its order, their first-tier agents, and their paths in the
/// typology.
const AGENTS: [(&str, &str, &str); N_SUBTYPES] = [
    ("Addition", "Accuracy", "accuracy/addition"),
    ("Omission", "Accuracy", "accuracy/omission"),
    ("Mistranslation", "Accuracy", "accuracy/mistranslation"),
    ("Untranslated_text", "Accuracy", "accuracy/untranslated text"),
    ("Inappropriate_for_context", "Terminology", "terminology/inappropriate for context"),
    ("Inconsistent_use", "Terminology", "terminology/inconsistent use"),
    ("Punctuation", "Fluency", "fluency/punctuation"),
    ("Spelling", "Fluency", "fluency/spelling"),
    ("Grammar", "Fluency", "fluency/grammar"),
    ("Register", "Fluency", "fluency/register"),
    ("Inconsistency", "Fluency", "fluency/inconsistency"),
    ("Character_encoding", "Fluency", "fluency/character encoding"),
    ("Awkward", "Style", "style/awkward"),
    ("Address_format", "Locale_conventions", "locale convention/address format"),
    ("Currency_format", "Locale_conventions", "locale convention/currency format"),
    ("Date_format", "Locale_conventions", "locale convention/date format"),
    ("Name_format", "Locale_conventions", "locale convention/name format"),
    ("Telephone_format", "Locale_conventions", "locale convention/telephone format"),
    ("Time_format", "Locale_conventions", "locale convention/time format"),
];

/// The prompts of each language pair, by the name of its folder (`ende`, `zhen`).
pub struct Texts(BTreeMap<String, Pair>);

/// The texts of the four files of a language pair.
pub struct Pair {
    /// `description_SE.json`: the system prompt, the text after the definition, and the layout of an answer.
    pub evaluator: String,
    pub requirement: String,
    pub severity: String,
    pub format: String,
    /// `description_SRc.json`.
    pub corrector: String,
    pub correction_severity: String,
    pub correction_format: String,
    /// `description_SRv.json`.
    pub verifier: String,
    pub verification_format: String,
    /// `description_CD.json`: both system prompts, and the questions of the four rounds.
    pub tier1: String,
    pub tier2: String,
    pub discussion_severity: String,
    pub rounds: [String; 4],
    pub agents: Vec<Agent>,
}

/// One subtype, with its definition in each stage.
pub struct Agent {
    pub name: &'static str,
    pub path: &'static str,
    pub evaluated: String,
    pub examples: [String; 2],
    pub corrected: String,
    pub verified: String,
    pub discussed: String,
    /// The core type and its subtypes, as shown to its agent.
    pub core: String,
}

/// The folder of a segment's language pair.
pub fn folder_of(segment: &Segment) -> String {
    [&segment.src_lang, &segment.tgt_lang].map(|lang| lang.language().to_owned()).concat()
}

impl Texts {
    /// Reads the folder `prompts` of the authors' repository: the one in this folder, or this one.
    ///
    /// # Errors
    /// No folder, none with prompts, a file that is missing or lacks one of the texts.
    pub fn read(folder: Option<&Path>) -> setup::Result<Self> {
        let Some(folder) = folder else {
            let reason = "preset `code` of `himate` sends its authors' own prompts, which are published without a licence and \
                 so are not part of tribunal";
            return Err(not_at_hand(reason.into()));
        };
        let inner = folder.join("prompts");
        let folder = if inner.is_dir() { inner } else { folder.to_owned() };
        let pairs = pairs_in(&folder)?.into_iter().map(|pair| {
            let texts = Pair::read(&folder.join(&pair))?;
            Ok((pair, texts))
        });
        Ok(Self(pairs.collect::<setup::Result<_>>()?))
    }

    /// The prompts of a segment's language pair.
    pub fn of(&self, segment: &Segment) -> Option<&Pair> {
        self.0.get(&folder_of(segment))
    }

    /// The language pairs, as a list.
    pub fn known(&self) -> String {
        self.0.keys().map(|pair| format!("`{pair}`")).collect::<Vec<_>>().join(", ")
    }

    /// All texts, for the signature.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(name, pair)| std::iter::once(name.as_str()).chain(pair.all()))
    }
}

/// The names of the folders that hold a subtype evaluation, in order.
fn pairs_in(folder: &Path) -> setup::Result<Vec<String>> {
    let fault = |reason: String| {
        let at = folder.display();
        not_at_hand(format!("`{at}` has none of HiMATE's published prompts: {reason}"))
    };
    let entries = fs::read_dir(folder).map_err(|e| fault(e.to_string()))?;
    let has_prompts = |entry: &fs::DirEntry| entry.path().join(file(EVALUATION)).is_file();
    let mut pairs: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(has_prompts)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    pairs.sort();
    if pairs.is_empty() {
        return Err(fault(format!("no folder in it holds `{}`", file(EVALUATION))));
    }
    Ok(pairs)
}

const EVALUATION: &str = "SE";

fn file(stage: &str) -> String {
    format!("description_{stage}.json")
}

impl Pair {
    fn read(folder: &Path) -> setup::Result<Self> {
        let [evaluation, correction, verification, discussion] =
            [EVALUATION, "SRc", "SRv", "CD"].map(|stage| Described::open(&folder.join(file(stage))));
        let (evaluation, correction) = (evaluation?, correction?);
        let (verification, discussion) = (verification?, discussion?);
        let agent = |&(name, core, path): &(&'static str, &str, &'static str)| {
            Ok(Agent {
                name,
                path,
                evaluated: evaluation.text(name)?,
                examples: [
                    evaluation.text(&format!("{name}_example_1"))?,
                    evaluation.text(&format!("{name}_example_2"))?,
                ],
                corrected: correction.text(name)?,
                verified: verification.text(name)?,
                discussed: discussion.text(name)?,
                core: discussion.text(core)?,
            })
        };
        Ok(Self {
            evaluator: evaluation.text("system_prompt")?,
            // The authors' spelling.
            requirement: evaluation.text("answer_requirment_more_error_exist")?,
            severity: evaluation.text("error_severity")?,
            format: evaluation.text("reply_format")?,
            corrector: correction.text("system_prompt")?,
            correction_severity: correction.text("error_severity")?,
            correction_format: correction.text("reply_format")?,
            verifier: verification.text("system_prompt")?,
            verification_format: verification.text("reply_format")?,
            tier1: discussion.text("tier1_agent_system_prompt")?,
            tier2: discussion.text("tier2_agent_system_prompt")?,
            discussion_severity: discussion.text("error_severity")?,
            rounds: [
                discussion.text("tier1_agent_round1")?,
                discussion.text("tier2_agent_round1")?,
                discussion.text("tier1_agent_round2")?,
                discussion.text("tier2_agent_round2")?,
            ],
            agents: AGENTS.iter().map(agent).collect::<setup::Result<_>>()?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        let shared = [
            &self.evaluator,
            &self.requirement,
            &self.severity,
            &self.format,
            &self.corrector,
            &self.correction_severity,
            &self.correction_format,
            &self.verifier,
            &self.verification_format,
            &self.tier1,
            &self.tier2,
            &self.discussion_severity,
        ];
        let agents = self.agents.iter().flat_map(|agent| {
            let [first, second] = &agent.examples;
            [
                &agent.evaluated,
                first,
                second,
                &agent.corrected,
                &agent.verified,
                &agent.discussed,
                &agent.core,
            ]
        });
        shared.into_iter().chain(&self.rounds).chain(agents).map(String::as_str)
    }
}

/// A published file: a list of texts with their names.
struct Described {
    name: String,
    texts: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct PublishedText {
    description: String,
    content: String,
}

impl Described {
    fn open(path: &Path) -> setup::Result<Self> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|e| {
            not_at_hand(format!("cannot read `{name}`, one of HiMATE's published files: {e}"))
        })?;
        let entries: Vec<PublishedText> = serde_json::from_str(&text)
            .map_err(|e| setup::Error::Prompt { file: name.clone(), reason: e.to_string() })?;
        // Of two texts of one name the program takes the last.
        let texts = entries.into_iter().map(|entry| (entry.description, entry.content)).collect();
        Ok(Self { name, texts })
    }

    fn text(&self, name: &str) -> setup::Result<String> {
        self.texts.get(name).cloned().ok_or_else(|| setup::Error::Prompt {
            file: self.name.clone(),
            reason: format!("it has no text `{name}`"),
        })
    }
}
