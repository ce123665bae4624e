//! GGUF files: in parts, and of types that are not read.

use std::{fs, path::Path};

use candle_core::quantized::{
    GgmlDType,
    gguf_file::{self, Value},
};
use serde_json::Value as Json;

use crate::fakes::{SmallRun, gguf, report, said};

/// Ids and log-probabilities of two tokens, by transformers 5.24 in f32 on the safetensors that the parts
/// were made of.
const RIGHT: [(u64, f64); 2] = [(98, -1.7201), (121, -2.4733)];

/// Tolerance for the rounding of the cache.
const TOLERANCE: f64 = 0.03;

/// `tribunal ask Hello --max-tokens 2 --json`.
fn ask(small: &SmallRun, model: &Path) -> (i32, String) {
    let mut command = small.tribunal(&["ask", "Hello", "--max-tokens", "2", "--json"]);
    command.args(["--kv-cache", "8MiB", "--context", "128", "--device", "cpu", "--model"]).arg(model);
    said(command)
}

#[test]
fn a_model_in_parts_is_read_whole() {
    let Some(first) = report("split-00001-of-00002.gguf") else { return };
    let small = SmallRun::new(1);
    let name = |part: usize| format!("split-0000{part}-of-00002.gguf");
    for part in [1, 2] {
        fs::copy(first.with_file_name(name(part)), small.at(&name(part))).unwrap();
    }
    let mut answers = Vec::new();
    for model in [first.clone(), first.with_file_name(name(2)), small.root.path().into()] {
        let (code, text) = ask(&small, &model);
        assert_eq!(code, 1, "{text}");
        let note = "`split.tensors.count` is 27, and the model's parts have 26 tensors";
        assert!(text.contains(note), "{text}");
        let answer: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        for (token, (id, logprob)) in answer["tokens"].as_array().unwrap().iter().zip(RIGHT) {
            assert_eq!(token["id"], id, "{text}");
            assert!((token["logprob"].as_f64().unwrap() - logprob).abs() < TOLERANCE, "{text}");
        }
        assert_eq!(answer["model"], "split");
        answers.push(answer);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let (code, text) = said(small.tribunal(&["models", "show", &name(2)]));
    assert_eq!(code, 0, "{text}");
    for shown in [&name(1), &name(2), "F32", "26 tensors", "qwen2.block_count", "split.count"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    fs::remove_file(small.at(&name(1))).unwrap();
    for model in [small.at(&name(2)), small.root.path().into()] {
        let (code, text) = ask(&small, &model);
        assert_eq!(code, 2, "{text}");
        let missing =
            "1 of the model's 2 parts is missing: `split-00001-of-00002.gguf`\nhint: all parts belong";
        assert!(text.contains(missing), "{text}");
    }
}

/// The file of the report is in MXFP4, which is read; with the number of a type that is not, it is named.
#[test]
fn a_type_that_is_not_read_is_named() {
    let Some(file) = report("type-MXFP4.gguf") else { return };
    let small = SmallRun::new(1);
    let (code, text) = ask(&small, &file);
    assert!(code != 2 && text.contains("\"model\":\"type-MXFP4\""), "{text}");
    let mut bytes = fs::read(&file).unwrap();
    let tensor = b"blk.0.ffn_down.weight";
    let at = bytes.windows(tensor.len()).position(|part| part == tensor).unwrap() + tensor.len();
    // Behind a name: the number of dimensions, two dimensions, the type.
    assert_eq!(bytes[at + 20..at + 24], 39_u32.to_le_bytes());
    bytes[at + 20..at + 24].copy_from_slice(&40_u32.to_le_bytes());
    let file = small.at("type-NVFP4.gguf");
    fs::write(&file, bytes).unwrap();
    let (code, text) = ask(&small, &file);
    assert_eq!(code, 2, "{text}");
    let said_of = "tensor `blk.0.ffn_down.weight` is of type NVFP4, which is not supported";
    assert!(text.replace('\n', " ").contains(said_of), "{text}");
    assert!(text.contains("Q4_K") && !text.contains("whole GGUF file"), "{text}");
    let shown = said(small.tribunal(&["models", "show", &file.display().to_string()]));
    assert!(shown.0 == 0 && shown.1.contains("NVFP4 (not supported)"), "{}", shown.1);
}

#[test]
fn a_folder_with_one_gguf_file_is_that_model() {
    let small = SmallRun::new(1);
    let folder = small.at("pulled");
    fs::create_dir(&folder).unwrap();
    gguf(&folder.join("fox.gguf"), GgmlDType::Q8_0);
    // What a pull leaves beside it, and an unfinished one.
    for name in ["pulled.json", ".lock", "other.gguf.0123abcd.partial", "._fox.gguf", "README.md"] {
        fs::write(folder.join(name), "{}").unwrap();
    }
    let (by_folder, by_file) = (ask(&small, &folder), ask(&small, &folder.join("fox.gguf")));
    assert_eq!(by_folder.0, 1, "{}", by_folder.1);
    assert_eq!(by_folder, by_file);
    assert!(by_folder.1.contains("\"model\":\"fox\""), "{}", by_folder.1);
    gguf(&folder.join("wolf.gguf"), GgmlDType::Q8_0);
    let (code, text) = ask(&small, &folder);
    assert_eq!(code, 2, "{text}");
    assert!(text.replace('\n', " ").contains("holds 2 models: `fox.gguf`, `wolf.gguf`"), "{text}");
    let (code, text) = ask(&small, &small.at("prompts"));
    assert!(code == 2 && text.contains("no `config.json` and no GGUF file"), "{text}");
}

#[test]
fn control_characters_of_a_gguf_file_do_not_reach_the_terminal() {
    let small = SmallRun::new(1);
    let hostile = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}";
    let file = small.at("hostile.gguf");
    let write = |metadata: &[(&str, &Value)]| {
        gguf_file::write(&mut fs::File::create(&file).unwrap(), metadata, &[]).unwrap();
    };
    let text = Value::String(hostile.into());
    let key = format!("general.{hostile}");
    let list = Value::Array(vec![text.clone()]);
    write(&[("general.architecture", &text), (&key, &text), ("general.tags", &list)]);
    let acts = |text: &str| text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']);
    for format in ["text", "tsv", "csv", "json"] {
        let (code, text) = said(small.tribunal(&["models", "show", "hostile.gguf", "--format", format]));
        assert!(code == 0 && !acts(&text), "{text:?}");
        assert!(text.contains("u{1b}]0;x"), "{text:?}");
    }
    let (code, text) = ask(&small, &file);
    assert!(code == 2 && !acts(&text) && text.contains("\\u{1b}]0;x"), "{text:?}");
    write(&[
        ("general.architecture", &Value::String("llama".into())),
        (&format!("llama.{hostile}"), &Value::U32(1)),
    ]);
    let (code, text) = ask(&small, &file);
    assert!(code == 2 && !acts(&text) && text.contains("llama.\\u{1b}]0;x"), "{text:?}");
    write(&[
        ("general.architecture", &Value::String("llama".into())),
        ("general.type", &Value::String(hostile.into())),
    ]);
    let (code, text) = ask(&small, &file);
    assert!(code == 2 && !acts(&text) && text.contains("general.type"), "{text:?}");
}
