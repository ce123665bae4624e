//! `tribunal ask`: one question, answered with ids, text and log-probabilities, for looking at a model or
//! checking the engine against another.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use super::{output::TextOrJson, selftest::UsedGpus};
use crate::{
    console::loading,
    engine::Engine,
    eval::{
        Invocation, ModelSpec, Resources, SamplingSpec,
        models::heads::{self, Head},
    },
    files,
    llm::{Chat, Finish, Llm, Message, Reply, ResponseFormat, Token},
};

/// Ask a model one question, in a given form.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The question; `-`, or nothing at all, reads it from standard input
    #[arg(value_name = "QUESTION", conflicts_with_all = ["raw", "chat"])]
    question: Option<String>,
    /// A text file that is the whole prompt: no chat template is applied, and control tokens in it take
    /// effect
    #[arg(long, value_name = "FILE", conflicts_with = "chat")]
    raw: Option<PathBuf>,
    /// A JSON file holding the conversation: `[{"role": "user", "content": "..."}, ...]`
    #[arg(long, value_name = "FILE.json")]
    chat: Option<PathBuf>,
    /// The form of the answer: json=FILE (a JSON schema), regex=FILE (a regular expression) or choice=FILE
    /// (one choice per line)
    #[arg(long, value_name = "KIND=FILE")]
    form: Option<String>,
    /// A text file to score as the continuation of the prompt, instead of generating one
    #[arg(long, value_name = "FILE")]
    continuation: Option<PathBuf>,
    /// How the answer is printed: text, or json (ids, tokens and log-probabilities, or the scores of a score
    /// head, on one line)
    #[command(flatten)]
    printed: TextOrJson,
    #[command(flatten)]
    model: ModelSpec,
    #[command(flatten)]
    sampling: SamplingSpec,
    #[command(flatten)]
    engine: Resources,
}

/// Runs `tribunal ask`.
///
/// # Errors
/// If a file cannot be read, the model cannot be opened, or the form cannot be compiled.
pub fn run(args: &Args, invocation: &Invocation, out: &mut dyn Write) -> Result<ExitCode> {
    let (chat, form) = (args.conversation()?, args.form()?);
    let mut resources = args.engine.clone();
    UsedGpus::find(&args.model, &resources).settle(&mut resources)?;
    let is_scored = args.check_head()?;
    let opened = loading::open(&args.model, &resources)?;
    let engine = opened.engine.until(&invocation.stop);
    if is_scored {
        return print_scores(&engine, &opened.full_name(), &chat, args.printed.is_json(), out);
    }
    let reply = match &args.continuation {
        Some(file) => weigh(&engine, &chat, &read(file)?)?,
        None => engine.ask(&chat, &form, &args.sampling.sampling())?,
    };
    if args.printed.is_json() {
        writeln!(out, "{}", record(&opened.full_name(), &reply))?;
    } else {
        writeln!(out, "{}", reply.text)?;
    }
    Ok(ExitCode::from(u8::from(reply.finish == Finish::Length)))
}

/// Prints the outputs of the score head after a chat, a line for each.
fn print_scores(
    engine: &Engine,
    model: &str,
    chat: &Chat,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let scored = engine.score(chat)?;
    let no_reading = || anyhow!("`{model}` returned no output of its score head");
    let scores = scored.reading.ok_or_else(no_reading)?.values.concat();
    if is_json {
        let prompt_ids = engine.prompt_ids(chat)?;
        let usage = scored.usage;
        writeln!(
            out,
            "{}",
            json!({
                "model": model,
                "prompt_tokens": prompt_ids,
                "scores": scores,
                "computed": usage.computed,
                "cached": usage.cached,
            })
        )?;
    } else {
        scores.iter().try_for_each(|score| writeln!(out, "{score}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A given continuation as a reply, so that both are printed alike.
fn weigh(engine: &Engine, chat: &Chat, text: &str) -> Result<Reply> {
    let scored = engine.score_continuations(chat, &[text.to_owned()])?.remove(0);
    let prompt_ids = engine.prompt_ids(chat)?;
    Ok(Reply { text: scored.text, tokens: scored.tokens, prompt_ids, ..Reply::default() })
}

fn record(model: &str, reply: &Reply) -> Value {
    let token = |token: &Token| {
        json!({
            "id": token.id,
            "text": token.text,
            "logprob": token.logprob,
            "masked_logprob": token.masked_logprob,
            "source": token.source,
        })
    };
    json!({
        "model": model,
        "prompt_tokens": reply.prompt_ids,
        "text": reply.text,
        "tokens": reply.tokens.iter().map(token).collect::<Vec<_>>(),
        "finish": reply.finish,
        "computed": reply.usage.computed,
        "cached": reply.usage.cached,
    })
}

fn read(path: &Path) -> Result<String> {
    files::text::read(path)
        .map_err(|error| anyhow!("cannot read `{}`: {}", path.display(), files::explain(path, &error)))
}

fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_str(&read(path)?).with_context(|| format!("`{}` is not JSON", path.display()))
}

impl Args {
    /// Returns true if the model scores the chat instead of answering it.
    fn check_head(&self) -> Result<bool> {
        let head = heads::head(&self.model.model);
        if let Some(Head::Metric(_)) = head {
            let model = &self.model.model;
            bail!(
                "`{model}` is a metric and answers no question\nhint: use it with `tribunal score --method comet`"
            );
        }
        let is_scored = matches!(head, Some(Head::Scores(_)));
        let options = [("continuation", self.continuation.is_some()), ("form", self.form.is_some())];
        if let Some((option, _)) = options.iter().find(|(_, is_set)| is_scored && *is_set) {
            bail!(
                "`{}` has a score head and answers no question\nhint: without `--{option}`, its scores are printed",
                self.model.model
            );
        }
        Ok(is_scored)
    }

    fn conversation(&self) -> Result<Chat> {
        if let Some(file) = &self.raw {
            return Ok(Chat::raw(read(file)?));
        }
        let Some(file) = &self.chat else { return Ok(Chat::new().user(self.question()?)) };
        let json = read_json(file)?;
        let turns = json.get("messages").or_else(|| json.get("turns")).unwrap_or(&json).clone();
        let turns: Vec<Message> = serde_json::from_value(turns)
            .with_context(|| format!("`{}` is not a list of {{\"role\", \"content\"}}", file.display()))?;
        Ok(Chat::from_messages(turns))
    }

    /// The question that was typed or piped in.
    fn question(&self) -> Result<String> {
        if let Some(question) = self.question.as_ref().filter(|question| *question != "-") {
            if question.trim().is_empty() {
                bail!("the question is empty\nhint: `tribunal ask \"...\"`, or `--chat FILE.json`");
            }
            return Ok(question.clone());
        }
        let mut stdin = std::io::stdin();
        if self.question.is_none() && stdin.is_terminal() {
            bail!(
                "there is no question\nhint: `tribunal ask \"...\"`, `--chat FILE.json`, `--raw FILE`, or a text on \
                 standard input"
            );
        }
        let mut bytes = Vec::new();
        stdin.read_to_end(&mut bytes).context("cannot read standard input")?;
        let text = files::text::of_bytes(bytes).context("cannot read standard input")?;
        if text.trim().is_empty() {
            bail!(
                "standard input is empty, so there is no question\nhint: `tribunal ask \"...\"`, or `--chat FILE.json`"
            );
        }
        Ok(text.trim_end().to_owned())
    }

    fn form(&self) -> Result<ResponseFormat> {
        let Some(form) = &self.form else { return Ok(ResponseFormat::Text) };
        let Some((kind, file)) = form.split_once('=').filter(|(_, file)| !file.is_empty()) else {
            bail!("`--form {form}` names no file\nhint: write `--form json=FILE`")
        };
        let file = Path::new(file);
        Ok(match kind {
            "json" => ResponseFormat::Json { schema: read_json(file)?, texts: BTreeMap::new() },
            "regex" => ResponseFormat::Regex(read(file)?.trim_end_matches('\n').to_owned()),
            "choice" => ResponseFormat::Choice(read(file)?.lines().map(str::to_owned).collect()),
            _ => bail!("`--form {form}` is not json=FILE, regex=FILE or choice=FILE"),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Ask {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_form_is_a_kind_and_a_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "\"yes\"\n").unwrap();
        let form = |kind: &str| {
            let form = format!("--form={kind}={}", dir.path().join("f").display());
            Ask::parse_from(["ask", "Who?", &form]).args.form().map_err(|error| error.to_string())
        };
        assert_eq!(form("regex"), Ok(ResponseFormat::Regex("\"yes\"".into())));
        assert_eq!(form("choice"), Ok(ResponseFormat::Choice(vec!["\"yes\"".into()])));
        let json = ResponseFormat::Json { schema: "yes".into(), texts: BTreeMap::new() };
        assert_eq!(form("json"), Ok(json));
        assert!(form("xml").unwrap_err().contains("is not json=FILE, regex=FILE or choice=FILE"));
        let no_file = Ask::parse_from(["ask", "Who?", "--form=json"]).args.form().unwrap_err().to_string();
        assert_eq!(no_file, "`--form json` names no file\nhint: write `--form json=FILE`");
    }
}
