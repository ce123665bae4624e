//! `tribunal slurm`: a run as a job array, and its progress. The scripts are written to be read and changed;
//! each task of the array runs an ordinary `tribunal score` of one shard.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{self, ExitCode},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{command::without, output::Printed, score};
use crate::{console::args, eval::Invocation, files, run::Shard};

mod check;
mod script;
mod status;

use check::Needs;
use script::Job;
pub(super) use script::quoted;

/// Run on a Slurm cluster.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Submit a run as a job array, and a job that merges its shards
    Submit(Box<SubmitArgs>),
    /// Show the shards of a submitted run: how far they are, how fast, what is missing
    Status {
        /// The folder that was given as `--out`
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        printed: Printed,
    },
}

/// Options of the array; all other arguments are those of `tribunal score`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("dry_run", |arg| arg.help("Print the scripts and submit nothing").help_heading("Slurm")))]
pub struct SubmitArgs {
    #[command(flatten)]
    score: score::Args,
    #[command(flatten)]
    array: ArrayArgs,
}

/// The resources of the array and its tasks.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Slurm")]
pub struct ArrayArgs {
    /// How many nodes work at the same time
    #[arg(long, value_name = "N", value_parser = args::positive)]
    pub nodes: usize,
    /// GPUs of each node, as many for each task as `--tensor-parallel`; 0 gives each task a node's processors
    #[arg(long, default_value_t = 0, value_name = "G")]
    pub gpus_per_node: usize,
    /// The time limit of a task, as Slurm writes it: `4:00:00`; a task that reaches it goes on in a new one
    #[arg(long, value_name = "T")]
    pub time: String,
    /// Parts of the run; more than tasks, so that a slow node does not hold up the rest. Default: twice the
    /// tasks
    #[arg(long, value_name = "N", value_parser = args::positive)]
    pub shards: Option<usize>,
    /// An option for `sbatch`, such as `partition=gpu`, `mem=32G`; may be repeated. Those that choose GPU
    /// nodes are not the merge job's, which `merge:partition=cpu` gives its own
    #[arg(long, value_name = "NAME=VALUE", value_parser = sbatch_option)]
    pub sbatch: Vec<String>,
}

/// The options of [`ArrayArgs`] and those that are for submitting alone or that the scripts set themselves.
const OWN: [&str; 8] =
    ["--nodes", "--gpus-per-node", "--time", "--shards", "--sbatch", "--device-memory", "--out", "--shard"];

/// The submitted jobs: `slurm/jobs.json` in the run's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub array: String,
    pub merge: String,
    pub shards: usize,
}

/// The file of [`Submitted`].
const JOBS: &str = "slurm/jobs.json";

/// Runs `tribunal slurm`.
///
/// # Errors
/// Arguments that make no array, folders that cannot be written, jobs that Slurm rejects.
pub fn run(command: &Command, invocation: &Invocation, out: &mut dyn Write) -> Result<ExitCode> {
    match command {
        Command::Submit(args) => submit(args, invocation, out),
        Command::Status { dir, printed } => status::run(dir, *printed, out),
    }
}

fn submit(args: &SubmitArgs, invocation: &Invocation, out: &mut dyn Write) -> Result<ExitCode> {
    let (job, unchecked) = job(args, invocation)?;
    if args.score.run.dry_run {
        say_unchecked(&job, unchecked);
        write!(out, "{}\n{}", job.array(), job.merge())?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_new = !job.dir.exists();
    let submitted = send(&job);
    if submitted.is_err() && is_new {
        // A folder with nothing but scripts would be taken for a run.
        let _ = fs::remove_dir_all(&job.dir);
    }
    let submitted = submitted?;
    writeln!(
        out,
        "array job {}: {} shards, {} at a time\nmerge job {}: starts when all are done\nprogress: tribunal slurm status {}",
        submitted.array,
        job.shards,
        job.tasks,
        submitted.merge,
        job.dir.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the scripts and hands them to Slurm.
fn send(job: &Job) -> Result<Submitted> {
    for name in ["slurm", "shards"] {
        let folder = job.dir.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    }
    let write = |name: &str, text: &str| -> Result<PathBuf> {
        let path = job.dir.join(name);
        files::replace(&path, |file| file.write_all(text.as_bytes()))?;
        Ok(path)
    };
    let array = sbatch(&[], &write("slurm/array.sh", &job.array())?)?;
    // What waits for a task that cannot succeed any more would wait for ever.
    let waits = [format!("--dependency=afterok:{array}"), "--kill-on-invalid-dep=yes".into()];
    let merge = sbatch(&waits, &write("slurm/merge.sh", &job.merge())?)?;
    let submitted = Submitted { array, merge, shards: job.shards };
    write(JOBS, &(serde_json::to_string_pretty(&submitted)? + "\n"))?;
    Ok(submitted)
}

/// Lists what was not checked: where there is no Slurm, its rules and the paths on its nodes too.
fn say_unchecked(job: &Job, mut unchecked: Vec<String>) {
    let rules = "Slurm's rules: partitions, limits and accounts";
    if is_in_path("sbatch") {
        unchecked.push(format!("{rules} (`sbatch --test-only FILE` checks a script)"));
    } else {
        let (program, directory) = (job.program.display(), job.directory.display());
        unchecked.push(format!("{rules}, since there is no `sbatch` here"));
        unchecked.push(format!("the nodes' files: they need `{program}`, and `{directory}` with the input"));
    }
    say!("not checked here:\n- {}", unchecked.join("\n- "));
}

fn is_in_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// The job of a command, and what could not be checked of it.
fn job(args: &SubmitArgs, invocation: &Invocation) -> Result<(Job, Vec<String>)> {
    let array = &args.array;
    let Some(folder) = &args.score.spec.output.folder else {
        bail!("`tribunal slurm submit` needs `--out DIR`, a folder that all nodes see");
    };
    if args.score.spec.output.shard.is_some() {
        bail!(
            "`--shard` cannot be combined with a job array, which sets the shards itself\nhint: `--shards N` says how many"
        );
    }
    let dir = std::path::absolute(folder)?;
    check(array, &dir)?;
    let needs = check::needs(&args.score, array.gpus_per_node)?;
    if let Some(note) = &needs.note {
        say!("note: {note}");
    }
    let gpus_per_task = needs.tensor_parallel;
    if !array.gpus_per_node.is_multiple_of(gpus_per_task) || gpus_per_task > array.gpus_per_node.max(1) {
        bail!(
            "`--gpus-per-node {}` cannot be shared out to tasks with `--tensor-parallel {gpus_per_task}`\nhint: a multiple of it",
            array.gpus_per_node
        );
    }
    let Some(tasks) = array.nodes.checked_mul((array.gpus_per_node / gpus_per_task).max(1)) else {
        bail!("`--nodes {}` with `--gpus-per-node {}` is too many", array.nodes, array.gpus_per_node);
    };
    let shards = array.shards.unwrap_or_else(|| tasks.saturating_mul(2));
    if format!("1/{shards}").parse::<Shard>().is_err() {
        bail!("`--shards {shards}` is too many");
    }
    let program = std::env::current_exe().context("cannot find out where this program is")?;
    let job = Job {
        dir,
        program,
        directory: std::env::current_dir()?,
        words: score_words(&invocation.command, &needs),
        array: array.clone(),
        gpus_per_task: if array.gpus_per_node > 0 { gpus_per_task } else { 0 },
        tasks: tasks.min(shards),
        shards,
    };
    Ok((job, needs.unchecked))
}

/// The words of the command that belong to `tribunal score`.
fn score_words(words: &[String], needs: &Needs) -> Vec<String> {
    let following = words.iter().skip_while(|word| *word != "submit").skip(1);
    let mut words = without(following, &OWN, &["--dry-run"]);
    if needs.note.is_some() {
        words.extend(["--tensor-parallel".to_owned(), needs.tensor_parallel.to_string()]);
    }
    words
}

/// Refuses what would not stay on its line of the script, or would mean something else to Slurm there.
fn check(array: &ArrayArgs, dir: &Path) -> Result<()> {
    if !is_time(&array.time) {
        bail!(
            "`--time {:?}` is not a time limit\nhint: write minutes, `HH:MM:SS` or `D-HH:MM:SS`",
            array.time
        );
    }
    // Slurm replaces `%a` in it, and reads quotes and backslashes; there is no way to write them that all
    // versions read.
    match dir.to_str() {
        Some(text) if !text.chars().any(|c| c.is_control() || "\"'\\%".contains(c)) => Ok(()),
        _ => bail!(
            "`--out {:?}` cannot stand in a script for Slurm\nhint: choose a path without quotes, backslashes, `%` and \
             control characters",
            dir.to_string_lossy()
        ),
    }
}

/// An option of `sbatch` that stays on its line of the script, and means nothing else there.
fn sbatch_option(option: &str) -> Result<String, String> {
    let text = option.strip_prefix(script::OF_MERGE).unwrap_or(option);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_value = |c: char| c.is_ascii_alphanumeric() || "-_.,:@+=/".contains(c);
    let found = text.split_once('=').filter(|(name, value)| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(is_name)
            && value.starts_with(|c: char| c.is_ascii_alphanumeric() || "_/".contains(c))
            && value.chars().all(is_value)
    });
    match found {
        Some((name, _)) if SET.split(' ').any(|set| set == name) => {
            Err(format!("the script sets `{name}` itself"))
        }
        Some(_) => Ok(option.to_owned()),
        None => Err("write NAME=VALUE, as in `mem=32G`; letters, digits and `-_.,:@+=/` make a value".into()),
    }
}

/// Options of `sbatch` that the scripts set.
const SET: &str = "array dependency gpus-per-node job-name kill-on-invalid-dep nodes ntasks open-mode output parsable requeue \
                   signal time wrap";

/// Returns true if Slurm reads this as a time: it would also read it as an option of the script.
fn is_time(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '-')
}

/// Submits a script and returns the job's number.
fn sbatch(options: &[String], path: &Path) -> Result<String> {
    let output = process::Command::new("sbatch").arg("--parsable").args(options).arg(path).output();
    let output = output.context(
        "cannot start `sbatch`\nhint: submit from a login node of the cluster, or add `--dry-run`",
    )?;
    if !output.status.success() {
        bail!("`sbatch` refused `{}`: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    // With several clusters, the cluster's name follows.
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ok(stdout.trim().split(';').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_array_are_taken_out() {
        let typed = "tribunal slurm submit --nodes 2 --method fsp --time=1:00:00 -s a.txt --gpus_per_node 4 --out x \
                     --dry-run -t b.txt c.txt -l en-de";
        let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        let said = |needs: &Needs| score_words(&words, needs).join(" ");
        assert_eq!(said(&Needs::default()), "--method fsp -s a.txt -t b.txt c.txt -l en-de");
        let two = Needs { tensor_parallel: 2, note: Some("too large".into()), ..Needs::default() };
        assert!(said(&two).ends_with("-l en-de --tensor-parallel 2"));
    }

    fn array() -> ArrayArgs {
        ArrayArgs { nodes: 2, gpus_per_node: 4, time: "4:00:00".into(), shards: None, sbatch: Vec::new() }
    }

    #[test]
    fn what_would_not_stay_on_its_line_is_refused() {
        let plain = Path::new("/data/wmt out");
        check(&array(), plain).unwrap();
        let refused = |array: &ArrayArgs, dir: &str| check(array, Path::new(dir)).unwrap_err().to_string();
        for right in
            ["mem=32G", "partition=gpu,gpu-2", "account=mt_eval.2", "gres=gpu:a100:2", "merge:partition=cpu"]
        {
            assert_eq!(sbatch_option(right).as_deref(), Ok(right));
        }
        for wrong in [
            "",
            "mem",
            "=1",
            "mem=",
            "mem=1G\n#SBATCH --exclusive",
            "mem=1 G",
            "mem=$(id)",
            "partition=gpu --exclusive",
            "partition=-x",
            "account=a\"b",
            "account=a#b",
            "account=a%b",
            "account=a\u{85}b",
            "-mem=1G",
            "me m=1G",
            "array=1-9",
            "time=9",
        ] {
            assert!(sbatch_option(wrong).is_err(), "{wrong}");
        }
        for wrong in ["/a\nrm -rf x", "/a\"b", "/a'b", "/a%b", "/a\\b", "/a\u{85}b", "/a\rb"] {
            let error = refused(&array(), wrong);
            assert!(error.contains("cannot stand in a script") && !error.contains('\r'), "{error}");
        }
    }

    #[test]
    fn times() {
        for right in ["90", "1:00:00", "2-00:00:00"] {
            assert!(is_time(right), "{right}");
        }
        for wrong in ["", "soon", "1:00\n#SBATCH --exclusive", "1 h"] {
            assert!(!is_time(wrong), "{wrong}");
        }
    }
}
