//! `tribunal methods`: the judging methods and their options. The methods describe themselves.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Error, Result, anyhow};
use serde_json::{Value, json};

use super::output::Printed;
use crate::{
    console::{table::Table, wrap},
    eval,
    judges::{
        Method, Preset, Settings,
        method::{Calls, Output},
        method_file,
        prompt::InForce,
        registry::{self, METHODS},
        setup, small_models,
    },
};

mod create;

/// The judging methods.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// All methods, one per line
    List(Printed),
    /// Everything about one method
    Show {
        /// A method's name, or its file or folder, with options (`gemba-mqm:form=json`) where they change its
        /// prompts
        #[arg(value_name = "NAME|PATH[:option=value,...]")]
        name: String,
        /// Also print its prompts, schemas and shots, as they are under this preset
        #[arg(long)]
        prompts: bool,
        /// Whose prompts: paper, code or strict
        #[arg(long, default_value = "strict", requires = "prompts")]
        preset: Preset,
        #[command(flatten)]
        printed: Printed,
    },
    /// Create a folder with an example method to edit (five criteria, 1 to 5 each)
    New {
        /// The new folder; the method is named after it
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Advice for choosing a method; `docs/methods.md` has the figures.
const WHICH: &str = "Which one? Without a GPU, `probe` for en-de, en-ru and zh-en, and the smaller and faster `qe` \
                     for other pairs; neither explains its marks. Methods marked (*) generate answers and were \
                     published with far larger models. Figures: docs/methods.md#which-judge";

/// Runs `tribunal methods`.
///
/// # Errors
/// If there is no such method.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<ExitCode> {
    match command {
        Command::List(printed) => {
            let json = || METHODS.iter().copied().map(described).collect::<Value>();
            let rows = METHODS.iter().map(|method| [method.name, method.citation, method.summary]);
            printed.print(
                out,
                json,
                || Table::from_rows(["method", "paper", "summary"], rows),
                |out| {
                    let generates = |method: &Method<'_>| method.output == Output::Text;
                    let mark = |method: &Method<'_>| if generates(method) { " (*)" } else { "" };
                    let row =
                        |method: &&Method<'static>| (method.name, method.summary.to_owned() + mark(method));
                    let rows: Vec<_> = METHODS.iter().map(row).collect();
                    let width = wrap::stdout_columns();
                    write!(out, "{}", wrap::fields(&rows, width))?;
                    let small = format!("(*) with small models: {}", small_models::measured());
                    let lines =
                        [WHICH, &small].map(|text| wrap::broken(text, width.unwrap_or(100)).join("\n"));
                    Ok(writeln!(out, "\n{}", lines.join("\n"))?)
                },
            )?;
        }
        Command::Show { name, prompts, preset, printed } => {
            let settings = Settings { preset: *preset, ..Settings::default() };
            let is_file = method_file::request(name).is_some();
            match eval::build(name, &settings) {
                Ok(built) => {
                    let mut method = built.method();
                    if is_file || name.contains(':') {
                        method.calls = built.calls();
                    }
                    let files = &built.judge.provenance.files[..];
                    show(&method, if *prompts { files } else { &[] }, *printed, out)?;
                }
                Err(error) if is_file || *prompts => return Err(unshown(name, *preset, error)),
                // Without the files that it needs, the calls of its options are unknown.
                Err(_) => show(registry::find(name.split(':').next().unwrap_or(name))?, &[], *printed, out)?,
            }
        }
        Command::New { folder } => {
            create::create(folder)?;
            writeln!(out, "{}", folder.join(method_file::FILE).display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The reason why a method or its prompts cannot be shown.
fn unshown(name: &str, preset: Preset, error: setup::Error) -> Error {
    match error {
        setup::Error::AuthorsPrompts { repository, folder, .. } => anyhow!(
            "the prompts of `{name}` in preset `{preset}` are files of its authors, which are no part of this program\n\
             hint: they are in `{folder}` of {repository}"
        ),
        error => error.into(),
    }
}

/// A method for programs.
fn described(method: &Method<'_>) -> Value {
    let Calls { least, typical, most } = method.calls;
    let options: Vec<Value> = (method.all_options().iter())
        .map(|option| json!({ "name": option.name, "values": option.values, "meaning": option.meaning }))
        .collect();
    json!({
        "name": method.name, "summary": method.summary, "paper": method.citation,
        "calls": { "least": least, "typical": typical, "most": most }, "scale": method.scales(),
        "roles": method.roles.iter().map(|role| role.name()).collect::<Vec<_>>(),
        "presets": method.presets.iter().map(|preset| preset.name()).collect::<Vec<_>>(),
        "granularities": method.granularities.iter().map(|g| g.name()).collect::<Vec<_>>(),
        "weights": method.weights, "misses": method.blind_spots, "marks": method.marks, "measured": method.measured,
        "small_models": small_models::statement(method), "options": options,
    })
}

fn show(method: &Method<'_>, files: &[InForce], printed: Printed, out: &mut dyn Write) -> Result<()> {
    let json = || {
        let mut method = described(method);
        if !files.is_empty() {
            let prompt = |file: &InForce| json!({ "name": file.name, "text": file.text });
            method["prompts"] = files.iter().map(prompt).collect();
        }
        method
    };
    let table = || {
        let options = method.all_options();
        let options = options.iter().map(|o| (o.name, format!("{}: {}", o.values.join("|"), o.meaning)));
        let prompts = files.iter().map(|file| (&*file.name, file.text.clone()));
        let all = rows(method).into_iter().chain(options).chain(prompts);
        Table::from_rows(["field", "value"], all.map(|(field, value)| [field.to_owned(), value]))
    };
    printed.print(out, json, table, |out| text(method, files, out))
}

fn text(method: &Method<'_>, files: &[InForce], out: &mut dyn Write) -> Result<()> {
    let width = wrap::stdout_columns();
    let wrapped = |text: String| width.map_or_else(|| text.clone(), |width| wrap::message(&text, width));
    writeln!(out, "{}\n", wrapped(format!("{}: {}", method.name, method.summary)))?;
    write!(out, "{}", wrap::fields(&rows(method), width))?;
    let options = method.all_options();
    if !options.is_empty() {
        writeln!(out, "\noptions")?;
    }
    for option in options {
        let line = match option.values {
            many if many.len() > 4 => {
                format!("  {}=NAME  {}: {}", option.name, option.meaning, many.join(", "))
            }
            few => format!("  {}={}  {}", option.name, few.join("|"), option.meaning),
        };
        writeln!(out, "{}", wrapped(line))?;
    }
    for file in files {
        writeln!(out, "\n=== {} ===\n{}", file.name, file.text.trim_end())?;
    }
    Ok(())
}

/// Metadata of a method beside its name and summary, for `methods show`.
fn rows(method: &Method<'_>) -> Vec<(&'static str, String)> {
    let Calls { least, typical, most } = method.calls;
    let calls =
        if least == most { least.to_string() } else { format!("{least} to {most}, typically {typical}") };
    let names = |names: Vec<&str>| if names.is_empty() { "-".to_string() } else { names.join(", ") };
    let mut rows = vec![
        ("paper", method.citation.to_string()),
        ("stages", names(method.stages.iter().map(|stage| stage.name()).collect())),
        ("roles", names(method.roles.iter().map(|role| role.name()).collect())),
        ("calls", calls),
        ("scale", method.scales()),
        ("granularity", names(method.granularities.iter().map(|g| g.name()).collect())),
        ("presets", names(method.presets.iter().map(|p| p.name()).collect())),
        ("weights", method.weights.unwrap_or("-").to_string()),
    ];
    rows.extend(method.marks.map(|marks| ("marks", marks.to_string())));
    rows.extend(method.measured.map(|measured| ("measured", measured.to_string())));
    rows.extend(small_models::statement(method).map(|statement| ("small models", statement)));
    rows.extend(method.blind_spots.map(|caution| ("caution", caution.to_string())));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_is_shown_or_said_to_be_elsewhere() {
        let with_prompts = METHODS.iter().filter(|method| method.output != Output::Estimate);
        for (method, preset) in
            with_prompts.flat_map(|method| method.presets.iter().map(move |p| (method, *p)))
        {
            match eval::build(method.name, &Settings { preset, ..Settings::default() }) {
                Ok(built) => assert!(!built.judge.provenance.files.is_empty(), "{} {preset}", method.name),
                Err(error) => {
                    let error = unshown(method.name, preset, error).to_string();
                    assert!(error.contains("hint: they are in `"), "{error}");
                }
            }
        }
        let paper = Settings { preset: Preset::Paper, ..Settings::default() };
        let gmicl = eval::build("gmicl", &paper).unwrap().judge.provenance.files;
        assert!(gmicl[0].text.contains("{% for shot in shots -%}"), "the place of the examples");
    }
}
