//! Names of the weight files of a model's folder, from its index. It reads no weights.

use std::{collections::BTreeSet, path::Path};

use super::hub::MAX_INDEX_BYTES;
use crate::files;

/// Settings of a metric of the COMET family.
pub const METRIC: &str = "hparams.yaml";

/// The checkpoint of a metric by PyTorch Lightning.
const CHECKPOINT: &str = "checkpoints/model.ckpt";

/// The weight files of a folder: a metric's checkpoint, the safetensors that an index names, or the only one.
pub(super) fn weight_files(folder: &Path) -> BTreeSet<String> {
    if folder.join(METRIC).is_file() && folder.join(CHECKPOINT).is_file() {
        return BTreeSet::from([CHECKPOINT.to_owned()]);
    }
    let index = files::read_at_most(&folder.join("model.safetensors.index.json"), MAX_INDEX_BYTES).ok();
    let index: Option<serde_json::Value> = index.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let shards = index.as_ref().and_then(|index| index["weight_map"].as_object());
    match shards {
        Some(shards) => shards.values().filter_map(|name| name.as_str()).map(str::to_owned).collect(),
        None => BTreeSet::from(["model.safetensors".to_owned()]),
    }
}
