//! Every option of the engine either changes its signature or no bit of its answers.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use candle_core::quantized::GgmlDType;
use serde_json::json;
use tribunal_core::llm::{Chat, Llm, ResponseFormat, Sampling};
use tribunal_cpu::{Activations, Compute, Isa};
use tribunal_engine::{Engine, Options};
use tribunal_hub as hub;
use tribunal_model::{KvType, weights::Format};

use crate::{gguf::gguf, model::tiny};

fn base() -> Options {
    Options { kv_bytes: Some(8 << 20), context: Some(320), n_rows: 4, threads: Some(1), ..Options::default() }
}

/// Other values of every option. A new option does not compile without an entry here.
fn variants(control: &str) -> Vec<(&'static str, Options)> {
    let Options {
        // Another device is another test: this machine may have none.
        device: _,
        more_devices: _,
        compute: Compute { tier, activations, floats },
        kv,
        kv_bytes,
        n_rows,
        // For GPUs only; the memory tests of large models cover it.
        most_rows: _,
        step_tokens,
        context,
        prefix_cache,
        // saved_prefixes shows that a file moves no bit.
        saved_prefixes: _,
        drafts,
        hung_after,
        recheck_every,
        threads,
        chat_template,
        chat_options,
        stop_tokens,
        // They are loaded beside the model until one is selected: model_adapters shows that they then move no
        // bit of others.
        adapters,
        // The stamps of the hashed files; the weights' own hash is signed.
        // The judge signs it, as its fit.
        estimator: _,
        hashed: _,
    } = base();
    let compute =
        |tier, activations, floats| Options { compute: Compute { tier, activations, floats }, ..base() };
    let mut all = vec![
        ("activations", compute(tier, Activations::Float, floats)),
        ("kv", Options { kv: KvType::F32, ..base() }),
        ("kv", Options { kv: KvType::F16, ..base() }),
        ("kv_bytes", Options { kv_bytes: kv_bytes.map(|bytes| bytes / 2), ..base() }),
        ("n_rows", Options { n_rows: n_rows + 60, ..base() }),
        ("step_tokens", Options { step_tokens: step_tokens / 50, ..base() }),
        ("context", Options { context: context.map(|context| context - 32), ..base() }),
        ("prefix_cache", Options { prefix_cache: !prefix_cache, ..base() }),
        ("drafts", Options { drafts: !drafts, ..base() }),
        ("hung_after", Options { hung_after: hung_after.map(|limit| 2 * limit), ..base() }),
        ("recheck_every", Options { recheck_every: recheck_every / 2, ..base() }),
        ("threads", Options { threads: threads.map(|n| n + 1), ..base() }),
        ("chat_template", Options { chat_template: Some("{{ messages[0].content }}: ".into()), ..base() }),
        ("chat_options", Options { chat_options: json!({"enable_thinking": false}), ..base() }),
        ("stop_tokens", Options { stop_tokens: vec![control.into()], ..base() }),
    ];
    assert_eq!(adapters, Vec::<PathBuf>::new());
    assert_eq!((kv, chat_template, chat_options, stop_tokens), (KvType::Bf16, None, json!(null), vec![]));
    for other in Isa::available() {
        all.push(("tier", compute(other, activations, floats)));
        all.push(("tier, with other floats", compute(other, activations, Some(Format::Bf16))));
    }
    for other in [Format::F32, Format::F16, Format::Bf16] {
        all.push(("floats", compute(tier, activations, Some(other))));
        all.push(("floats, with exact activations", compute(tier, Activations::Float, Some(other))));
    }
    all
}

/// Every bit of some answers.
fn bits(engine: &Engine) -> Vec<(u32, u64, u64)> {
    let schema = json!({"type": "object", "properties": {
        "errors": {"type": "array", "maxItems": 2, "items": {"type": "string", "substringOf": "text"}},
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
    }, "required": ["errors", "score"]});
    let texts = [("text".to_owned(), "The old bridge.".to_owned())].into();
    let forms = [ResponseFormat::Text, ResponseFormat::Json { schema, texts }, ResponseFormat::Text];
    let ask = |(i, form): (usize, &ResponseFormat)| {
        let chat = Chat::new().user("Is it closed?").user("Say so.");
        let temperature = if i == 0 { 0.0 } else { 0.7 };
        let sampling = Sampling { temperature, seed: i as u64, max_tokens: 16, ..Sampling::default() };
        engine.ask(&chat, form, &sampling).unwrap().tokens
    };
    let tokens = forms.iter().enumerate().flat_map(ask);
    tokens.map(|t| (t.id, t.logprob.to_bits(), t.masked_logprob.to_bits())).collect()
}

/// Runs an engine of every variant. Those with the same signature must give the same bits, and exactly the
/// options in `signed` change the signature.
#[track_caller]
fn check(path: &Path, control: &str, signed: &[&str]) {
    let plain = Engine::open(path, &base()).unwrap();
    let mut known = vec![(plain.facts().signature.clone(), bits(&plain))];
    let mut moved = BTreeSet::new();
    for (name, options) in variants(control) {
        let engine = Engine::open(path, &options).unwrap();
        let (signature, bits) = (engine.facts().signature.clone(), bits(&engine));
        if signature != known[0].0 {
            moved.insert(name);
        }
        match known.iter().find(|(other, _)| *other == signature) {
            Some((_, expected)) => {
                assert!(bits == *expected, "{}: `{name}` moves bits under {signature}", path.display());
            }
            None => known.push((signature, bits)),
        }
    }
    let has_tiers = Isa::available().count() > 1;
    let signed: BTreeSet<_> = signed.iter().copied().filter(|name| *name != "tier" || has_tiers).collect();
    assert_eq!(moved, signed, "{}", path.display());
    let answers: BTreeSet<_> = known.iter().map(|(_, bits)| bits).collect();
    assert!(answers.len() > 4, "{}: the answers show what options do", path.display());
}

#[test]
fn every_option_is_signed_or_changes_no_bit_of_a_safetensors_model() {
    let signed = [
        "activations",
        "chat_options",
        "chat_template",
        "context",
        "floats",
        "floats, with exact activations",
        "kv",
        "stop_tokens",
        "tier, with other floats",
    ];
    check(&tiny("qwen2"), "<|im_start|>", &signed);
}

#[test]
fn every_option_is_signed_or_changes_no_bit_of_a_gguf_model() {
    let folder = tempfile::tempdir().unwrap();
    let always = [
        "activations",
        "chat_options",
        "chat_template",
        "context",
        "floats, with exact activations",
        "kv",
        "stop_tokens",
    ];
    let floats = ["floats", "tier, with other floats"];
    for (dtype, more) in
        [(GgmlDType::Q8_0, &[][..]), (GgmlDType::BF16, &[&floats[..], &["tier"]].concat()[..])]
    {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        gguf(&path, dtype);
        check(&path, "<|other|>", &[&always, more].concat());
    }
}

#[test]
fn the_signature_says_what_weights_are_held_as() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    gguf(&path, GgmlDType::F16);
    let field = |floats, name: &str| {
        let options = Options { compute: Compute { floats, ..Compute::default() }, ..base() };
        Engine::open(&path, &options).unwrap().facts().signature.get(name).map(str::to_owned)
    };
    assert_eq!(field(None, "dtype").as_deref(), Some("f16"));
    assert_eq!(field(Some(Format::F16), "dtype").as_deref(), Some("f16"));
    assert_eq!(field(Some(Format::F32), "dtype").as_deref(), Some("f16-as-f32"));
    assert!(field(Some(Format::Bf16), "tier").is_some() && field(None, "tier").is_none());
}

#[test]
fn the_fingerprint_covers_every_file_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let read = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    for name in read {
        std::fs::copy(tiny("qwen2").join(name), folder.path().join(name)).unwrap();
    }
    let reply = bits(&Engine::open(folder.path(), &base()).unwrap());
    assert_eq!(reply, bits(&Engine::open(&tiny("qwen2"), &base()).unwrap()), "no other file is needed");
    let mut seen = vec![hub::fingerprint(folder.path()).unwrap()];
    let also = ["chat_template.jinja", "generation_config.json", "model.safetensors.index.json"];
    for name in [&read[..], &also].concat() {
        let file = folder.path().join(name);
        let mut bytes = std::fs::read(&file).unwrap_or_default();
        bytes.push(b'\n');
        std::fs::write(&file, bytes).unwrap();
        let fingerprint = hub::fingerprint(folder.path()).unwrap();
        assert!(!seen.contains(&fingerprint), "`{name}` is read and changes nothing");
        seen.push(fingerprint);
    }
    std::fs::write(folder.path().join("README.md"), "a model").unwrap();
    assert_eq!(seen.last(), Some(&hub::fingerprint(folder.path()).unwrap()));
}
