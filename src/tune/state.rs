//! What a training that is killed goes on from: one file, replaced as a whole, with the adapters, the optimizer's means
//! and the best adapters so far. The same steps give the same bytes.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use candle_core::{Device, Tensor};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};

use super::{Error, adamw::Moments, io, lora::Adapters};
use crate::files;

/// How far training has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is trained, on what and how: another training does not go on from here.
    pub digest: String,
    /// Steps that are done.
    pub step: usize,
    /// The least held-out loss so far, and the step after which it was measured.
    pub best: Option<(f64, usize)>,
    /// Evaluations since.
    pub worse: usize,
    /// Whether there is nothing more to do.
    pub is_over: bool,
}

/// Progress with the numbers that belong to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub progress: Progress,
    /// In the order of [`Adapters::tensors`].
    pub moments: Vec<Moments>,
    /// The best adapters' values; empty before the first evaluation.
    pub best: Vec<Vec<f32>>,
}

/// The values of adapters, in order.
///
/// # Errors
/// None that candle does not know of.
pub fn values(adapters: &Adapters) -> Result<Vec<Vec<f32>>, Error> {
    let values = |(_, var): &(String, &candle_core::Var)| Ok(var.flatten_all()?.to_vec1::<f32>()?);
    adapters.tensors().iter().map(values).collect()
}

/// Gives adapters these values.
///
/// # Errors
/// Other shapes.
pub fn set(adapters: &Adapters, values: &[Vec<f32>]) -> Result<(), Error> {
    for ((_, var), values) in adapters.tensors().into_iter().zip(values) {
        var.set(&Tensor::from_vec(values.clone(), var.shape(), &Device::Cpu)?)?;
    }
    Ok(())
}

/// The name under which progress stands among the file's notes.
const NOTE: &str = "progress";

/// Writes the file, in the place of one that may be there.
///
/// # Errors
/// It cannot be written.
pub fn save(path: &Path, state: &State, adapters: &Adapters) -> Result<(), Error> {
    let mut tensors: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let names: Vec<String> = adapters.tensors().into_iter().map(|(name, _)| name).collect();
    for (i, (name, values)) in names.iter().zip(values(adapters)?).enumerate() {
        tensors.insert(format!("now/{name}"), bytes(&values));
        if let Some(moments) = state.moments.get(i) {
            tensors.insert(format!("mean/{name}"), bytes(&moments.mean));
            tensors.insert(format!("square/{name}"), bytes(&moments.square));
        }
        if let Some(best) = state.best.get(i) {
            tensors.insert(format!("best/{name}"), bytes(best));
        }
    }
    let damaged = |e: safetensors::SafeTensorError| Error::Unsuitable(e.to_string());
    let views = tensors.iter().map(|(name, bytes)| {
        Ok((name.as_str(), TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes).map_err(damaged)?))
    });
    let views: Vec<_> = views.collect::<Result<_, Error>>()?;
    let note = serde_json::to_string(&state.progress).map_err(|e| Error::Unsuitable(e.to_string()))?;
    let notes = HashMap::from([(NOTE.to_owned(), note)]);
    replace(path, &safetensors::serialize(views, Some(notes)).map_err(damaged)?)
}

/// Reads the file into a state and the adapters; `None` when there is none.
///
/// # Errors
/// A file that is not whole, or is about other adapters.
pub fn load(path: &Path, adapters: &Adapters) -> Result<Option<State>, Error> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(path)(e)),
    };
    let bad = |reason: &str| {
        Error::Unsuitable(format!("`{}`: {reason}; hint: start in another folder", path.display()))
    };
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| bad(&e.to_string()))?;
    let note =
        header.metadata().as_ref().and_then(|notes| notes.get(NOTE)).ok_or_else(|| bad("has no progress"))?;
    let progress: Progress = serde_json::from_str(note).map_err(|e| bad(&e.to_string()))?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| bad(&e.to_string()))?;
    let floats = |name: String| -> Option<Vec<f32>> {
        let view = tensors.tensor(&name).ok()?;
        Some(view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    };
    let (mut now, mut state) = (Vec::new(), State { progress, ..State::default() });
    for (name, var) in adapters.tensors() {
        let values = floats(format!("now/{name}")).filter(|values| values.len() == var.elem_count());
        now.push(values.ok_or_else(|| bad(&format!("has no `{name}` of this size")))?);
        if let (Some(mean), Some(square)) = (floats(format!("mean/{name}")), floats(format!("square/{name}")))
        {
            state.moments.push(Moments { mean, square });
        }
        state.best.extend(floats(format!("best/{name}")));
    }
    set(adapters, &now)?;
    Ok(Some(state))
}

/// Replaces a whole file: what is there is the old content or the new.
///
/// # Errors
/// It cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    files::replace(path, |file| file.write_all(bytes)).map_err(|error| io(path)(error.source))
}
