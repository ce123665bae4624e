//! The tensors of a metric beside those of its encoder, and the encoder's settings where no `config.json` has
//! them. No value is read.

use std::path::Path;

use serde_json::{Value, json};

use super::quantised::Piece;
use crate::{Error, Result, metric::Settings};

/// The beginning of the names of the encoder's tensors.
const ENCODER: &str = "encoder.model.";

/// Beginnings of the names of the head's tensors.
const HEAD: [&str; 3] = ["layerwise_attention.", "estimator.", "hidden2tag."];

/// Beginnings of the names of tensors without effect on a prediction.
const OF_TRAINING: [&str; 6] = [
    "layerwise_attention.dropout_",
    "wordloss.",
    "sentloss.",
    "train_",
    "val_",
    "encoder.model.embeddings.position_ids",
];

/// Takes the head's tensors out of a list, which keeps those of the encoder by their names in `transformers`.
///
/// # Errors
/// A tensor of neither.
pub(super) fn take_head(path: &Path, listed: &mut Vec<Piece>) -> Result<Vec<Piece>> {
    let begins = |piece: &Piece, parts: &[&str]| parts.iter().any(|part| piece.name.starts_with(part));
    listed.retain(|piece| !begins(piece, &OF_TRAINING));
    let head = listed.extract_if(.., |piece| begins(piece, &HEAD)).collect();
    for piece in listed {
        let Some(name) = piece.name.strip_prefix(ENCODER) else {
            let (path, reason) = (path.display().to_string(), "is of no part of a metric that is supported");
            return Err(Error::Tensor { path, name: piece.name.clone(), reason: reason.into() });
        };
        piece.name = name.to_owned();
    }
    Ok(head)
}

/// The settings of an encoder by the shapes of its tensors, for the published sizes of XLM-R, whose numbers
/// of heads follow from their widths.
///
/// # Errors
/// Another size.
pub(super) fn encoder_config(metric: &Settings, tensors: &[Piece]) -> Result<Value> {
    let shape = |name: &str| {
        let named = tensors.iter().find(|piece| piece.name.strip_prefix(ENCODER) == Some(name));
        named.map_or([0; 2], |piece| [0, 1].map(|dim| piece.shape.get(dim).copied().unwrap_or(0)))
    };
    let [vocab, hidden] = shape("embeddings.word_embeddings.weight");
    let (model_type, n_heads) = match hidden {
        768 => ("xlm-roberta", 12),
        1024 => ("xlm-roberta", 16),
        2560 | 4096 => ("xlm-roberta-xl", 32),
        _ => return Err(metric.no_config()),
    };
    let layer = |piece: &Piece| {
        piece
            .name
            .strip_prefix(ENCODER)?
            .strip_prefix("encoder.layer.")?
            .split('.')
            .next()?
            .parse::<usize>()
            .ok()
    };
    Ok(json!({
        "model_type": model_type,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": tensors.iter().filter_map(layer).max().map_or(0, |last| last + 1),
        "num_attention_heads": n_heads,
        "intermediate_size": shape("encoder.layer.0.intermediate.dense.weight")[0],
        "max_position_embeddings": shape("embeddings.position_embeddings.weight")[0],
        "type_vocab_size": shape("embeddings.token_type_embeddings.weight")[0],
        "pad_token_id": 1,
        "layer_norm_eps": 1e-5,
    }))
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;

    use super::*;
    use crate::families;

    #[test]
    fn sizes_of_an_encoder_follow_from_its_tensors() {
        let piece = |name: &str, shape: &[usize]| Piece {
            name: format!("{ENCODER}{name}"),
            file: 0,
            start: 0,
            end: 0,
            dtype: Dtype::F32,
            shape: shape.to_vec(),
        };
        let tensors = |hidden: usize| {
            [
                piece("embeddings.word_embeddings.weight", &[250_002, hidden]),
                piece("embeddings.position_embeddings.weight", &[514, hidden]),
                piece("embeddings.token_type_embeddings.weight", &[1, hidden]),
                piece("encoder.layer.0.intermediate.dense.weight", &[4 * hidden, hidden]),
                piece("encoder.layer.23.output.dense.weight", &[hidden, 4 * hidden]),
            ]
        };
        let metric = Settings::parse("hparams.yaml", b"class_identifier: regression_metric\n").unwrap();
        for (hidden, n_heads) in [(768, 12), (1024, 16), (2560, 32), (4096, 32)] {
            let json = encoder_config(&metric, &tensors(hidden)).unwrap();
            let config =
                families::read_json("config.json", &json).unwrap_or_else(|error| panic!("{error}")).config;
            assert_eq!((config.n_layers, config.n_heads, config.context), (24, n_heads, 512));
            assert_eq!((config.hidden, config.intermediate, config.vocab), (hidden, 4 * hidden, 250_002));
        }
        let error = encoder_config(&metric, &tensors(384)).unwrap_err().to_string();
        assert!(error.contains("put `config.json` of `xlm-roberta-large`"), "{error}");
    }
}
