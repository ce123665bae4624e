//! Runs of the real program on the tiny models, with prompts that their contexts hold.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A prompt for a number, with little else.
const PROMPT: &str = "{{ source }}\n{{ target }}\nScore as JSON:\n";

/// A folder with prompts and an input of two systems, for `gemba-sqm`.
pub struct SmallRun {
    pub root: tempfile::TempDir,
    pub model: PathBuf,
    method: &'static str,
}

impl SmallRun {
    /// Documents of three segments, so many for each system.
    pub fn new(n_docs: usize) -> Self {
        Self::of("gemba-sqm", n_docs)
    }

    /// A run with a method that also weighs every score.
    pub fn scoring(n_docs: usize) -> Self {
        Self::of("gemba-sqm:score=expected", n_docs)
    }

    fn of(method: &'static str, n_docs: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let model = super::tiny("qwen2");
        let run = Self { root, model, method };
        let prompts = run.at("prompts/gemba_scales");
        fs::create_dir_all(&prompts).unwrap();
        fs::write(prompts.join("sqm.j2"), PROMPT).unwrap();
        run.write_input("input.jsonl", &["a", "b"], n_docs);
        run
    }

    /// Writes an input of these systems.
    pub fn write_input(&self, name: &str, systems: &[&str], n_docs: usize) {
        let mut lines = String::new();
        for system in systems {
            for seg in 0..3 * n_docs {
                let line = serde_json::json!({
                    "system": system, "doc": format!("d{}", seg / 3), "seg_id": seg,
                    "src_lang": "en", "tgt_lang": "de",
                    "source": format!("One {seg}"), "hypothesis": format!("Eins {system} {}", seg * 7 % 11),
                });
                lines.push_str(&line.to_string());
                lines.push('\n');
            }
        }
        fs::write(self.at(name), lines).unwrap();
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// `tribunal COMMAND`, in the folder.
    pub fn tribunal(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
        command.current_dir(self.root.path()).args(args);
        command.env("TRIBUNAL_HOME", self.at("home")).env_remove("TRIBUNAL_COMMIT");
        command
    }

    /// `tribunal score` into a folder, with more arguments.
    pub fn score(&self, out: &str, more: &[&str]) -> Command {
        let mut command = self.tribunal(&["score", "--input", "input.jsonl", "--out", out]);
        command.args(["--method", self.method, "--prompts", "prompts", "--max-tokens", "24"]);
        command.arg("--model").arg(&self.model).args(["--kv-cache", "8MiB", "--quiet"]);
        command.args(more);
        command
    }

    /// A run is verified, with the model and without, and repeated to the same bytes.
    pub fn holds(&self, out: &str) {
        for more in [&["--without-model"][..], &[]] {
            let (code, text) = said(self.tribunal(&[&["verify", out], more].concat()));
            assert!(code == 0 && text.contains("confirmed: nothing differs"), "{out} {more:?}: {text}");
        }
        let again = format!("{out}-again");
        let (code, text) = said(self.tribunal(&["rerun", out, "--out", &again]));
        assert!(code == 0 && text.contains("byte for byte"), "{out}: {text}");
        assert_eq!(self.run_json(out)["signature"], self.run_json(&again)["signature"]);
        let (code, text) = said(self.tribunal(&["verify", &again, "--without-model"]));
        assert_eq!(code, 0, "{again}: {text}");
    }

    pub fn run_json(&self, out: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(&format!("{out}/run.json"))).unwrap()
    }
}

/// Copies the plain files of a folder into a new one.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The exit code of a command, and its whole output.
pub fn said(mut command: Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (status.code().unwrap_or(-1), text)
}
