//! M-MAD's published prompts and shots, read from the user's copy of the authors' repository. The repository
//! has no licence, so its texts are not part of this program. Nothing is filled in or asked here.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tribunal_core::files;

use crate::{code::literals, setup, shots::Shot};

/// The error for missing files, with the repository that has them.
fn not_at_hand(what: String) -> setup::Error {
    setup::Error::AuthorsPrompts {
        what,
        repository: "https://github.com/SU-JIAYUAN/M-MAD",
        folder: "M-MAD/code",
    }
}

/// The agents' names in `stage1.json`, in the order of [`super::super::annotation::DIMENSIONS`].
const AGENTS: [&str; 4] = ["accuracy_agent", "fluency_agent", "term_agent", "style_agent"];

/// The agents' names in `few_shot_demos*.py`.
const DEMOS: [&str; 4] = ["accuracy", "fluency", "term", "style"];

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

/// One worked example: in the agent's form, and its parts.
#[derive(Clone)]
pub struct Demo {
    pub user: String,
    pub answer: String,
    pub shot: Shot,
}

/// The folder `code` of the authors' repository: this one, or the one in it.
pub fn folder(prompts: Option<&Path>) -> Result<PathBuf, setup::Error> {
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
    pub fn read(folder: &Path) -> Result<Self, setup::Error> {
        let stage1 = Source::open(folder, "utils/stage1.json")?;
        let config: Value = serde_json::from_str(&stage1.text).map_err(|e| stage1.fault(&e.to_string()))?;
        let entry = |name: &str| {
            let text = config.get(name).and_then(Value::as_str);
            text.map(str::to_owned).ok_or_else(|| stage1.fault(&format!("it has no text `{name}`")))
        };
        let script = Source::open(folder, "stage2_3.py")?;
        let debaters = script.list("system_prompts =")?;
        Ok(Self {
            annotator: entry("base_system_prompt")?,
            queries: each(AGENTS, entry)?,
            baseline: JudgeTexts { system: entry("judge_system_prompt")?, question: entry("judge_agent")? },
            debaters: debaters
                .try_into()
                .map_err(|_| script.fault("`system_prompts` does not have four texts"))?,
            segment: script.text("user_prompt =")?,
            heard: script.heard()?,
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

/// The shots of each agent: three of its dimension, then a non-translation.
///
/// # Errors
/// A file that is missing, or that lacks the lists of an agent.
pub fn demos(folder: &Path, file: &str) -> Result<[Vec<Demo>; 4], setup::Error> {
    let source = Source::open(folder, file)?;
    source.demos()
}

/// The shots of each agent in a file's text.
///
/// # Errors
/// A text that lacks the lists of an agent.
pub fn demos_of(name: &str, text: &str) -> Result<[Vec<Demo>; 4], setup::Error> {
    Source { name: name.into(), text: text.into() }.demos()
}

/// A published file.
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn open(folder: &Path, name: &str) -> Result<Self, setup::Error> {
        let path = folder.join(name);
        let text = files::text::read(&path).map_err(|e| {
            let at = path.display();
            not_at_hand(format!("cannot read `{at}`, one of M-MAD's published files: {e}"))
        })?;
        Ok(Self { name: path.display().to_string(), text })
    }

    fn fault(&self, reason: &str) -> setup::Error {
        setup::Error::Prompt { file: self.name.clone(), reason: reason.into() }
    }

    fn value(&self, words: &str) -> Result<Value, setup::Error> {
        let name = words.trim().trim_end_matches('=').trim_end();
        literals::literal_after(&self.text, words)
            .ok_or_else(|| self.fault(&format!("it does not define `{name}`")))
    }

    fn text(&self, words: &str) -> Result<String, setup::Error> {
        match self.value(words)? {
            Value::String(text) => Ok(text),
            _ => Err(self.fault(&format!("`{}` is not a text", words.trim()))),
        }
    }

    fn list(&self, words: &str) -> Result<Vec<String>, setup::Error> {
        serde_json::from_value(self.value(words)?)
            .map_err(|e| self.fault(&format!("`{}`: {e}", words.trim())))
    }

    /// The result of `construct_message`: words, `"...{}...".format(statement)`, words.
    fn heard(&self) -> Result<[String; 3], setup::Error> {
        let at = self.text.find("def construct_message").unwrap_or_default();
        let function = Self { name: self.name.clone(), text: self.text[at..].to_owned() };
        Ok([
            function.text("prefix_string =")?,
            function.text(" response =")?,
            function.text("prefix_string +")?,
        ])
    }

    fn demos(&self) -> Result<[Vec<Demo>; 4], setup::Error> {
        let template = self.text("user_template =")?;
        let (closing, closing_answers) = self.pairs("nontran")?;
        let mut agents = each(DEMOS, |agent| {
            let (parts, answers) = self.pairs(agent)?;
            parts.iter().zip(&answers).map(|(parts, answer)| self.demo(&template, parts, answer)).collect()
        })?;
        for (agent, (parts, answer)) in agents.iter_mut().zip(closing.iter().zip(&closing_answers)) {
            let demos: &mut Vec<Demo> = agent;
            demos.push(self.demo(&template, parts, answer)?);
        }
        Ok(agents)
    }

    /// An agent's segments and answers.
    fn pairs(&self, agent: &str) -> Result<(Vec<Value>, Vec<String>), setup::Error> {
        let users = format!("{agent}_user_shot =");
        let Value::Array(parts) = self.value(&users)? else {
            return Err(self.fault(&format!("`{users}` is not a list")));
        };
        let answers = self.list(&format!("{agent}_mem_shot ="))?;
        if parts.len() != answers.len() {
            return Err(self.fault(&format!(
                "`{agent}` has {} segments and {} answers",
                parts.len(),
                answers.len()
            )));
        }
        Ok((parts, answers))
    }

    fn demo(&self, template: &str, parts: &Value, answer: &str) -> Result<Demo, setup::Error> {
        let part = |name: &str| {
            let text = parts.get(name).and_then(Value::as_str);
            text.ok_or_else(|| self.fault(&format!("a shot has no `{name}`")))
        };
        let names = ["src_lng", "source_segment", "tgt_lng", "target_segment"];
        let [source_lang, source, target_lang, target] = each(names, part)?;
        let values = names.into_iter().zip([source_lang, source, target_lang, target]).collect::<Vec<_>>();
        let shot = serde_json::from_value(json!({
            "source_lang": source_lang,
            "source": source,
            "target_lang": target_lang,
            "target": target,
            "errors": self.errors(answer)?,
        }));
        let shot = shot.map_err(|e| self.fault(&format!("the answer of a shot: {e}")))?;
        Ok(Demo { user: literals::format(template, &values), answer: answer.into(), shot })
    }

    /// The annotations of a shot's answer, with the field names of shots.
    fn errors(&self, answer: &str) -> Result<Vec<Value>, setup::Error> {
        let unread = |e: &dyn std::fmt::Display| self.fault(&format!("the answer of a shot: {e}"));
        let answer: Value = serde_json::from_str(answer).map_err(|e| unread(&e))?;
        let marked = answer["annotations"].as_array().ok_or_else(|| unread(&"it has no annotations"))?;
        let error = |m: &Value| json!({ "category": m["category"], "span": m["error_span"], "severity": m["severity"] });
        Ok(marked.iter().map(error).collect())
    }
}

/// Applies a function to each name; returns the results, or the first error.
fn each<'n, T, const N: usize>(
    names: [&'n str; N],
    read: impl Fn(&'n str) -> Result<T, setup::Error>,
) -> Result<[T; N], setup::Error> {
    let values = names.into_iter().map(read).collect::<Result<Vec<T>, _>>()?;
    Ok(values.try_into().unwrap_or_else(|_| unreachable!("one value for each name")))
}
