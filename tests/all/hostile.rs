//! Files and options that mean no good: each of these once ended in a panic, a hang, or memory without bound.

use std::{fs, path::Path, time::Instant};

use candle_core::quantized::{
    QTensor,
    gguf_file::{self, Value},
};
use tribunal::{
    engine::{
        Engine, Options,
        chat::ChatTemplate,
        tokenizer::{GgufVocab, Tokenizer},
    },
    evidence,
    hub::inspect,
    llm::Chat,
    model::Weights,
    segment::read,
};

use crate::fakes::{SmallRun, copy_folder, gguf, said, tiny};

#[test]
fn safetensors_files_and_folders_are_shown() {
    let shown = inspect::describe(&tiny("qwen2/model.safetensors")).unwrap();
    assert_eq!((shown.format, shown.size), ("safetensors", 283_480));
    assert!(shown.tensors["F32"].0 > 20);
    let folder = inspect::describe(&tiny("mistral-sharded")).unwrap();
    assert_eq!(folder.tensors["F32"], inspect::describe(&tiny("mistral")).unwrap().tensors["F32"]);
    let dir = tempfile::tempdir().unwrap();
    let huge = dir.path().join("huge.safetensors");
    fs::write(&huge, [u64::from(u32::MAX).to_le_bytes().as_slice(), b"{}"].concat()).unwrap();
    assert!(inspect::describe(&huge).unwrap_err().to_string().contains("neither with `GGUF` nor"));
}

fn refused(template: &str) -> String {
    let template = ChatTemplate::with_tokens(template, "", "").and_then(|t| t.render(&Chat::new().user("x")));
    template.unwrap_err().to_string()
}

#[test]
fn a_template_ends_whatever_it_does() {
    let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    assert!(refused(loops).contains("fuel"), "{}", refused(loops));
    let recursion = "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}";
    assert!(refused(recursion).contains("recursion"), "{}", refused(recursion));
    let prints = "{% set s = 'x' * 100000 %}{% for a in range(9999) %}{{ s }}{% endfor %}";
    assert!(refused(prints).contains("makes more than"), "{}", refused(prints));
    assert!(refused(&"x".repeat(2 << 20)).contains("it has 2097152 bytes"));
    let wide = "{{ messages | tojson(indent=100000000) }}";
    assert!(refused(wide).contains("too wide"), "{}", refused(wide));
    let deep = format!("{{{{ 1{} }}}}", " + 1".repeat(100_000));
    assert!(refused(&deep).contains("a tag of more than"), "{}", refused(&deep));
    for grows in [
        "{{ '%999999999999d' | format(1) }}",
        "{{ 'a\nb' | indent(10**12) }}",
        "{{ [1] | batch(10**15, 'x') | list }}",
        "{{ strftime_now('%B' * 9999) }}",
    ] {
        let error = refused(grows);
        assert!(error.contains("more than"), "{grows}: {error}");
    }
}

#[test]
fn templates_grow_nowhere() {
    let grows = "{% for i in range(10000) %}{{ 'x' * 10000 }}{% endfor %}";
    let small = SmallRun::new(1);
    fs::write(small.at("grows.jinja"), grows).unwrap();
    let (code, text) = said(small.score("out", &["--chat-template", "grows.jinja"]));
    assert!(code != 0 && text.contains("makes more than"), "{text}");
    let grown = damaged(set(
        "tokenizer.chat_template",
        Value::String(format!("{{{{ {}1 }}}}", "1 + ".repeat(100_000))),
    ));
    assert!(grown.contains("a tag of more than"), "{grown}");
    fs::write(small.at("prompts/gemba_scales/sqm.j2"), grows).unwrap();
    let (code, text) = said(small.score("prompted", &[]));
    assert!(code != 0 && text.contains("makes more than"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_that_is_too_low_is_a_message() {
    let small = SmallRun::new(1);
    let mut program =
        small.tribunal(&["score", "--method", "gemba-sqm", "--input", "input.jsonl", "--out", "out"]);
    program.args([
        "--prompts",
        "prompts",
        "--kv-cache",
        "64GiB",
        "--context",
        "1000000",
        "--batch",
        "4096",
        "--model",
    ]);
    let model = small.root.path().join("long");
    copy_folder(Path::new(&small.model), &model);
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let mut config: serde_json::Value = config.parse().unwrap();
    config["max_position_embeddings"] = 1_000_000.into();
    fs::write(model.join("config.json"), config.to_string()).unwrap();
    program.arg(&model);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\""]).arg(program.get_program());
    command.args(program.get_args()).current_dir(small.root.path()).env("TRIBUNAL_HOME", small.at("home"));
    let (code, text) = said(command);
    assert!(code == 2 && text.contains("(`ulimit -v`)\nhint: raise the limit"), "{code}: {text}");
}

#[test]
fn pages_of_thousands_of_systems_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let line = |i: usize| {
        serde_json::json!({
            "system": format!("s{}", i % 3000), "doc": "d", "seg": i / 3000, "src_lang": "en", "tgt_lang": "de",
            "source": "a", "hypothesis": "b", "score": -((i % 7) as f64), "raw": 0.0, "direction": "higher",
            "quality_score": null, "errors": [], "status": "ok", "reason": null, "n_calls": 1,
        })
    };
    let path = dir.path().join("verdicts.jsonl");
    let lines: Vec<String> = (0..6000).map(|i| line(i).to_string()).collect();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let small = SmallRun::new(1);
    let mut command = small.tribunal(&["report", "--resamples", "10"]);
    command.arg(&path).args(["--out", "page.html"]);
    let (code, text) = said(command);
    assert!(code == 0 && text.contains("verdicts on 3000 systems, which are not tested"), "{text}");
    let size = fs::metadata(small.at("page.html")).unwrap().len();
    assert!(size < 2 << 20, "{size} bytes");
}

#[test]
fn prompts_that_never_end_are_refused() {
    let small = SmallRun::new(1);
    let prompt = small.at("prompts/gemba_scales/sqm.j2");
    fs::write(&prompt, "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}")
        .unwrap();
    let (code, text) = said(small.score("out", &[]));
    assert!(code == 2 && text.contains("fuel"), "{text}");
    #[cfg(unix)]
    {
        fs::remove_file(&prompt).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &prompt).unwrap();
        let (code, text) = said(small.score("out", &[]));
        assert!(code == 2 && text.contains("not a plain file"), "{text}");
    }
}

/// The message for a GGUF file whose header was changed by this.
fn damaged(change: impl Fn(&mut Vec<(String, Value)>)) -> String {
    damaged_with(change, None)
}

/// The message for such a file with one more tensor.
fn damaged_with(change: impl Fn(&mut Vec<(String, Value)>), more: Option<&(&str, QTensor)>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    gguf(&path, candle_core::quantized::GgmlDType::F32);
    let mut file = fs::File::open(&path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    let tensors: Vec<_> = content
        .tensor_infos
        .keys()
        .map(|name| (name.clone(), content.tensor(&mut file, name, &candle_core::Device::Cpu).unwrap()))
        .collect();
    let mut metadata: Vec<(String, Value)> = content.metadata.into_iter().collect();
    change(&mut metadata);
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let tensors: Vec<_> = named.chain(more.as_ref().map(|(name, tensor)| (*name, tensor))).collect();
    gguf_file::write(&mut fs::File::create(&path).unwrap(), &metadata, &tensors).unwrap();
    let options = Options { kv_bytes: Some(4 << 20), context: Some(64), ..Options::default() };
    Engine::open(&path, &options).map(drop).unwrap_err().to_string()
}

fn set(key: &'static str, value: Value) -> impl Fn(&mut Vec<(String, Value)>) {
    move |metadata| {
        metadata.retain(|(name, _)| name != key);
        metadata.push((key.to_owned(), value.clone()));
    }
}

#[test]
fn damaged_model_files_are_errors_and_not_panics() {
    let zero = damaged(set("general.alignment", Value::U32(0)));
    assert!(zero.contains("its header is damaged"), "{zero}");
    let layers = damaged(set("llama.block_count", Value::U64(u64::MAX / 2)));
    assert!(layers.contains("a number from 1 to 1024 was expected"), "{layers}");
    let few = candle_core::Tensor::new(&[1.0_f32, 2.0], &candle_core::Device::Cpu).unwrap();
    let few = QTensor::quantize(&few, candle_core::quantized::GgmlDType::F32).unwrap();
    let short = damaged_with(|_| {}, Some(&("rope_freqs.weight", few)));
    assert!(short.contains("rope_freqs.weight") && short.contains("has 2 values"), "{short}");
    let long = "x".repeat(1 << 20);
    let token = damaged(|metadata| {
        let tokens = metadata.iter_mut().find(|(name, _)| name == "tokenizer.ggml.tokens").unwrap();
        let Value::Array(items) = &mut tokens.1 else { unreachable!() };
        items[3] = Value::String(long.clone());
    });
    assert!(token.contains("a token has `1048576` bytes"), "{token}");
}

#[test]
fn layers_without_end_in_a_config_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy_folder(&tiny("qwen2"), dir.path());
    let config = dir.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 99999999999"))
        .unwrap();
    let error = Weights::open(dir.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains("num_hidden_layers") && error.contains("from 1 to 1024"), "{error}");
}

#[test]
fn hostile_vocabularies_are_refused() {
    let json = fs::read(tiny("qwen2/tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    json["model"]["vocab"]["~"] = u32::MAX.into();
    let text = json.to_string();
    let last = Tokenizer::from_json(text.as_bytes(), None, None).map(drop).unwrap_err().to_string();
    assert!(last.contains("its largest id is 4294967295"), "{last}");
    let vocab = |tokens: &[&str]| GgufVocab {
        model: "gpt2".into(),
        pre: "qwen2".into(),
        tokens: tokens.iter().map(|t| (*t).to_owned()).collect(),
        token_types: vec![1, 3],
        ..GgufVocab::default()
    };
    let empty = Tokenizer::from_gguf(&vocab(&["a", ""]), None).map(drop).unwrap_err().to_string();
    assert!(empty.contains("the control token `1` has no text"), "{empty}");
    assert!(Tokenizer::from_gguf(&vocab(&["a", "<|b|>"]), None).is_ok());
}

#[cfg(unix)]
#[test]
fn evidence_is_read_from_plain_files_only_and_a_failed_build_blocks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("input"), dir.path().join("index"));
    fs::create_dir_all(input.join("below")).unwrap();
    std::os::unix::fs::symlink(&input, input.join("below/loop")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", input.join("endless.txt")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(input.join("pipe.txt")).status().unwrap().success());
    let error = evidence::build(&input, &out).unwrap_err().to_string();
    assert!(error.contains("holds no text"), "{error}");
    assert!(
        evidence::build(Path::new("/dev/zero"), &out).unwrap_err().to_string().contains("not a plain file")
    );
    // A build that was killed leaves its mark and parts of an index.
    fs::write(out.join(".building"), "").unwrap();
    fs::write(out.join("part.store"), "half").unwrap();
    fs::write(input.join("a.txt"), "The Shetland pony is a pony.\n").unwrap();
    evidence::build(&input, &out).unwrap();
    assert_eq!(evidence::Index::open(&out).unwrap().search("pony", usize::MAX).unwrap().len(), 1);
    assert!(matches!(evidence::build(&input, &out), Err(evidence::Error::NotEmpty(_))));
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_none_or(|name| name == "evidence.json") {
            continue;
        }
        let whole = fs::read(&path).unwrap();
        for cut in [0, whole.len() / 2] {
            fs::write(&path, &whole[..cut]).unwrap();
            // An error or fewer hits, never a panic.
            let _ = evidence::Index::open(&out).and_then(|index| index.search("pony", 5));
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn many_documents_are_read_in_a_line_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let time = |n: usize| {
        let path = dir.path().join(format!("{n}.jsonl"));
        let line = |i: usize| {
            format!(
                "{{\"system\":\"s{}\",\"doc\":\"d{i}\",\"src_lang\":\"en\",\"tgt_lang\":\"de\",\"source\":\"a\",\"target\":\"b\"}}\n",
                i % 100
            )
        };
        fs::write(&path, (0..n).map(line).collect::<String>()).unwrap();
        let start = Instant::now();
        assert_eq!(read::table(&path, None).unwrap().segments.len(), n);
        start.elapsed().as_secs_f64()
    };
    time(1000);
    // Quadratic time would be 256 times as long; the machine may be busy.
    let (few, many) = (time(2000), time(32_000));
    assert!(many < 100.0 * few.max(0.01), "{few} s, then {many} s");
}

#[test]
fn options_without_bounds_are_refused() {
    let small = SmallRun::new(1);
    for (option, value) in [
        ("--max-tokens", "18446744073709551615"),
        ("--shard", "1/1000000000000"),
        ("--samples", "100000000"),
        ("--jobs", "100000"),
        ("--threads", "100000"),
        ("--batch", "100000000"),
    ] {
        let mut command = small.tribunal(&["score", "--method", "gemba-sqm", "--input", "input.jsonl"]);
        command.args([option, value]);
        let (code, text) = said(command);
        assert!(code == 2 && text.contains("at most"), "{option}: {text}");
    }
    let mut command = small.tribunal(&["score", "--method", "gemba-sqm", "--input", "input.jsonl"]);
    command.args(["--kv-cache", "1KiB", "--batch", "4096", "--model"]).arg(tiny("qwen2"));
    let (code, text) = said(command);
    assert!(code == 2 && text.contains("one sequence of") && text.contains("hint: `--kv-cache"), "{text}");
    for args in [
        ["search", "query", "x", "y", "--limit", "99999999"],
        ["compare", "a", "b", "--resamples", "999999999", "--json"],
    ] {
        let (code, text) = said(small.tribunal(&args));
        assert!(code == 2 && text.contains("at most"), "{text}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let mut command = small.tribunal(&["score", "--method"]);
        command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
        let (code, text) = said(command);
        assert!(code == 2 && text.starts_with("error: "), "{text}");
    }
}

#[test]
fn names_do_not_reach_the_terminal_as_commands() {
    let small = SmallRun::new(1);
    small.write_input("input.jsonl", &["a\u{1b}[2J\u{202e}b"], 1);
    let mut command = small.score("out", &[]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("a\\u{1b}[2J\\u{202e}b") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn weights_that_are_no_numbers_give_no_verdict() {
    let small = SmallRun::new(1);
    let model = small.at("broken");
    fs::create_dir(&model).unwrap();
    for entry in fs::read_dir(tiny("qwen2")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|e| e == "safetensors") {
            let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            for value in bytes[8 + header..].chunks_exact_mut(4) {
                value.copy_from_slice(&f32::NAN.to_le_bytes());
            }
        }
        fs::write(model.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let mut command = small.tribunal(&[
        "score",
        "--input",
        "input.jsonl",
        "--out",
        "out",
        "--method",
        "gemba-sqm",
        "--quiet",
    ]);
    command.args(["--prompts", "prompts", "--max-tokens", "24", "--kv-cache", "8MiB", "--model"]).arg(&model);
    let (code, text) = said(command);
    assert_ne!(code, 0, "{text}");
    assert!(!small.read("out/verdicts.jsonl").contains("\"status\":\"ok\""), "{text}");
}
