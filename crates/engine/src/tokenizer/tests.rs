//! Tokenizations against Hugging Face's (tests/golden), control tokens in data, bytes of every token. Models
//! are read from `$TRIBUNAL_HOME`, tokenizer.json files from `$TRIBUNAL_TOKENIZERS`; missing ones are named
//! and not checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::quantized::gguf_file::{Content, Value};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    control_texts: Vec<String>,
    ids: BTreeMap<String, Vec<Vec<u32>>>,
    control_ids: BTreeMap<String, Vec<Vec<u32>>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../../tests/golden/tokenizations.json")).unwrap()
}

/// Pairs of pieces, separated by bars.
const TINY_MERGES: &str = "e r|r o|er ro|erro r|error s|s p|a n|sp an|\" :|Ġ \"|{ \"|} ]|\" ,|Ġ {|\
    m i|n or|o r|mi n|min or|m a|ma j|maj or|c r|Ġ [|\" }|Ġ a|i n|Ã ¤|\
    Ġ t|t h|Ġ 1|0 0|Ċ Ċ|Ġ Ġ|ĠĠ ĠĠ|] }|\"} ]}|\"} ,";

/// A small byte-level vocabulary: 256 bytes, some merges, some control tokens.
pub(crate) fn tiny_vocab() -> GgufVocab {
    let alphabet = pieces::byte_level_alphabet();
    let mut tokens: Vec<(u8, String)> = alphabet.iter().map(|(c, b)| (*b, c.to_string())).collect();
    tokens.sort();
    let mut tokens: Vec<String> = tokens.into_iter().map(|(_, piece)| piece).collect();
    let mut kept = Vec::new();
    for merge in TINY_MERGES.split('|') {
        let (left, right) = merge.split_once(' ').unwrap();
        if tokens.iter().any(|t| t == left) && tokens.iter().any(|t| t == right) {
            tokens.push(format!("{left}{right}"));
            kept.push(merge.to_owned());
        }
    }
    let first_control = tokens.len() as u32;
    let mut token_types = vec![1; tokens.len()];
    for name in ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"] {
        tokens.push(name.to_owned());
        token_types.push(if name == "<think>" { 4 } else { 3 });
    }
    tokens.push("[PAD]".to_owned());
    token_types.push(5);
    GgufVocab {
        model: "gpt2".into(),
        pre: "gpt-2".into(),
        tokens,
        token_types,
        merges: kept,
        bos: Some(first_control),
        eos: Some(first_control + 2),
        ..GgufVocab::default()
    }
}

pub(crate) fn tiny() -> Tokenizer {
    Tokenizer::from_gguf(&tiny_vocab(), Some("<|im_start|>x<|im_end|><think>")).unwrap()
}

/// The vocabulary in the first GGUF file of a card's folder, if the model is on this machine.
pub(crate) fn model_vocab(card: &str) -> Option<GgufVocab> {
    let home = std::env::var_os("TRIBUNAL_HOME").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        cache
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
            .map(|c| c.join("tribunal"))
    })?;
    let files = std::fs::read_dir(home.join(card)).ok();
    let path = files.into_iter().flatten().flatten().map(|f| f.path());
    let Some(path) = path.filter(|p| p.extension().is_some_and(|e| e == "gguf")).min() else {
        not_checked(&format!("the model `{card}` is not in `{}`", home.display()));
        return None;
    };
    let content = Content::read(&mut std::io::BufReader::new(std::fs::File::open(path).unwrap())).unwrap();
    let get = |key: &str| content.metadata.get(&format!("tokenizer.{key}"));
    let text = |key: &str| get(key).map(|v| v.to_string().unwrap().clone());
    let number = |key: &str| get(key).map(|v| v.to_u32().unwrap());
    let list = |key: &str| get(key).map(|v| v.to_vec().unwrap().clone()).unwrap_or_default();
    let strings = |key: &str| list(key).iter().map(|v| v.to_string().unwrap().clone()).collect();
    let flag = |key: &str| get(key).map(|v| v.to_bool().unwrap());
    Some(GgufVocab {
        model: text("ggml.model").unwrap(),
        pre: text("ggml.pre").unwrap_or_default(),
        tokens: strings("ggml.tokens"),
        scores: list("ggml.scores").iter().map(|v| v.to_f32().unwrap()).collect(),
        token_types: list("ggml.token_type").iter().map(|v: &Value| v.to_i32().unwrap()).collect(),
        merges: strings("ggml.merges"),
        bos: number("ggml.bos_token_id"),
        eos: number("ggml.eos_token_id"),
        eot: number("ggml.eot_token_id"),
        unknown: number("ggml.unknown_token_id"),
        padding: number("ggml.padding_token_id"),
        add_bos: flag("ggml.add_bos_token"),
        add_space_prefix: flag("ggml.add_space_prefix"),
        chat_template: text("chat_template"),
    })
}

/// Prints that a check did not run; with `TRIBUNAL_REQUIRE`, as in CI, it fails instead.
pub(crate) fn not_checked(why: &str) {
    assert!(std::env::var_os("TRIBUNAL_REQUIRE").is_none(), "not checked: {why}");
    eprintln!("not checked: {why}");
}

pub(crate) fn model(card: &str) -> Option<Tokenizer> {
    Some(Tokenizer::from_gguf(&model_vocab(card)?, None).unwrap())
}

/// A tokenizer.json folder fetched by scripts/tokenizers.sh.
fn fetched(name: &str, template: Option<&str>) -> Option<Tokenizer> {
    let Some(dir) = std::env::var_os("TRIBUNAL_TOKENIZERS").map(|d| PathBuf::from(d).join(name)) else {
        not_checked(&format!(
            "TRIBUNAL_TOKENIZERS is not set, so tokenizer.json of `{name}` is not compared"
        ));
        return None;
    };
    let Ok(json) = std::fs::read(dir.join("tokenizer.json")) else {
        not_checked(&format!("there is no `{}`", dir.join("tokenizer.json").display()));
        return None;
    };
    let config = std::fs::read(dir.join("tokenizer_config.json")).unwrap();
    Some(Tokenizer::from_json(&json, Some(&config), template).unwrap())
}

#[track_caller]
fn check(tokenizer: &Tokenizer, name: &str) {
    let golden = golden();
    for (text, want) in golden.texts.iter().zip(&golden.ids[name]) {
        let ids = tokenizer.encode_data(text).unwrap();
        assert_eq!(&ids, want, "{name}: {text:?}");
        assert_eq!(&tokenizer.encode_template(text).unwrap(), want, "{name}: {text:?}");
    }
    for text in &golden.control_texts {
        let ids = tokenizer.encode_data(text).unwrap();
        assert!(!ids.iter().any(|&id| tokenizer.is_control(id)), "{name}: {text:?}");
        assert_eq!(&tokenizer.decode(&ids), text, "{name}");
    }
}

#[track_caller]
fn check_control(tokenizer: &Tokenizer, name: &str) {
    let golden = golden();
    for (text, want) in golden.control_texts.iter().zip(&golden.control_ids[name]) {
        assert_eq!(&tokenizer.encode_template(text).unwrap(), want, "{name}: {text:?}");
    }
}

#[test]
fn gguf_byte_level_equals_hugging_face() {
    for (card, name) in [("smollm2-135m-instruct", "smollm2"), ("qwen2.5-coder-0.5b-instruct", "qwen2_5")] {
        if let Some(tokenizer) = model(card) {
            check(&tokenizer, name);
            check_control(&tokenizer, name);
        }
    }
}

#[test]
fn gguf_sentencepiece_equals_hugging_face() {
    if let Some(tokenizer) = model("gemma-3-270m") {
        check(&tokenizer, "gemma3");
        assert_eq!(tokenizer.encode_raw("Hello").unwrap()[0], tokenizer.bos().unwrap());
    }
}

#[test]
fn tokenizer_json_equals_hugging_face() {
    for name in ["qwen2_5", "qwen3", "llama3", "gemma3"] {
        if let Some(tokenizer) = fetched(name, None) {
            check(&tokenizer, name);
            check_control(&tokenizer, name);
            check_ends(&tokenizer, name);
        }
    }
}

/// Checks beginnings, ends and control tokens against those of the model's files.
#[track_caller]
fn check_ends(t: &Tokenizer, name: &str) {
    let starts_with_bos = t.encode_raw("x").unwrap()[0] == t.bos().unwrap_or(u32::MAX);
    match name {
        "qwen3" => {
            assert_eq!(t.decode(t.stops()), "<|im_end|><|endoftext|>");
            assert!(t.is_control(t.control_id("<think>").unwrap()));
            assert!(!starts_with_bos);
        }
        "llama3" => {
            assert_eq!(t.bos(), t.control_id("<|begin_of_text|>"));
            assert_eq!(t.stops().len(), 2, "end of text and end of turn");
        }
        "gemma3" => {
            assert_eq!(t.eos(), t.control_id("<end_of_turn>"));
            assert!(t.stops().contains(&t.control_id("<eos>").unwrap()));
            assert!(t.control_id("\n\n").is_none());
            assert!(starts_with_bos);
            assert_eq!(t.encode_raw("<bos>x").unwrap().len(), 2);
        }
        _ => assert_eq!(t.eos(), t.control_id("<|im_end|>")),
    }
}

/// The pipeline that a GGUF file gives, written as tokenizer.json and read back, is the same tokenizer.
#[test]
fn a_gguf_tokenizer_survives_as_tokenizer_json() {
    let golden = golden();
    for vocab in [Some(tiny_vocab()), model_vocab("smollm2-135m-instruct")].into_iter().flatten() {
        let from_gguf = Tokenizer::from_gguf(&vocab, None).unwrap();
        let mut whole = from_gguf.pipeline.clone();
        whole.with_decoder(Some(tokenizers::decoders::byte_level::ByteLevel::default()));
        let special = from_gguf.control_names().map(|n| tokenizers::AddedToken::from(n, true));
        whole.add_special_tokens(special).unwrap();
        let config = serde_json::json!({"eos_token": from_gguf.decode(&[vocab.eos.unwrap()])}).to_string();
        let json = whole.to_string(false).unwrap();
        let from_json = Tokenizer::from_json(json.as_bytes(), Some(config.as_bytes()), None).unwrap();
        for text in golden.texts.iter().chain(&golden.control_texts) {
            assert_eq!(from_json.encode_data(text).unwrap(), from_gguf.encode_data(text).unwrap());
            assert_eq!(from_json.encode_template(text).unwrap(), from_gguf.encode_template(text).unwrap());
        }
        assert_eq!(from_json.bytes, from_gguf.bytes);
        assert_eq!(from_json.eos(), vocab.eos);
    }
}

/// The file that converters make of a `tokenizer.json`: its vocabulary and merges, with the kind of each
/// token.
fn converted(name: &str, model: &str, pre: &str) -> Option<GgufVocab> {
    let dir = std::env::var_os("TRIBUNAL_TOKENIZERS").map(|dir| PathBuf::from(dir).join(name));
    let Some(json) = dir.and_then(|dir| std::fs::read(dir.join("tokenizer.json")).ok()) else {
        not_checked(&format!("there is no tokenizer.json of `{name}` in `$TRIBUNAL_TOKENIZERS`"));
        return None;
    };
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let id = |value: &serde_json::Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let pieces = json["model"]["vocab"].as_object().unwrap();
    let mut tokens: BTreeMap<usize, (String, i32)> = BTreeMap::new();
    for (piece, at) in pieces {
        let kind = if pieces::fallback_byte(piece).is_some() { 6 } else { 1 };
        tokens.insert(id(at), (piece.clone(), kind));
    }
    for added in json["added_tokens"].as_array().unwrap() {
        let kind = if added["special"] == true { 3 } else { 4 };
        tokens.insert(id(&added["id"]), (added["content"].as_str().unwrap().to_owned(), kind));
    }
    let part = |merge: &serde_json::Value| match merge.as_array() {
        Some(pair) => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        None => merge.as_str().unwrap().to_owned(),
    };
    let unknown = tokens.values().position(|(token, _)| token == "<unk>").map(|at| at as u32);
    let (tokens, token_types) = tokens.into_values().unzip();
    let merges = json["model"]["merges"].as_array().unwrap().iter().map(part).collect();
    let (model, pre) = (model.into(), pre.into());
    Some(GgufVocab { model, pre, tokens, token_types, merges, unknown, ..GgufVocab::default() })
}

/// gpt-oss: o200k's pattern and Harmony's control tokens, of which those that end a turn are stops.
#[test]
fn a_gguf_file_of_gpt_oss_has_the_ids_of_its_tokenizer_json() {
    let Some(vocab) = converted("gptoss", "gpt2", "gpt-4o") else { return };
    let (from_gguf, from_json) =
        (Tokenizer::from_gguf(&vocab, None).unwrap(), fetched("gptoss", None).unwrap());
    let harmony =
        "<|start|>user<|message|>It's OK<|end|><|start|>assistant<|channel|>final<|message|>x<|return|>";
    let golden = golden();
    for text in golden.texts.iter().chain(&golden.control_texts).map(String::as_str).chain([harmony]) {
        assert_eq!(from_gguf.encode_data(text).unwrap(), from_json.encode_data(text).unwrap(), "{text:?}");
        let ids = from_gguf.encode_template(text).unwrap();
        assert_eq!(ids, from_json.encode_template(text).unwrap(), "{text:?}");
        assert_eq!(from_gguf.decode(&ids), text);
    }
    assert_eq!(from_gguf.bytes, from_json.bytes);
    for tokenizer in [&from_gguf, &from_json] {
        let mut stops = tokenizer.stops().to_vec();
        stops.sort_unstable();
        assert_eq!(stops, [199_999, 200_002, 200_007, 200_012]);
        let ids = tokenizer.encode_template("<|start|><|channel|>").unwrap();
        assert_eq!(ids, [200_006, 200_005]);
    }
}

/// Gemma 4 has Gemma 3's pipeline. Its files name the merges, where Gemma 3's have scores.
#[test]
fn a_gguf_file_with_the_merges_of_sentencepiece_equals_hugging_face() {
    let Some(vocab) = converted("gemma3", "gemma4", "") else { return };
    let tokenizer = Tokenizer::from_gguf(&GgufVocab { bos: Some(2), ..vocab.clone() }, None).unwrap();
    check(&tokenizer, "gemma3");
    check_control(&tokenizer, "gemma3");
    for add_bos in [None, Some(false)] {
        let vocab = GgufVocab { bos: Some(2), add_bos, ..vocab.clone() };
        assert_eq!(Tokenizer::from_gguf(&vocab, None).unwrap().encode_raw("x").unwrap()[0], 2);
    }
}

/// Names of Gemma 4's shape are control tokens, also those that converters mark as visible.
#[test]
fn marks_of_one_side_are_control_tokens() {
    let mut vocab = tiny_vocab();
    for (name, kind) in [("<|turn>", 3), ("<turn|>", 3), ("<|channel>", 4), ("<channel|>", 4), ("<|\"|>", 4)]
    {
        vocab.tokens.push(name.into());
        vocab.token_types.push(kind);
    }
    let tokenizer = Tokenizer::from_gguf(&vocab, None).unwrap();
    for name in ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|\"|>"] {
        assert!(tokenizer.control_id(name).is_some(), "{name}");
        let data = tokenizer.encode_data(name).unwrap();
        assert!(!data.iter().any(|&id| tokenizer.is_control(id)), "{name}");
    }
    assert!(tokenizer.stops().contains(&tokenizer.control_id("<turn|>").unwrap()));
}

/// A combining mark is part of its word in files of Qwen3.5; in those of Qwen2 it stands apart.
#[test]
fn marks_stand_with_their_letters_in_gguf_files_of_qwen3_5() {
    // No letter of Thai composes with its vowel sign, so that NFC leaves both.
    let text = "\u{e01}\u{e31}";
    let alphabet: BTreeMap<u8, char> =
        pieces::byte_level_alphabet().into_iter().map(|(piece, byte)| (byte, piece)).collect();
    let bytes: Vec<char> = text.bytes().map(|byte| alphabet[&byte]).collect();
    let ids = |pre: &str| {
        let mut vocab = GgufVocab { pre: pre.into(), ..tiny_vocab() };
        vocab.merges.push(format!("{} {}", bytes[2], bytes[3]));
        vocab.tokens.push(format!("{}{}", bytes[2], bytes[3]));
        vocab.token_types.push(1);
        let across = vocab.tokens.len() as u32 - 1;
        let ids = Tokenizer::from_gguf(&vocab, None).unwrap().encode_data(text).unwrap();
        (ids.len(), ids.contains(&across))
    };
    assert_eq!(ids("qwen35"), (5, true));
    assert_eq!(ids("qwen2"), (6, false));
}

#[test]
fn unknown_kinds_are_refused_by_name() {
    let refused = |vocab: GgufVocab| Tokenizer::from_gguf(&vocab, None).err().unwrap().to_string();
    let pre = refused(GgufVocab { pre: "klingon".into(), ..tiny_vocab() });
    assert!(pre.contains("`klingon`") && pre.contains("hint:"), "{pre}");
    assert!(refused(GgufVocab { model: "rwkv".into(), ..tiny_vocab() }).contains("`rwkv`"));
    assert!(refused(GgufVocab { token_types: vec![1], ..tiny_vocab() }).contains("token types"));
    assert!(refused(GgufVocab { eos: Some(9999), ..tiny_vocab() }).contains("`9999`"));
    assert!(refused(GgufVocab { merges: vec!["ab".into()], ..tiny_vocab() }).contains("`ab`"));
    assert!(refused(GgufVocab { tokens: Vec::new(), ..tiny_vocab() }).contains("no tokens"));
    let stop = tiny().with_stop_tokens(&["<|nope|>"]).err().unwrap().to_string();
    assert!(stop.contains("`<|nope|>`"), "{stop}");
}

/// The settings' added tokens, and the class of a SentencePiece tokenizer.
#[test]
fn settings_go_before_tokenizer_json() {
    let json = |decoder: &str| {
        let added = serde_json::json!([{"id": 0, "content": "<s>", "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false}]);
        let vocab = ["<s>", "\u{2581}", "a", "b", "\u{2581}a", "!", "<pad>"];
        let vocab: BTreeMap<&str, usize> =
            vocab.into_iter().enumerate().map(|(id, piece)| (piece, id)).collect();
        let model = serde_json::json!({"type": "BPE", "unk_token": null, "fuse_unk": true, "byte_fallback": false,
            "dropout": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "vocab": vocab,
            "merges": [["\u{2581}", "a"]]});
        let text = serde_json::json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": {"type": "Prepend", "prepend": "\u{2581}"}, "pre_tokenizer": null, "post_processor": null,
            "decoder": {"type": decoder, "replacement": "\u{2581}", "prepend_scheme": "always", "split": false},
            "model": model});
        text.to_string().into_bytes()
    };
    let json = json("Metaspace");
    let encode = |config: serde_json::Value, model_type: Option<&str>| {
        let config = format!("\u{feff}{config}");
        let files = Files { json: &json, config: Some(config.as_bytes()), model_type };
        let tokenizer = Tokenizer::from_files(files, None).unwrap();
        tokenizer.encode_template("a<s>a<pad>! a").unwrap()
    };
    let class = |legacy: bool| {
        serde_json::json!({"tokenizer_class": "LlamaTokenizer", "legacy": legacy,
        "bos_token": "<s>", "pad_token": {"content": "<pad>"}})
    };
    // `<pad>` has a role, so it is an added token; each part gets a mark from `Prepend` and from `legacy`,
    // otherwise the first alone.
    assert_eq!(encode(class(true), Some("llama")), [4, 0, 4, 6, 1, 5, 4]);
    assert_eq!(encode(class(false), Some("llama")), [4, 0, 2, 6, 5, 4]);
    assert_eq!(encode(class(false), Some("mistral"))[..4], [4, 0, 4, 6]);
    // A flag of `added_tokens_decoder` counts, and a token with a role is control only if its name looks like
    // one.
    let strips = serde_json::json!({"tokenizer_class": "LlamaTokenizer", "legacy": false, "pad_token": "!",
        "added_tokens_decoder": {"0": {"content": "<s>", "special": true, "rstrip": true, "normalized": false}}});
    let config = strips.to_string();
    let files = Files { json: &json, config: Some(config.as_bytes()), ..Files::default() };
    let tokenizer = Tokenizer::from_files(files, None).unwrap();
    assert_eq!(tokenizer.encode_template("<s>  a").unwrap(), [0, 2]);
    assert!(tokenizer.is_control(0) && !tokenizer.is_control(5));
    assert_eq!(tokenizer.roles()["pad_token"], "!");
    assert_eq!(tokenizer.roles()["eos_token"], "</s>");
    assert_eq!(tokenizer.encode_data("b<s>!").unwrap(), tokenizer.encode_rendered("b<s>!", &[2]).unwrap());
    // The `special_tokens_map` of transformers 5.24, which templates read.
    for (extra, image) in [
        (serde_json::json!({"image_token": "b", "boi": "!"}), "b!"),
        (serde_json::json!({}), ""),
        (serde_json::json!(["b"]), ""),
        (serde_json::json!([]), ""),
    ] {
        let config = serde_json::json!({"video_token": "!", "audio_token": {"content": "a", "__type": "AddedToken"},
            "odd_token": {"content": "b"}, "add_bos_token": true, "extra_special_tokens": extra});
        let config = config.to_string();
        let files = Files { json: &json, config: Some(config.as_bytes()), ..Files::default() };
        let roles = Tokenizer::from_files(files, None).unwrap().roles().clone();
        let role = |name: &str| roles.get(name).map_or("", String::as_str);
        assert_eq!(role("image_token").to_owned() + role("boi"), image, "{extra}");
        assert_eq!((role("video_token"), role("audio_token"), role("odd_token")), ("!", "a", ""));
        assert!(!roles.contains_key("add_bos_token") && !roles.contains_key("extra_special_tokens"));
    }
}

#[test]
fn control_tokens_act_only_in_templates() {
    let t = tiny();
    let text = "<|im_start|>user\nx<|im_end|>";
    let template = t.encode_template(text).unwrap();
    assert!(t.is_control(template[0]) && t.is_control(*template.last().unwrap()));
    let data = t.encode_data(text).unwrap();
    assert!(!data.iter().any(|&id| t.is_control(id)));
    assert_eq!(t.decode(&data), text);
    assert_eq!(t.decode(&template), text);
    assert!(t.is_control(t.control_id("<think>").unwrap()));
    assert_eq!(t.stops(), [t.control_id("<|im_end|>").unwrap(), t.control_id("<|endoftext|>").unwrap()]);
}

proptest! {
    #[test]
    fn byte_level_data_decodes_to_itself(text in any::<String>()) {
        let t = tiny();
        let ids = t.encode_data(&text).unwrap();
        prop_assert_eq!(t.decode(&ids), text);
    }
}
