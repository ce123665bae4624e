//! Tensors of a file that the decoder does not read. Those that change nothing are dropped; any other one is
//! rejected, since its model computes something else.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{Entry, Mapped, seeded};
use crate::{Config, Error, Result};

/// The names that tensors have in the files, by file and first byte.
pub(super) type Names = BTreeMap<(usize, usize), String>;

/// Beginnings of the names of other parts of a model than its decoder.
const OTHER_PARTS: [&str; 6] = [
    "model.visual.",
    "model.vision_",
    "model.multi_modal_projector.",
    "model.audio_",
    "model.embed_vision.",
    "model.embed_audio.",
];

/// Endings of the names of tensors that follow from the settings, of scales of activations and of cached keys
/// and values, which are not quantised here, and of shapes.
const UNUSED: [&str; 9] = [
    ".rotary_emb.inv_freq",
    ".input_scale",
    ".input_zero_point",
    ".activation_scale",
    ".output_scale",
    ".q_scale",
    ".k_scale",
    ".v_scale",
    ".weight_shape",
];

/// Returns true if a tensor of this name has no effect on the computation for text.
pub(super) fn is_unused(config: &Config, name: &str) -> bool {
    let head = if config.score_head.is_some() { "score." } else { "lm_head." };
    // An encoder's pooler, and its heads for pretraining, read its states.
    let is_of_head = config.encoder.is_none() && name.starts_with(head);
    !(name.starts_with("model.") || is_of_head)
        || OTHER_PARTS.iter().any(|part| name.starts_with(part))
        || UNUSED.iter().any(|ending| name.ends_with(ending))
}

/// Drops biases of zeros, and rejects all other tensors that the decoder does not read. `is_read` is true for
/// tensors that only some formats have.
///
/// # Errors
/// The tensor, by its name in the file.
pub(super) fn check(
    path: &Path,
    config: &Config,
    (files, names): (&[Mapped], &Names),
    is_read: impl Fn(&str) -> bool,
    index: &mut BTreeMap<String, Entry>,
) -> Result<()> {
    let read: BTreeSet<String> = seeded::tensors(config).into_iter().map(|(name, _)| name).collect();
    let is_zero = |entry: &Entry| {
        let bytes = files[entry.file].map.get(entry.start..entry.end);
        bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    };
    let mut refused = None;
    index.retain(|name, entry| {
        let is_kept = read.contains(name) || is_read(name);
        if !(is_kept || name.ends_with("bias") && is_zero(&*entry)) {
            refused.get_or_insert_with(|| names.get(&(entry.file, entry.start)).unwrap_or(name).clone());
        }
        is_kept
    });
    let Some(name) = refused else { return Ok(()) };
    let reason = "is not one that the decoder reads with these settings; hint: does one switch off a part of the model?";
    Err(Error::Tensor { path: path.display().to_string(), name, reason: reason.into() })
}
