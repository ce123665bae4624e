//! `tribunal methods`: what the judging methods are and which options they take. The methods describe themselves.

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use serde_json::{Value, json};

use super::{output::Printed, table::Table};
use crate::judges::{
    Method, Preset, Settings,
    method::Calls,
    registry::{self, METHODS},
};

/// The judging methods.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// All methods, one per line
    List(Printed),
    /// Everything about one method
    Show {
        /// A method's name, with options (`gemba-mqm:form=json`) where they change its prompts
        #[arg(value_name = "NAME[:option=value,...]")]
        name: String,
        /// Also print its prompts, schemas and shots, as they are under this preset
        #[arg(long)]
        prompts: bool,
        /// Whose prompts: paper, code or strict
        #[arg(long, default_value = "strict", requires = "prompts")]
        preset: Preset,
    },
}

/// Runs `tribunal methods`.
///
/// # Errors
/// If there is no such method.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    match &args.command {
        Command::List(printed) => {
            let mut table = Table::new();
            table.head(["method", "paper", "summary"]);
            for method in METHODS {
                table.row([method.name, method.citation, method.summary]);
            }
            if printed.is_json() {
                let all: Vec<Value> = METHODS.iter().map(|method| described(method)).collect();
                writeln!(out, "{:#}", Value::from(all))?;
                return Ok(ExitCode::SUCCESS);
            }
            if printed.rows(&table, out)? {
                return Ok(ExitCode::SUCCESS);
            }
            let width = METHODS.iter().map(|method| method.name.len()).max().unwrap_or(0);
            for method in METHODS {
                writeln!(out, "{:<width$}  {}", method.name, method.summary)?;
            }
        }
        Command::Show { name, prompts, preset } => {
            show(registry::find(name.split(':').next().unwrap_or(name))?, out)?;
            if *prompts {
                let settings = Settings { preset: *preset, ..Settings::default() };
                for file in registry::build(name, &settings)?.judge.materials().files {
                    writeln!(out, "\n=== {} ===\n{}", file.name, file.text.trim_end())?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A method for programs.
fn described(method: &Method) -> Value {
    let Calls { least, typical, most } = method.calls;
    let options: Vec<Value> = (method.options.iter())
        .map(|option| json!({ "name": option.name, "values": option.values, "meaning": option.meaning }))
        .collect();
    json!({
        "name": method.name, "summary": method.summary, "paper": method.citation,
        "calls": { "least": least, "typical": typical, "most": most }, "scale": method.scale,
        "roles": method.roles.iter().map(|role| role.name()).collect::<Vec<_>>(),
        "presets": method.presets.iter().map(|preset| preset.name()).collect::<Vec<_>>(),
        "granularities": method.granularities.iter().map(|g| g.name()).collect::<Vec<_>>(),
        "weights": method.weights, "options": options,
    })
}

fn show(method: &Method, out: &mut dyn Write) -> Result<()> {
    let Calls { least, typical, most } = method.calls;
    let calls =
        if least == most { least.to_string() } else { format!("{least} to {most}, typically {typical}") };
    writeln!(out, "{}: {}\n", method.name, method.summary)?;
    let names = |names: Vec<&str>| if names.is_empty() { "-".to_string() } else { names.join(", ") };
    for (label, value) in [
        ("paper", method.citation.to_string()),
        ("stages", names(method.stages.iter().map(|stage| stage.name()).collect())),
        ("roles", names(method.roles.iter().map(|role| role.name()).collect())),
        ("calls", calls),
        ("raw score", method.scale.to_string()),
        ("granularity", names(method.granularities.iter().map(|g| g.name()).collect())),
        ("presets", names(method.presets.iter().map(|p| p.name()).collect())),
        ("weights", method.weights.unwrap_or("-").to_string()),
    ] {
        writeln!(out, "{label:<12} {value}")?;
    }
    for (i, option) in method.options.iter().enumerate() {
        let label = if i == 0 { "options" } else { "" };
        writeln!(out, "{label:<12} {}={}  {}", option.name, option.values.join("|"), option.meaning)?;
    }
    Ok(())
}
