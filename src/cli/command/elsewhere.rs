//! Options of other programs, and their counterparts here. It parses nothing.

use clap::{Command, CommandFactory as _};

/// Options of other programs that people try, each with what does the same here.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["--target", "--targets", "--tgt", "--mt", "-i"], "translations are `-t FILE...`"),
    (&["--system"], "translations are `-t FILE...`, those of a test set `--systems A,B`"),
    (&["--src"], "the source text is `-s FILE`"),
    (&["--ref", "--refs"], "the reference is `-r FILE`"),
    (&["--lang", "--langs", "--language"], "the languages are `-l en-de`"),
    (&["-s"], "`tribunal score -s SOURCE.txt -t TRANSLATION.txt -l en-de` judges translations"),
    (&["--output", "--output-dir", "-o"], "the run folder is `--out DIR`"),
    (
        &["--only-system", "--score-only"],
        "`tribunal score` and `tribunal show` have `--only-system`; what `tribunal compare` prints is about systems alone",
    ),
    (&["--metric", "--metrics"], "a method is `--method NAME`; `tribunal methods list` names them"),
    (&["-m"], "a model is `--model NAME`, a method `--method NAME`"),
    // vLLM, SGLang, llama.cpp and transformers.
    (
        &["--max-model-len", "--max-seq-len", "--context-length", "--ctx-size", "--max-length"],
        "tribunal's is `--context N`",
    ),
    (&["--tensor-parallel-size", "--tp-size", "--tp"], "tribunal's is `--tensor-parallel N`"),
    (&["--pipeline-parallel-size"], "tribunal's is `--tensor-parallel N`"),
    (&["--data-parallel-size", "--dp-size", "--dp"], "tribunal's is `--device cuda:0,1`"),
    (
        &["--gpu-memory-utilization", "--mem-fraction-static"],
        "tribunal's is `--kv-cache SIZE`, such as `20GiB`; by default it takes what fits",
    ),
    (
        &["--quantization", "--load-in-4bit", "--load-in-8bit"],
        "the weights are quantized as their file is: `--model FILE.gguf`",
    ),
    (&["--torch-dtype", "--precision"], "tribunal's is `--dtype bf16|f16|f32`"),
    (&["--kv-cache-dtype"], "tribunal's is `--kv-dtype bf16|f16|f32`, for CPUs"),
    (&["--max-num-seqs", "--max-running-requests"], "tribunal's is `--batch N`"),
    (
        &["--max-num-batched-tokens", "--ubatch-size"],
        "the prompt tokens of a step follow the device; `--batch N` limits the sequences of a step",
    ),
    (&["--enable-prefix-caching"], "prefixes are cached by default; `--no-prefix-cache` turns it off"),
    (&["--no-enable-prefix-caching", "--disable-radix-cache"], "tribunal's is `--no-prefix-cache`"),
    (&["--enforce-eager", "--disable-cuda-graph"], "tribunal's is `--no-graphs`"),
    (
        &["--enable-lora", "--lora", "--lora-path", "--lora-modules", "--peft"],
        "tribunal's is `--adapter DIR`",
    ),
    (&["--max-new-tokens", "--n-predict"], "tribunal's is `--max-tokens N`"),
    (&["--temp"], "tribunal's is `--temperature T`"),
    (&["--num-return-sequences"], "tribunal's is `--samples N`"),
    (&["--n-gpu-layers", "-ngl"], "tribunal's is `--device cuda`, for all layers"),
    (&["--gpu"], "a GPU is chosen by `--device cuda`"),
    (&["--num-threads", "--threads-batch"], "tribunal's is `--threads N`"),
    (&["--model-path", "--model-name", "--model-name-or-path"], "tribunal's is `--model CARD|PATH`"),
    (&["--revision"], "a repository's revision stands in `--model hf:OWNER/NAME@REVISION`"),
    (
        &["--download-dir", "--model-storage-path", "--cache-dir"],
        "the variable `TRIBUNAL_HOME` names the folder of models",
    ),
    (&["--tokenizer"], "the tokenizer is the model's own"),
    (&["--trust-remote-code"], "no code that comes with a model is run"),
    (&["--host", "--port"], "there is no server: `tribunal score` judges in one process"),
    // Slurm.
    (&["--partition", "-p"], "tribunal's is `--sbatch partition=NAME`, with `tribunal slurm submit`"),
    (&["--account", "-A"], "tribunal's is `--sbatch account=NAME`, with `tribunal slurm submit`"),
    (&["--qos"], "tribunal's is `--sbatch qos=NAME`, with `tribunal slurm submit`"),
    (&["--constraint", "-C"], "tribunal's is `--sbatch constraint=NAME`, with `tribunal slurm submit`"),
    (&["--mem"], "tribunal's is `--sbatch mem=SIZE`, with `tribunal slurm submit`"),
    (&["--cpus-per-task"], "tribunal's is `--sbatch cpus-per-task=N`, with `tribunal slurm submit`"),
    (&["--mail-user"], "tribunal's is `--sbatch mail-user=ADDRESS`, with `tribunal slurm submit`"),
    (&["--gres", "--gpus-per-task"], "tribunal's is `--gpus-per-node G`, with `tribunal slurm submit`"),
    (&["--array"], "tribunal's is `--shards N`, with `tribunal slurm submit`"),
    (
        &["--ntasks", "--ntasks-per-node"],
        "tribunal's are `--nodes N --gpus-per-node G`, with `tribunal slurm submit`",
    ),
    // COMET.
    (&["--num-workers"], "tribunal's is `--threads N`"),
    (&["--seed-everything"], "tribunal's is `--seed N`"),
    (&["--sacrebleu-dataset", "-d"], "tribunal's is `--testset DIR -l en-de`"),
    // mt-metrics-eval and sacreBLEU.
    (&["--test-set"], "tribunal's is `--testset DIR`"),
    (&["--language-pairs"], "tribunal's is `-l LP[,LP]`"),
    (
        &["--matrix", "--matrix-corr", "--matrix-level"],
        "`tribunal meta --testset DIR -l LP` has the matrix of a task",
    ),
    (&["--corr", "--level"], "tribunal's is `--stat LEVEL:NAME`, such as `seg:acc-eq` or `sys:spa`"),
    (
        &["--paired-bs", "--paired-ar", "--paired-bs-n", "--paired-ar-n"],
        "`tribunal compare RUN` tests each pair of systems by bootstrap and by permutation; `--resamples N`",
    ),
    (&["--confidence"], "`tribunal compare RUN` has confidence intervals"),
];

/// The counterpart of another program's option.
pub fn ours(option: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(names, _)| names.contains(&option)).map(|(_, ours)| *ours)
}

/// Our commands that have an option of this name.
pub fn commands(option: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(long) = option.strip_prefix("--") {
        search(&crate::cli::Cli::command(), "tribunal", long, &mut found);
    }
    found
}

fn search(command: &Command, path: &str, long: &str, found: &mut Vec<String>) {
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        if inner.get_arguments().any(|arg| arg.get_long() == Some(long)) {
            found.push(format!("`{path}`"));
        }
        search(inner, &path, long, found);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The options that a sentence names.
    fn named(said: &str) -> impl Iterator<Item = &str> {
        let words = said.split(['`', ' ', '|', ';', ',']);
        words.filter_map(|word| word.strip_prefix("--")).filter(|word| !word.is_empty())
    }

    #[test]
    fn each_name_stands_once_and_is_answered_with_options_that_there_are() {
        let names: Vec<&str> = OPTIONS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for (_, said) in OPTIONS {
            for option in named(said) {
                assert!(!commands(&format!("--{option}")).is_empty(), "{said}: there is no `--{option}`");
            }
        }
    }
}
