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
    /// The models' folders in that of all models.
    pub staged: Vec<String>,
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
const TASK: &str = r#"finish() {
  kill -TERM "$child" 2>/dev/null || true
  wait "$child" || true
}
stop() { finish; exit 143; }
again() { finish; scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"; exit 143; }
trap stop TERM
trap again USR1

"${command[@]}" &
child=$!
code=0
wait "$child" || code=$?
# 1 says that some segments have no verdict, which the merged run tells; 2 and more are failures.
if [ "$code" -le 1 ]; then exit 0; fi
exit "$code"
"#;

/// Copies the run's models to the node once: the first task of a node does, the others wait. A copy appears
/// under its name when it is whole, so that a killed task leaves no partial model; where a stale lock
/// remains, the run reads the models from their original folder.
const STAGE: &str = r#"from=${TRIBUNAL_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tribunal}
files() { (cd "$1" && find . -type f -printf '%P %s\n' | sort); }
is_staged() { [ -d "$stage/$1" ] && cmp -s <(files "$from/$1") <(files "$stage/$1"); }
copy() {
  rm -rf "$stage/.new.$1".* || return
  new=$(mktemp -d "$stage/.new.$1.XXXXXX") || return
  cp -Rp "$from/$1/." "$new/" && rm -rf "${stage:?}/$1" && mv "$new" "$stage/$1"
}
stage_models() (
  mkdir -p "$stage" && [ -w "$stage" ] || return
  exec 9>"$stage/.lock.$(id -u)" && flock -w 1800 9 || return
  for model in "${models[@]}"; do is_staged "$model" || copy "$model" || return; done
)
if stage_models; then
  export TRIBUNAL_HOME=$stage
else
  echo "the models are not staged in $stage, and read from $from" >&2
fi
"#;

/// Prefix of an option that is the merge job's alone.
pub const OF_MERGE: &str = "merge:";

/// Options that choose nodes, or what of them a task with GPUs takes.
const OF_NODES: [&str; 14] = [
    "partition",
    "constraint",
    "gres",
    "gpus",
    "gpus-per-task",
    "gpu-bind",
    "gpu-freq",
    "nodelist",
    "exclude",
    "reservation",
    "qos",
    "cpus-per-gpu",
    "mem-per-gpu",
    "cpus-per-task",
];

impl Job {
    /// The script of the array.
    #[must_use]
    pub fn array(&self) -> String {
        let Self { shards, tasks, array, gpus_per_task, .. } = self;
        let own = array.sbatch.iter().filter(|option| !option.starts_with(OF_MERGE)).map(String::as_str);
        let mut text = self.head("shard", &array.time, own);
        let _ = writeln!(text, "#SBATCH --array=1-{shards}%{tasks}");
        let _ = writeln!(text, "#SBATCH --output={}", quoted_option(&self.dir.join("slurm/shard-%a.log")));
        // Two minutes before the time is up, the task gets a signal and is requeued.
        text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=B:USR1@120\n";
        if *gpus_per_task > 0 {
            let _ = writeln!(text, "#SBATCH --gpus-per-node={gpus_per_task}");
        }
        let _ = writeln!(text, "\nset -euo pipefail\ncd {}", quoted(&self.directory.display().to_string()));
        if let Some(stage) = array.stage.as_ref().filter(|_| !self.staged.is_empty()) {
            let models: Vec<String> = self.staged.iter().map(|folder| quoted(folder)).collect();
            let stage = quoted(&stage.display().to_string());
            let _ = writeln!(text, "\nstage={stage}\nmodels=({})", models.join(" "));
            text += STAGE;
        }
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
    #[must_use]
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
        let own: Vec<&str> =
            self.array.sbatch.iter().filter_map(|option| option.strip_prefix(OF_MERGE)).collect();
        let is_own = |wanted: &str| own.iter().any(|option| name(option) == wanted);
        let shared = self.array.sbatch.iter().map(String::as_str).filter(|option| {
            let name = name(option);
            let of_nodes = has_gpus && OF_NODES.contains(&name.as_str());
            !(option.starts_with(OF_MERGE) || is_own(&name) || of_nodes)
        });
        let shared: Vec<&str> = shared.collect();
        shared.into_iter().chain(own)
    }

    fn head<'a>(&self, what: &str, time: &str, options: impl Iterator<Item = &'a str>) -> String {
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        let mut text = format!(
            "#!/bin/bash\n#SBATCH --job-name={name}-{what}\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --time={time}\n"
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
            stage: Some("/scratch/models".into()),
            print: true,
        };
        Job {
            dir: "/data/wmt out".into(),
            program: "/opt/tribunal".into(),
            directory: "/work".into(),
            words: ["--method", "fsp:shots=0", "-s", "it's.txt"].map(str::to_owned).into(),
            staged: vec!["qwen2.5-7b-instruct".into()],
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

    /// Stages a folder of models as a task does; returns the printed paths of the models.
    fn staged(root: &std::path::Path, models: &str) -> String {
        let script = format!(
            "set -euo pipefail\nstage='{0}/stage'\nmodels=({models})\n{STAGE}\necho \"$TRIBUNAL_HOME\"",
            root.display()
        );
        let mut shell = std::process::Command::new("bash");
        let output = shell.args(["-c", &script]).env("TRIBUNAL_HOME", root.join("home")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text.trim().to_owned()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_models_of_a_run_are_staged_and_later_ones_too() {
        use std::fs;

        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for model in ["a", "b", "c"] {
            fs::create_dir_all(at("home").join(model)).unwrap();
            fs::write(at("home").join(model).join("model.gguf"), format!("weights of {model}")).unwrap();
        }
        let stage = at("stage").display().to_string();
        assert_eq!(staged(root.path(), "a"), stage);
        assert!(at("stage/a/model.gguf").exists() && !at("stage/b").exists() && !at("stage/c").exists());
        // What a killed task leaves: a lock file, a half of a copy, a model that lacks files.
        fs::create_dir_all(at("stage/.new.b.aBcDeF")).unwrap();
        fs::create_dir_all(at("stage/b")).unwrap();
        fs::write(at("stage/b/model.gguf"), "wei").unwrap();
        fs::write(at("stage/.lock"), "").unwrap();
        assert_eq!(staged(root.path(), "a b"), stage);
        assert_eq!(fs::read_to_string(at("stage/b/model.gguf")).unwrap(), "weights of b");
        assert!(!at("stage/.new.b.aBcDeF").exists() && !at("stage/c").exists());
        // A model that is not there, or a folder that cannot be made: read from where they are.
        assert_eq!(staged(root.path(), "d"), at("home").display().to_string());
        fs::remove_dir_all(at("stage")).unwrap();
        fs::write(at("stage"), "").unwrap();
        assert_eq!(staged(root.path(), "a"), at("home").display().to_string());
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
