//! A model without a signal gives no verdict: an answer that only its form determines carries no information
//! about the text.

use std::{collections::HashMap, fs, sync::Arc};

use candle_core::{Device, Tensor, safetensors};
use tribunal::{
    engine::{Engine, Options},
    judges::{Granularity, Panel, Settings},
    llm::Sampling,
};

use crate::fakes::{self, document, judged};

/// Every method in which a model writes or scores texts, in the variants that request other forms.
const REQUESTS: &[&str] = &[
    "gemba-da",
    "gemba-da:score=expected",
    "gemba-sqm",
    "gemba-stars",
    "gemba-classes",
    "gemba-mqm",
    "gemba-mqm:form=json,da=on",
    "gemba-esa",
    "eaprompt",
    "eaprompt:steps=1",
    "rubric-mqm",
    "rubric-mqm:scenario=deepq-4",
    "fsp",
    "fsp:omissions=on",
    "fsp:score=da",
    "gmicl",
    "m-mad:shots=0",
    "himate:shots=0",
    "rate:rounds=2",
    "difficulty",
    "thinking:budget=8",
    "gemba-da:reasoning=low,reasoning-budget=8",
    "likelihood",
    "likelihood:direction=both,norm=sum",
    "likelihood:relative=on",
];

/// Behaviour of a broken model, the same with every prompt.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// All weights are 0: every token is as likely as any other.
    Zero,
    /// One token has this logit after whatever precedes it, all others have 0.
    Only(u32, f32),
}

/// The tiny Qwen2 with other weights.
fn engine(broken: Broken) -> Engine {
    let tiny = fakes::tiny("qwen2");
    let dir = tempfile::tempdir().unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tiny.join(name), dir.path().join(name)).unwrap();
    }
    let config = fs::read_to_string(tiny.join("config.json")).unwrap();
    let config = config.replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    fs::write(dir.path().join("config.json"), config).unwrap();
    let weights = safetensors::load(tiny.join("model.safetensors"), &Device::Cpu).unwrap();
    let zero = |(name, tensor): (String, Tensor)| (name, tensor.zeros_like().unwrap());
    let mut weights: HashMap<String, Tensor> = weights.into_iter().map(zero).collect();
    let embeddings = weights["model.embed_tokens.weight"].clone();
    let (n_tokens, width) = embeddings.dims2().unwrap();
    let mut head = vec![0.0_f32; n_tokens * width];
    if let Broken::Only(token, logit) = broken {
        for name in ["model.embed_tokens.weight", "model.norm.weight"] {
            let ones = weights[name].ones_like().unwrap();
            weights.insert(name.into(), ones);
        }
        head[token as usize * width..][..width].fill(logit / width as f32);
    }
    let head = Tensor::from_vec(head, (n_tokens, width), &Device::Cpu).unwrap();
    weights.insert("lm_head.weight".into(), head);
    safetensors::save(&weights, dir.path().join("model.safetensors")).unwrap();
    let options = Options { kv_bytes: Some(8 << 20), context: Some(4096), ..Options::default() };
    Engine::open(dir.path(), &options).unwrap()
}

/// The verdicts that are not missing, as `METHOD: SCORE`.
fn verdicts(engine: &Engine) -> Vec<String> {
    let rated = tempfile::NamedTempFile::new().unwrap();
    let line = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[]}"#;
    fs::write(rated.path(), [line; 5].join("\n")).unwrap();
    let engine = Arc::new(engine.clone());
    let of = |request: &&str| {
        let shots = (*request == "gmicl").then(|| rated.path().into());
        let granularity = request.starts_with("fsp").then_some(Granularity::Seg);
        let settings = Settings { shots, granularity, max_tokens: Some(120), ..Settings::default() };
        let judge = tribunal::replication::build(request, &settings).unwrap();
        let panel = Panel::new(engine.clone(), Sampling::default());
        let (verdicts, _) = judged(&judge, &panel, &document()[..1]);
        let scores = verdicts.into_iter().flatten().map(|verdict| verdict.score);
        scores.map(|score| format!("{request}: {score:?}")).collect::<Vec<_>>()
    };
    REQUESTS.iter().flat_map(of).collect()
}

#[test]
fn a_model_of_zeros_judges_nothing() {
    assert_eq!(verdicts(&engine(Broken::Zero)), [""; 0]);
}

#[test]
fn a_model_that_only_ends_its_answer_judges_nothing() {
    for logit in [8.0, 30.0] {
        assert_eq!(verdicts(&engine(Broken::Only(319, logit))), [""; 0], "{logit}");
    }
}

#[test]
fn a_model_that_repeats_one_token_judges_nothing() {
    let zeros = engine(Broken::Zero);
    let found = |text: &str, logit| {
        let token = zeros.tokenizer().encode_data(text).unwrap()[0];
        verdicts(&engine(Broken::Only(token, logit)))
    };
    for text in ["{", "}", "\"", "[", "n", " ", "\n"] {
        assert_eq!(found(text, 8.0), [""; 0], "{text:?}");
    }
    assert_eq!(found("{", 30.0), [""; 0]);
    // A number that is written freely, and that the model is sure of, is no different from an answer.
    assert_eq!(found("1", 30.0), ["gemba-sqm: 11.0"]);
}
