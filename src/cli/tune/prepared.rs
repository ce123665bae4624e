//! What a training was given, and what follows from that before it starts: its memory, what tells it from others, its
//! first rows. It trains nothing.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{panel, progress};
use crate::{
    judges::Judge,
    run::folder::hex,
    tune::{
        Weights, estimate,
        forward::Upper,
        lora::{Adapters, Spec},
        lower::Lower,
        task::Task,
        train::{Recipe, Training},
    },
};

/// A model with all that it will learn.
pub struct Prepared {
    pub found: panel::Found,
    pub weights: Weights,
    pub task: Box<dyn Task>,
    /// Examples that are trained on; the others are held out.
    pub n_train: usize,
    pub recipe: Recipe,
    pub spec: Spec,
    /// The judge that the adapter is for.
    pub judge: Box<dyn Judge>,
    /// What a dry run says of the examples.
    pub counts: Vec<(String, String)>,
    /// What `training.json` says of this kind of training.
    pub card: Vec<(&'static str, Value)>,
}

impl Prepared {
    /// Bytes that training takes at its height.
    pub fn memory(&self, adapters: &Adapters) -> usize {
        let texts = self.task.texts();
        let rows_of =
            |example: usize| self.task.texts_of(example).map(|text| texts[text].tokens.len()).sum::<usize>();
        let rows = (0..self.task.len()).map(rows_of).max().unwrap_or(0).max(self.recipe.max_rows);
        let config = self.weights.config();
        let layers = &self.spec.layers;
        let has_head = layers.end == config.n_layers;
        let size = estimate::Size { layers: layers.len(), has_head, rows, n_adapted: adapters.n_values() };
        estimate::bytes(config, size)
    }

    /// What tells this training from others, and what the rows of the lower layers depend on.
    fn digests(&self) -> (String, String) {
        let mut hash = Sha256::new();
        hash.update(&self.found.files.sha256);
        hash.update(self.spec.layers.start.to_le_bytes());
        for text in self.task.texts() {
            hash.update((text.tokens.len() as u64).to_le_bytes());
            text.tokens.iter().for_each(|id| hash.update(id.to_le_bytes()));
        }
        let rows = hex(&hash.clone().finalize());
        hash.update(format!("{:?} {:?} {} {:?}", self.recipe, self.spec, self.n_train, self.card));
        (hex(&hash.finalize()), rows[..16].to_owned())
    }

    /// The training of all examples or of some, with its rows and its state in a folder.
    pub fn training<'a>(
        &self,
        folder: &Path,
        task: &'a dyn Task,
        (upper, adapters): (&'a Upper, &'a Adapters),
    ) -> Result<Training<'a>> {
        let (digest, rows) = self.digests();
        let first = self.spec.layers.start;
        let model = || Ok(self.found.options.device.load(&self.weights, self.found.options.compute)?);
        let mut told = progress::Rows::default();
        let hidden = self.weights.config().hidden;
        let mut tell = |done, all| told.tell(done, all);
        let lower = Lower::open(folder, &rows, &task.texts(), (first, hidden), model, &mut tell)?;
        let state_path = folder.join("state.safetensors");
        let (recipe, n_train) = (self.recipe.clone(), self.n_train.min(task.len()));
        Ok(Training { recipe, upper, adapters, lower, task, n_train, state_path, digest })
    }
}
