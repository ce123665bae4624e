//! The pipeline that transformers builds for a tokenizer of a class of its own, whatever `tokenizer.json`
//! has, and the names of tokens that a class has by default. It reads no vocabulary.
//!
//! Source: transformers 5.24, `AutoTokenizer.from_pretrained` and the classes' `__init__`.

use serde_json::Value;
use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer,
    pre_tokenizers::{
        metaspace::{Metaspace, PrependScheme},
        sequence::Sequence,
        whitespace::WhitespaceSplit,
    },
};

use super::{Error, Result, pieces};

/// Kinds of models for which the pipeline in the file is used, although the class is Llama's.
const AS_IN_FILE: [&str; 11] = [
    "glm4",
    "granite",
    "granitemoehybrid",
    "ministral",
    "ministral3",
    "mistral",
    "mixtral",
    "olmo2",
    "olmo3",
    "phi3",
    "qwen2",
];

/// The tokens of a class whose settings do not name them, by role.
const DEFAULTS: [(&str, &[(&str, &str)]); 3] = [
    ("LlamaTokenizer", &[("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")]),
    (
        "GemmaTokenizer",
        &[
            ("unk_token", "<unk>"),
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
    ),
    (
        "Qwen2Tokenizer",
        &[("unk_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")],
    ),
];

/// The class that the settings name, without `Fast`.
fn name(config: &Value) -> &str {
    let name = config["tokenizer_class"].as_str().unwrap_or_default();
    name.strip_suffix("Fast").unwrap_or(name)
}

/// The tokens that the class has by default, by role.
pub(super) fn defaults(config: &Value) -> &'static [(&'static str, &'static str)] {
    let class = name(config);
    DEFAULTS.iter().find(|(name, _)| *name == class).map_or(&[], |(_, tokens)| tokens)
}

/// Replaces the normalizer and pre-tokenizer where the class has its own: Llama's marks the beginning of the
/// text, or with `legacy` of each part between added tokens; XLM-R's marks each word.
///
/// `model_type` is that of the model's `config.json`.
///
/// # Errors
/// [`Error::Json`] when the pipeline cannot be changed.
pub(super) fn rebuild(pipeline: &mut Tokenizer, config: &Value, model_type: Option<&str>) -> Result<()> {
    if matches!(pipeline.get_model(), ModelWrapper::Unigram(_)) && name(config) == "XLMRobertaTokenizer" {
        let normalizer = pipeline.get_normalizer().and_then(precompiled);
        let words = if config["add_prefix_space"] == false { Words::Plain } else { Words::Marked };
        return xlm_roberta(pipeline, normalizer, words).map_err(|e| Error::Json(e.to_string()));
    }
    let as_in_file = model_type.is_some_and(|kind| AS_IN_FILE.contains(&kind));
    let ModelWrapper::BPE(model) = pipeline.get_model() else { return Ok(()) };
    if name(config) != "LlamaTokenizer" || as_in_file || is_byte_level(pipeline) {
        return Ok(());
    }
    let mut model = model.clone();
    (model.unk_token, model.fuse_unk, model.byte_fallback, model.ignore_merges) = (None, true, true, false);
    let scheme = match (config["add_prefix_space"].as_bool(), config["legacy"].as_bool()) {
        (Some(false), _) => PrependScheme::Never,
        (_, Some(true)) => PrependScheme::Always,
        _ => PrependScheme::First,
    };
    pipeline.with_model(model);
    pipeline.with_pre_tokenizer(Some(Metaspace::new(pieces::SPACE_MARK, scheme, false)));
    pipeline.with_normalizer(None::<NormalizerWrapper>).map_err(|e| Error::Json(e.to_string()))?;
    Ok(())
}

/// The words of a text, each behind SentencePiece's mark or not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Words {
    Marked,
    Plain,
}

/// Gives a pipeline the steps of XLM-R: a normalizer, and words between white space.
///
/// # Errors
/// The pipeline cannot be changed.
pub(super) fn xlm_roberta(
    pipeline: &mut Tokenizer,
    normalizer: Option<NormalizerWrapper>,
    words: Words,
) -> tokenizers::Result<()> {
    let scheme = match words {
        Words::Marked => PrependScheme::Always,
        Words::Plain => PrependScheme::Never,
    };
    let marks = Metaspace::new(pieces::SPACE_MARK, scheme, true);
    pipeline.with_pre_tokenizer(Some(Sequence::new(vec![WhitespaceSplit.into(), marks.clone().into()])));
    pipeline.with_decoder(Some(marks));
    pipeline.with_normalizer(normalizer)?;
    Ok(())
}

/// The compiled map of characters in a normalizer, the only step of it that the class keeps.
fn precompiled(normalizer: &NormalizerWrapper) -> Option<NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Precompiled(_) => Some(normalizer.clone()),
        NormalizerWrapper::Sequence(steps) => steps.as_ref().iter().find_map(precompiled),
        _ => None,
    }
}

fn is_byte_level(pipeline: &Tokenizer) -> bool {
    fn pre_tokenizes(step: &PreTokenizerWrapper) -> bool {
        match step {
            PreTokenizerWrapper::ByteLevel(_) => true,
            PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(pre_tokenizes),
            _ => false,
        }
    }
    fn decodes(step: &DecoderWrapper) -> bool {
        match step {
            DecoderWrapper::ByteLevel(_) => true,
            DecoderWrapper::Sequence(steps) => steps.get_decoders().iter().any(decodes),
            _ => false,
        }
    }
    pipeline.get_pre_tokenizer().is_some_and(pre_tokenizes) || pipeline.get_decoder().is_some_and(decodes)
}
