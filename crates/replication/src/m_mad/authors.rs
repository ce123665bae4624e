//! M-MAD's published prompts and shots, read from the user's copy of the authors' repository. The repository
//! has no licence, so its texts are not part of this program. Nothing is filled in or asked here.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tribunal_core::files;
use tribunal_judges::{
    literals::SourceFile,
    m_mad::demos::{self, Demo, each},
    setup,
};

/// The error for missing files, with the repository that has them.
fn not_at_hand(file: String) -> setup::Error {
    setup::Error::AuthorsPrompts {
        what: file,
        repository: "https://github.com/SU-JIAYUAN/M-MAD",
        folder: "M-MAD/code",
    }
}

/// The agents' names in `stage1.json`, in the order of [`tribunal_judges::m_mad::annotation::DIMENSIONS`].
const AGENTS: [&str; 4] = ["accuracy_agent", "fluency_agent", "term_agent", "style_agent"];

/// A judge's two messages.
pub struct JudgeTexts {
    pub system: String,
    pub question: String,
}

/// The texts of `stage1.json` and `stage2_3.py`, with their placeholders.
pub struct Texts {
    /// Stage 1: the role of all agents, and the question to each.
    pub annotator: String,
    pub queries: [String; 4],
    /// The judge at the end of Stage 1.
    pub baseline: JudgeTexts,
    /// Stage 2: the roles of the debaters of each dimension, and the segment in their prompts.
    pub debaters: [String; 4],
    pub segment: String,
    /// The text to each side: words, the other's statement, words.
    pub heard: [String; 3],
    /// Side B's opening against a non-translation.
    pub denial: String,
    pub checker: String,
    /// The judge of Stage 3.
    pub judge: JudgeTexts,
}

/// The folder `code` of the authors' repository: this one, or the one in it.
pub fn folder(prompts: Option<&Path>) -> setup::Result<PathBuf> {
    let Some(dir) = prompts else {
        let reason = "preset `code` of `m-mad` sends its authors' own prompts, which are published without a licence and \
             so are not part of tribunal";
        return Err(not_at_hand(reason.into()));
    };
    Ok(Some(dir.join("code")).filter(|code| code.is_dir()).unwrap_or_else(|| dir.to_owned()))
}

impl Texts {
    /// Reads both files.
    ///
    /// # Errors
    /// A file that is missing, or that lacks one of the texts.
    pub fn read(folder: &Path) -> setup::Result<Self> {
        let stage1 = open(folder, "utils/stage1.json")?;
        let config: Value = serde_json::from_str(&stage1.text).map_err(|e| stage1.fault(&e.to_string()))?;
        let entry = |name: &str| {
            let text = config.get(name).and_then(Value::as_str);
            text.map(str::to_owned).ok_or_else(|| stage1.fault(&format!("it has no text `{name}`")))
        };
        let script = open(folder, "stage2_3.py")?;
        let debaters = script.list("system_prompts =")?;
        Ok(Self {
            annotator: entry("base_system_prompt")?,
            queries: each(AGENTS, entry)?,
            baseline: JudgeTexts { system: entry("judge_system_prompt")?, question: entry("judge_agent")? },
            debaters: debaters
                .try_into()
                .map_err(|_| script.fault("`system_prompts` does not have four texts"))?,
            segment: script.text("user_prompt =")?,
            heard: heard(&script)?,
            denial: script.text("other_annotation =")?,
            checker: script.text("\njudge_prompt =")?,
            judge: JudgeTexts {
                system: script.text("judge_system_prompt =")?,
                question: script.text("judge_agent =")?,
            },
        })
    }

    /// All texts, for the signature.
    pub fn all(&self) -> Vec<&str> {
        let mut all = vec![&self.annotator, &self.baseline.system, &self.baseline.question];
        all.extend(self.queries.iter().chain(&self.debaters).chain(&self.heard));
        all.extend([&self.segment, &self.denial, &self.checker, &self.judge.system, &self.judge.question]);
        all.into_iter().map(String::as_str).collect()
    }
}

/// The file of shots for sources in this language (`zh`, `he`), or the German one for all others.
pub fn demo_file(source_language: &str) -> &'static str {
    match source_language {
        "zh" => "few_shot_demos.py",
        "he" => "few_shot_demos_he.py",
        _ => "few_shot_demos_de.py",
    }
}

/// The shots of each agent in a file of the folder.
///
/// # Errors
/// A file that is missing, or that lacks the lists of an agent.
pub fn demos(folder: &Path, file: &str) -> setup::Result<[Vec<Demo>; 4]> {
    demos::read(&open(folder, file)?)
}

/// A published file.
fn open(folder: &Path, name: &str) -> setup::Result<SourceFile> {
    let path = folder.join(name);
    let text = files::text::read(&path).map_err(|e| {
        let at = path.display();
        not_at_hand(format!("cannot read `{at}`, one of M-MAD's published files: {e}"))
    })?;
    Ok(SourceFile { name: path.display().to_string(), text })
}

/// The result of `construct_message`: words, `"...{}...".format(statement)`, words.
fn heard(script: &SourceFile) -> setup::Result<[String; 3]> {
    let at = script.text.find("def construct_message").unwrap_or_default();
    let function = SourceFile { name: script.name.clone(), text: script.text[at..].to_owned() };
    Ok([function.text("prefix_string =")?, function.text(" response =")?, function.text("prefix_string +")?])
}
