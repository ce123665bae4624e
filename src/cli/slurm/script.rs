//! The scripts of a job array. They are for people to read: what a task does stands there in plain commands.

use std::{fmt::Write as _, path::PathBuf};

use super::ArrayArgs;

/// An array and the job that merges it.
pub struct Job {
    /// The run's folder; absolute, and seen by all nodes.
    pub dir: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Directory of the command.
    pub directory: PathBuf,
    /// The arguments of `tribunal score`.
    pub words: Vec<String>,
    pub array: ArrayArgs,
    /// 0 gives each task a node's processors.
    pub gpus_per_task: usize,
    /// Tasks at the same time.
    pub tasks: usize,
    pub shards: usize,
}

/// Runs the task as a child, so that signals can be handled. Slurm's SIGTERM (preempted, requeued, cancelled)
/// ends the run between two lines; the task then is left to Slurm. SIGUSR1 announces that its time is nearly
/// up: it goes back into the queue, where it continues.
const TASK: &str = include_str!("task.sh");

/// Prefix of an option that is the merge job's alone.
pub const OF_MERGE: &str = "merge:";

/// Options that choose nodes, or what of them a task with GPUs takes.
const OF_NODES: &str = "partition constraint gres gpus gpus-per-task gpu-bind gpu-freq nodelist exclude reservation qos \
                        cpus-per-gpu mem-per-gpu cpus-per-task";

impl Job {
    /// The script of the array.
    pub fn array(&self) -> String {
        let Self { shards, tasks, array, gpus_per_task, .. } = self;
        let options = array.sbatch.iter().filter(|option| !option.starts_with(OF_MERGE)).map(String::as_str);
        let mut text = self.head("shard", &array.time, options);
        let _ = writeln!(text, "#SBATCH --array=1-{shards}%{tasks}");
        let _ = writeln!(text, "#SBATCH --output={}", quoted_option(&self.dir.join("slurm/shard-%a.log")));
        // Two minutes before the time is up, the task gets a signal and is requeued.
        text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=B:USR1@120\n";
        if *gpus_per_task > 0 {
            let _ = writeln!(text, "#SBATCH --gpus-per-node={gpus_per_task}");
        }
        let _ = writeln!(text, "\nset -euo pipefail\ncd {}", quoted(&self.directory.display().to_string()));
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        let _ = writeln!(
            text,
            "\ncommand=({} score {}\n  --shard \"$SLURM_ARRAY_TASK_ID/{shards}\" --out {}/\"$SLURM_ARRAY_TASK_ID\")\n",
            quoted(&self.program.display().to_string()),
            words.join(" "),
            quoted(&self.dir.join("shards").display().to_string())
        );
        text + TASK
    }

    /// The script of the job that merges.
    pub fn merge(&self) -> String {
        let mut text = self.head("merge", "60", self.of_merge());
        let _ = writeln!(text, "#SBATCH --output={}", quoted_option(&self.dir.join("slurm/merge.log")));
        let shards = quoted(&self.dir.join("shards").display().to_string());
        let _ = write!(
            text,
            "\nset -euo pipefail\ncode=0\n{} merge {shards}/* --out {} || code=$?\n\
             # 1 says that some segments have no verdict.\nif [ \"$code\" -le 1 ]; then exit 0; fi\nexit \"$code\"\n",
            quoted(&self.program.display().to_string()),
            quoted(&self.dir.join("merged").display().to_string())
        );
        text
    }

    /// The options of the job that merges: those that are its own, and of the others those that choose no GPU
    /// nodes.
    fn of_merge(&self) -> impl Iterator<Item = &str> {
        let has_gpus = self.gpus_per_task > 0;
        let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let options: Vec<&str> =
            self.array.sbatch.iter().filter_map(|option| option.strip_prefix(OF_MERGE)).collect();
        let is_own = |option_name: &str| options.iter().any(|option| name(option) == option_name);
        let shared = self.array.sbatch.iter().map(String::as_str).filter(|option| {
            let name = name(option);
            let of_nodes = has_gpus && OF_NODES.split(' ').any(|of_nodes| of_nodes == name);
            !(option.starts_with(OF_MERGE) || is_own(&name) || of_nodes)
        });
        let shared: Vec<&str> = shared.collect();
        shared.into_iter().chain(options)
    }

    fn head<'a>(&self, kind: &str, time: &str, options: impl Iterator<Item = &'a str>) -> String {
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        let mut text = format!(
            "#!/bin/bash\n#SBATCH --job-name={name}-{kind}\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --time={time}\n"
        );
        for option in options {
            let _ = writeln!(text, "#SBATCH --{option}");
        }
        text
    }
}

/// A word as the shell reads it back.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A path in an `#SBATCH` line, where only double quotes count.
fn quoted_option(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    if text.contains(' ') { format!("\"{text}\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let array = ArrayArgs {
            nodes: 2,
            gpus_per_node: 4,
            time: "4:00:00".into(),
            shards: None,
            sbatch: ["partition=gpu", "cpus-per-task=8", "mem=32G", "account=mt", "merge:partition=cpu"]
                .map(str::to_owned)
                .into(),
        };
        Job {
            dir: "/data/wmt out".into(),
            program: "/opt/tribunal".into(),
            directory: "/work".into(),
            words: ["--method", "fsp:shots=0", "-s", "it's.txt"].map(str::to_owned).into(),
            array,
            gpus_per_task: 1,
            tasks: 8,
            shards: 16,
        }
    }

    #[test]
    fn scripts_are_readable() {
        insta::assert_snapshot!("slurm_array", job().array());
        insta::assert_snapshot!("slurm_merge", job().merge());
    }

    #[test]
    fn a_job_without_gpus_merges_where_it_was_made() {
        let merge = Job { gpus_per_task: 0, ..job() }.merge();
        assert!(merge.contains("--cpus-per-task=8") && merge.contains("--partition=cpu"), "{merge}");
        assert!(!merge.contains("--partition=gpu"), "{merge}");
    }

    #[test]
    fn words_come_back_from_the_shell() {
        for word in ["a b", "it's", "$HOME", "", "`id`", "fsp:shots=0"] {
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
