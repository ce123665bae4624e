//! `tribunal rerun`: repeats a run from its folder, and compares the bytes of the results.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};

use super::{again, output::Printed, progress::ProgressMode, score};
use crate::{
    eval::{
        Evaluation, Invocation, ModelLoader,
        recorded::{Changes, Recorded},
    },
    files,
    report::Detail,
    run::{Shard, finish::VERDICTS},
    signature::Signature,
};

/// Repeat a run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The folder of the run to repeat
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The folder for the new run
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// No progress and no notes; warnings are still printed
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub printed: Printed,
    #[command(flatten)]
    pub changes: Changes,
}

/// Runs `tribunal rerun`: exit code 0 for the same verdicts, 1 for others.
///
/// # Errors
/// A folder without a run, an input or a model that cannot be read, and whatever keeps a run from being made.
pub fn run(args: &Args, invocation: &Invocation, load: ModelLoader, out: &mut dyn Write) -> Result<ExitCode> {
    let Recorded { run, mut spec, original, input } = again::read(&args.dir, &args.changes)?;
    if same_folder(args) {
        bail!("`--out` is the folder of the run itself\nhint: choose another one, to compare with it");
    }
    spec.output.folder = Some(args.out.clone());
    spec.output.shard = run.shard.parse::<Shard>().ok().filter(|shard| *shard != Shard::WHOLE);
    let place = std::path::absolute(&args.out).with_context(|| format!("`{}`", args.out.display()))?;
    // The new folder describes the repeated run, so that it can be verified and repeated in its turn.
    let progress = if args.quiet { ProgressMode::Off } else { ProgressMode::default() }.progress();
    let invocation = Invocation {
        command: again::command(&run, &original, &spec, &place),
        directory: run.directory.clone(),
        typed: run.origin.materials.iter().map(|m| (m.flag.clone(), m.given.clone())).collect(),
        progress,
        ..invocation.clone()
    };
    let outcome = score::judge(&mut Evaluation::from_input(spec, input)?, &invocation, load, args.quiet)?;
    score::print(&outcome, args.printed, Detail::Systems, out)?;
    let original = files::read_own_to_string(&args.dir.join(VERDICTS));
    let repeated = files::read_own_to_string(&args.out.join(VERDICTS))?;
    let Ok(original) = original else {
        say!("the first run is not finished, so there is nothing to compare with");
        return Ok(score::code(&outcome));
    };
    if original == repeated {
        say!("the verdicts are those of `{}`, byte for byte", args.dir.display());
        return Ok(ExitCode::SUCCESS);
    }
    let same = original.lines().zip(repeated.lines()).take_while(|(a, b)| a == b).count();
    let dir = args.dir.display();
    say!(
        "the verdicts differ from those of `{dir}`, first on line {} of `{VERDICTS}`\n{}",
        same + 1,
        reason(&args.dir, &run.signature, &outcome.summary.signature.parse()?)
    );
    Ok(ExitCode::from(1))
}

/// Possible reason for other verdicts: the fields of the signature that differ, or else a way to find out.
fn reason(dir: &Path, original: &Signature, present: &Signature) -> String {
    let differences = present.differences(original);
    if differences.is_empty() {
        return format!("hint: `tribunal verify {}` says why", dir.display());
    }
    let lines = differences.iter().map(|difference| format!("\n  {difference}"));
    format!("the signatures differ:{}", lines.collect::<String>())
}

fn same_folder(args: &Args) -> bool {
    let place = |path: &PathBuf| std::fs::canonicalize(path).ok();
    place(&args.dir).is_some_and(|dir| Some(dir) == place(&args.out))
}
