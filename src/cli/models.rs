//! `tribunal models`: the judge models' cards on the command line. Fetching and checking are done in `hub`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use serde_json::{Value, json};

use super::output::Printed;
use crate::{
    console::{args::bytes, table::Table, wrap},
    engine::{Need, Options, adapter::is_adapter},
    eval::models::{
        self,
        gpu_memory::{self, GpuMemory},
    },
    files,
    hub::{
        self, Card, Pin, SameBytes, Source, State,
        cache::hub_cache,
        check::{self, Checked, Finding},
        inspect,
        origin::Access,
        pull,
    },
    judges::probe::fit::Fit,
};

mod followed;

use followed::Followed;

/// Commands for the judge models.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List all cards, which models are on this machine, and what each takes of a GPU
    List {
        #[command(flatten)]
        printed: Printed,
        /// GPU memory that the models are compared with; default: what is free on the first GPU, or an 80 GB
        /// card's
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        device_memory: Option<u64>,
    },
    /// Fetch a model's files; resumes, checks every byte, and never leaves half a file in place
    Pull {
        /// A card's name, or `hf:OWNER/REPOSITORY[@REVISION][:QUANT]`
        card: String,
        /// Print no progress
        #[arg(long)]
        quiet: bool,
    },
    /// Hash a model's files again; exit code 1 if one is missing or not what it should be
    Verify {
        /// A card's name
        card: String,
        #[command(flatten)]
        printed: Printed,
    },
    /// Show everything a card says, or what a model file says about itself, and whether it fits a GPU
    Show {
        /// A card's name, a GGUF or safetensors file, a folder of them, or an adapter's folder
        #[arg(value_name = "CARD|PATH")]
        model: String,
        #[command(flatten)]
        printed: Printed,
        /// GPU memory that it is compared with; default: what is free on the first GPU, or an 80 GB card's
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        device_memory: Option<u64>,
    },
}

/// Runs `tribunal models`.
///
/// # Errors
/// The errors of [`hub`].
pub fn run(command: Command, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match command {
        Command::List { printed, device_memory } => list(printed, &GpuMemory::find(device_memory), out),
        Command::Pull { card, quiet } => pull(&card, quiet, out),
        Command::Verify { card, printed } => verify(&card, printed, out),
        Command::Show { model, printed, device_memory } => {
            show(&model, printed, &GpuMemory::find(device_memory), out)
        }
    }
}

fn list(printed: Printed, room: &GpuMemory, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    const HEAD: [&str; 7] = ["name", "weights", "size", "on a GPU", "licence", "sources", "state"];
    let home = hub::home::home()?;
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for card in hub::all()? {
        let sources: Vec<_> = card.sources.iter().map(kind).collect();
        let state = in_words(card.state_in(&home));
        let need = gpu_memory::of_card(&card);
        rows.push([
            card.name.clone(),
            card.parameters.clone(),
            size(&card),
            need.map_or("?".into(), |need| on_a_gpu(&need, room)),
            card.licence.name.clone(),
            sources.join(", "),
            state.into(),
        ]);
        all.push(json!({
            "name": card.name, "weights": card.parameters, "bytes": card.size(), "licence": card.licence.name,
            "gpu_bytes": need.map(|need| need.total()), "fits_gpu": need.map(|need| room.fits(&need, 1)),
            "sources": sources, "state": state,
        }));
    }
    let table = || Table::from_rows(HEAD, rows.clone());
    printed.print(
        out,
        || all,
        table,
        |out| Ok(write!(out, "{}", table().flush_left().fitted(wrap::stdout_columns()))?),
    )?;
    say!(
        "on a GPU: weights (bf16 but for GGUF files), one sequence of the full context and a step, in {}",
        room.in_words()
    );
    if let [default, others @ ..] = &Fit::models()[..] {
        say!(
            "the default is {default}; it and {} are read by `--method probe`, the others write their verdicts",
            others.join(" and ")
        );
    }
    say!("models are kept in {}", home.display());
    Ok(ExitCode::SUCCESS)
}

/// The size of the files to fetch; what it is by the number of weights where the card has none.
fn size(card: &Card) -> String {
    let about = || card.weight_bytes().map(|bytes| format!("~{}", files::size(bytes)));
    card.size().map(files::size).or_else(about).unwrap_or_else(|| "?".into())
}

fn on_a_gpu(need: &Need, room: &GpuMemory) -> String {
    let verdict = match need.context_in(room.bytes(), 1) {
        _ if room.fits(need, 1) => "",
        Some(_) => ", less context",
        None => ", too large",
    };
    format!("{}{verdict}", files::size(need.total() as u64))
}

fn kind(source: &Source) -> &'static str {
    match source {
        Source::Hub { .. } => "hub",
        Source::Packages { .. } => "packages",
    }
}

fn in_words(state: State) -> &'static str {
    match state {
        State::Absent => "-",
        State::Partial => "partial",
        State::Unchecked => "unchecked",
        State::Pulled => "pulled",
    }
}

fn pull(name: &str, quiet: bool, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let card = hub::find(name).map_err(|error| match models::of_hub(name) {
        hint if hint.is_empty() => error.into(),
        hint => anyhow::anyhow!("unknown model card `{name}`{hint}"),
    })?;
    let home = hub::home::home()?;
    let receipt = if quiet {
        pull::pull(&card, &home, &Access::from_env(), &mut ())?
    } else {
        if let Some(note) = &card.licence.note {
            say!("{}: {} ({})", card.licence.name, note, card.licence.url);
        }
        let mut followed = Followed::on_stderr();
        let receipt = pull::pull(&card, &home, &Access::from_env(), &mut followed)?;
        card.same_bytes(&receipt).iter().for_each(|same| say!("{}", bytes_of(same)));
        receipt
    };
    let pinned = |path: &str| card.files.iter().any(|f| f.path == path && f.sha256 != Pin::Unpinned);
    let folder = card.folder(&home);
    for file in &receipt.files {
        let note = if pinned(&file.path) { "" } else { " (unpinned: recorded as received)" };
        writeln!(out, "{}  {}{note}", file.sha256, folder.join(&file.path).display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The hub file whose bytes the packages hold, and how that is known.
fn bytes_of(same: &SameBytes) -> String {
    let SameBytes { repository, file, sha256, is_known } = same;
    let file = format!("`{file}` of the hub repository {repository}, sha256 {sha256}");
    if *is_known {
        format!("the packages hold the bytes of {file}; docs/models.md says how that was checked")
    } else {
        format!(
            "the packages were not compared with the hub: that they hold the bytes of {file} is not known"
        )
    }
}

fn verify(name: &str, printed: Printed, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let card = hub::find(name)?;
    let home = hub::home::home()?;
    let checked = check::verify(&card, &home, &mut |_| ())?;
    let findings: Vec<[String; 2]> = checked.iter().map(finding).collect();
    let file = |[finding, file]: &[String; 2]| json!({ "finding": finding, "file": file });
    let json = || findings.iter().map(file).collect::<Value>();
    printed.print(
        out,
        json,
        || Table::from_rows(["finding", "file"], findings.clone()),
        |out| Ok(findings.iter().try_for_each(|[finding, file]| writeln!(out, "{finding:<10}{file}"))?),
    )?;
    let is_good = checked.iter().all(|c| c.finding.is_good());
    if !is_good {
        say!("hint: `tribunal models pull {}` fetches what is missing or wrong", card.name);
    }
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// In a word, and the file with the rest.
fn finding(checked: &Checked) -> [String; 2] {
    let path = &checked.path;
    let (finding, file) = match &checked.finding {
        Finding::Ok => ("ok", path.clone()),
        Finding::AsPulled => ("ok", format!("{path} (unpinned: unchanged since it was pulled)")),
        Finding::Unknown { actual } => (
            "unknown",
            format!("{path} has {actual}, but neither the card nor a pull says what it should be"),
        ),
        Finding::Mismatch { expected, actual } => {
            ("mismatch", format!("{path} should be {expected} but is {actual}"))
        }
        Finding::Missing => ("missing", path.clone()),
    };
    [finding.into(), file]
}

/// Names and values, the same name several times where there are several values.
type Fields = Vec<(String, String)>;

fn show(model: &str, printed: Printed, room: &GpuMemory, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let path = PathBuf::from(model);
    let fields = match hub::find(model) {
        Ok(card) => of_card(&card, room)?,
        Err(_) if is_adapter(&path) => models::adapter::fields(&path)?,
        Err(_) if path.exists() => of_file(&path, room)?,
        Err(_) if path.is_absolute() || model.starts_with('.') => {
            anyhow::bail!("`{model}`: no such file or folder")
        }
        Err(error) => return Err(error.into()),
    };
    let field = |(name, value): &(String, String)| json!({ "field": name, "value": value });
    let json = || fields.iter().map(field).collect::<Value>();
    let table = || Table::from_rows(["field", "value"], fields.iter().map(|(name, value)| [name, value]));
    printed.print(out, json, table, |out| {
        Ok(write!(out, "{}", wrap::fields(&fields, wrap::stdout_columns()))?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn of_card(card: &Card, room: &GpuMemory) -> anyhow::Result<Fields> {
    let home = hub::home::home()?;
    let mut fields = Fields::new();
    let mut line = |key: &str, value: &str| fields.push((key.to_owned(), value.to_owned()));
    line("name", &card.name);
    line("title", &card.title);
    line("architecture", &card.architecture);
    line("weights", &format!("{} ({})", card.parameters, card.weights));
    line("languages", &card.languages);
    line("context", &format!("{} tokens", card.context));
    line("licence", &format!("{} {}", card.licence.name, card.licence.url));
    card.licence.note.iter().for_each(|note| line("note", note));
    if let Some(need) = gpu_memory::of_card(card) {
        line("on a GPU", &format!("{}; {}", gpu_memory::sum(&need), room.verdict(&need, 1)));
    }
    line("tokenizer", &card.tokenizer);
    line("template", &card.chat_template);
    card.chat_options.iter().for_each(|(key, value)| line("chat option", &format!("{key} = {value}")));
    line("stop", &card.stop.join(" "));
    for file in &card.files {
        let size = file.size.map_or(String::new(), |size| format!("  {size} bytes"));
        line("file", &format!("{}{size}  sha256 {}", file.path, pin(&file.sha256)));
    }
    if card.is_safetensors() {
        line("file", "the safetensors that the repository's index names  sha256 unpinned");
    }
    card.sources.iter().for_each(|source| line("source", &source.to_string()));
    line("folder", &card.folder(&home).display().to_string());
    line("state", in_words(card.state_in(&home)));
    match card.local_or_cached(&home, hub_cache().as_deref()) {
        Ok(local) => {
            if local.folder != card.folder(&home) {
                line("in the hub's cache", &local.folder.display().to_string());
            }
            let note = if local.is_pinned { "" } else { " (unpinned)" };
            line("fingerprint", &format!("{}{note}", local.fingerprint()));
            local.revision.iter().for_each(|commit| line("commit", commit));
        }
        Err(hub::Error::NotPulled { .. } | hub::Error::NotCached { .. }) => {}
        Err(error) => line("fingerprint", &error.to_string()),
    }
    Ok(fields)
}

fn pin(pin: &Pin) -> &str {
    pin.digits().unwrap_or("unpinned")
}

fn of_file(path: &Path, room: &GpuMemory) -> anyhow::Result<Fields> {
    let description = inspect::describe(path)?;
    let files = if path.is_dir() { vec![path.to_owned()] } else { description.files };
    let mut fields: Fields =
        files.iter().map(|file| ("file".to_owned(), file.display().to_string())).collect();
    fields.push(("format".to_owned(), description.format.to_owned()));
    fields.push(("size".to_owned(), files::size(description.size)));
    let tensors = description.tensors.iter();
    fields.extend(
        tensors.map(|(dtype, (n, weights))| (dtype.clone(), format!("{n} tensors, {weights} weights"))),
    );
    // Only the files of a model that runs here count.
    if let Ok(need) = Need::of(path, &Options::for_gpu(), false) {
        fields
            .push(("on a GPU".to_owned(), format!("{}; {}", gpu_memory::sum(&need), room.verdict(&need, 1))));
        let rounded = gpu_memory::rounded(&description.tensors);
        fields.extend(rounded.into_iter().map(|rounded| ("rounded".to_owned(), rounded)));
    }
    fields.extend(description.metadata);
    Ok(fields)
}
