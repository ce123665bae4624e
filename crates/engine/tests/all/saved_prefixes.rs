//! Announced prefixes come from files in the next process. A file moves no bit of an answer.

use std::{fs, path::Path};

use tribunal_core::llm::{Chat, Llm, Reply, ResponseFormat, Sampling};
use tribunal_engine::{Engine, Options, SavedPrefixes};
use tribunal_model::{BLOCK, KvType};

use crate::{
    engine::{bits, options},
    model::tiny,
};

fn saving(folder: &Path, model: &str) -> Options {
    let saved_prefixes =
        Some(SavedPrefixes { folder: folder.into(), model: model.into(), max_bytes: 1 << 20 });
    Options { saved_prefixes, ..options() }
}

/// A question about a text, after the same instructions as every other.
fn chat(text: &str) -> Chat {
    let instructions = "Read the translation and name its errors, as the examples do. ".repeat(2);
    Chat::new().system(instructions).user(format!("The text: {text}"))
}

/// The prefixes that all questions share, one of them with more text after the same words.
fn prefixes(engine: &Engine) -> [Vec<u32>; 2] {
    let [one, other, longer] = ["one", "two", &"one bridge is closed until spring, ".repeat(2)]
        .map(|text| engine.prompt_ids(&chat(text)).unwrap());
    let shared = |a: &[u32], b: &[u32]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (n, n_longer) = (shared(&one, &other), longer.len() - 4);
    assert!(n > 3 * BLOCK && n_longer > n + BLOCK, "{n} and {n_longer} tokens");
    [one[..n].into(), longer[..n_longer].into()]
}

/// The replies to two questions, after announcing their prefixes if `is_announced`.
fn ask(engine: &Engine, is_announced: bool) -> [Reply; 2] {
    if is_announced {
        for prefix in prefixes(engine) {
            engine.announce(&prefix);
        }
    }
    let texts = [String::from("two rivers"), "one bridge is closed until spring, ".repeat(2)];
    texts.map(|text| {
        let sampling = Sampling { temperature: 0.7, seed: 5, max_tokens: 12, ..Sampling::default() };
        engine.ask(&chat(&text), &ResponseFormat::Text, &sampling).unwrap()
    })
}

fn cached(replies: &[Reply; 2]) -> [usize; 2] {
    [0, 1].map(|i| replies[i].usage.cached)
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn an_answer_has_the_same_bits_after_a_prefix_from_a_file() {
    let kinds = [("qwen2", KvType::Bf16), ("qwen2", KvType::F32), ("gemma3", KvType::F16)];
    let others = ["qwen3-moe", "gemma4", "gpt-oss", "qwen3-5", "qwen3-next", "deepseek-v2"];
    let kinds = kinds.into_iter().chain(others.map(|model| (model, KvType::Bf16)));
    for (model, kv) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let open = || Engine::open(&tiny(model), &Options { kv, ..saving(dir.path(), "tiny") }).unwrap();
        let plain = Engine::open(&tiny(model), &Options { kv, ..options() }).unwrap();
        let expected = ask(&plain, true);
        let whole = prefixes(&plain).map(|prefix| prefix.len() / BLOCK * BLOCK);
        let first = ask(&open(), true);
        assert_eq!(cached(&first)[0], 0, "{model}");
        assert_eq!(files(dir.path()).len(), 2, "{model}: both are there once the engine has ended");
        let engine = open();
        let second = ask(&engine, true);
        for (cached, whole) in cached(&second).into_iter().zip(whole) {
            assert!(cached >= whole, "{model}: {cached} of {whole} tokens");
        }
        let third = ask(&engine, true);
        assert!(
            cached(&third).into_iter().zip(whole).all(|(cached, whole)| cached >= whole),
            "{model}: again"
        );
        drop(engine);
        for replies in [&first, &second, &third] {
            assert!(replies.iter().map(bits).eq(expected.iter().map(bits)), "{model}, {kv:?}");
        }
        assert_eq!(files(dir.path()).len(), 2, "{model}");
    }
}

#[test]
fn files_of_others_damaged_ones_and_those_that_nobody_announces_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let open = |options: &Options| Engine::open(&tiny("qwen2"), options).unwrap();
    let own = saving(dir.path(), "tiny");
    let expected = ask(&open(&own), true).map(|reply| bits(&reply));
    let ask = |options: &Options, is_announced| {
        let replies = ask(&open(options), is_announced);
        assert_eq!([0, 1].map(|i| bits(&replies[i])), expected);
        cached(&replies)[0]
    };
    assert_eq!(ask(&own, false), 0);
    assert_eq!(ask(&Options { prefix_cache: false, ..own.clone() }, true), 0);
    assert_eq!(ask(&saving(dir.path(), "another"), true), 0);
    assert_eq!(files(dir.path()).len(), 4, "those of the other model are beside them");
    for file in files(dir.path()) {
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(ask(&own, true), 0);
    assert!(ask(&own, true) > 0, "and written again");
    // A path that cannot be a folder stops nothing.
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(ask(&saving(&file, "tiny"), true), 0);
}
