//! The matrices of a quantised checkpoint: the grouping of tensors by the names of each library.

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;
use safetensors::Dtype;

use super::super::{
    Entry, Format, Source,
    quantised::{Piece, Quantised, Storage},
};
use crate::config::{MAX_EXPERTS, hf::Quantization};

/// The name of a tensor that does not fit, and the reason.
type Misfit = (String, String);

/// Takes the tensors of quantised matrices out of `pieces`; the remaining ones are plain.
///
/// # Errors
/// A matrix without one of its tensors, or of unexpected shapes.
pub fn gather(
    pieces: &mut BTreeMap<String, Piece>,
    quantization: Option<&Quantization>,
) -> Result<BTreeMap<String, Entry>, Misfit> {
    let mut index = BTreeMap::new();
    let Some(quantization) = quantization else { return Ok(index) };
    if *quantization == Quantization::Mxfp4 {
        return four_bit_floats(pieces);
    }
    let skips = skips(quantization);
    let names: Vec<String> = pieces.keys().cloned().collect();
    for name in names {
        let Some((module, what)) = name.rsplit_once('.') else { continue };
        // Not if it was taken with another tensor of its matrix.
        let Some(piece) = pieces.get(&name) else { continue };
        let is_codes = match quantization {
            Quantization::Gptq { .. } | Quantization::Awq => what == "qweight",
            Quantization::Compressed { .. } => what == "weight_packed" || is_eight_bits(piece, what),
            Quantization::Float { .. } => is_eight_bits(piece, what),
            Quantization::Mxfp4 => false,
        };
        if is_codes {
            check_skipped(&piece.name, &skips)?;
            let matrix = matrix(pieces, (module, what), quantization)?;
            index.insert(format!("{module}.weight"), entry(matrix));
        }
    }
    Ok(index)
}

/// The modules that the settings leave as floats: expressions that match where a name begins.
fn skips(quantization: &Quantization) -> Vec<Regex> {
    let Quantization::Gptq { skips, .. } = quantization else { return Vec::new() };
    skips.iter().filter_map(|skip| Regex::new(&format!("^(?:{skip})")).ok()).collect()
}

/// Checks that a module with integers is not one of those left as floats.
fn check_skipped(tensor: &str, skips: &[Regex]) -> Result<(), Misfit> {
    let module = tensor.rsplit_once('.').map_or(tensor, |(module, _)| module);
    if skips.iter().any(|skip| skip.is_match(module)) {
        let reason = "is of integers, and `dynamic` of `quantization_config` leaves its module as floats";
        return Err((tensor.to_owned(), reason.to_owned()));
    }
    Ok(())
}

/// The experts of gpt-oss: of each matrix, blocks of codes `[experts, n, k / 32, 16]` and their scales
/// `[experts, n, k / 32]`.
fn four_bit_floats(pieces: &mut BTreeMap<String, Piece>) -> Result<BTreeMap<String, Entry>, Misfit> {
    let names: Vec<String> = pieces.keys().filter(|name| name.ends_with("_blocks")).cloned().collect();
    let mut index = BTreeMap::new();
    for name in names {
        let stem = name.trim_end_matches("_blocks");
        let (module, part) = stem.rsplit_once('.').unwrap_or(("", stem));
        let misfit = |reason: &str| (name.clone(), reason.to_owned());
        let (codes, scales) = pieces
            .remove(&name)
            .zip(pieces.remove(&format!("{stem}_scales")))
            .ok_or_else(|| misfit("has no scales"))?;
        let [n_experts, n, n_blocks, bytes] = codes.shape[..] else {
            return Err(misfit(&format!("has shape {:?}; four dimensions were expected", codes.shape)));
        };
        let is_sound = codes.dtype == Dtype::U8
            && scales.dtype == Dtype::U8
            && bytes == 16
            && n_experts <= MAX_EXPERTS
            && scales.shape == [n_experts, n, n_blocks];
        if !is_sound {
            let (of_codes, of_scales) = (&codes.shape, &scales.shape);
            return Err(misfit(&format!(
                "is {:?} {of_codes:?} with scales of {:?} {of_scales:?}; U8 [experts, n, k / 32, 16] and [experts, n, \
                 k / 32] were expected",
                codes.dtype, scales.dtype
            )));
        }
        for expert in 0..n_experts {
            let slice = |piece: &Piece| {
                let each = (piece.end - piece.start) / n_experts;
                let start = piece.start + expert * each;
                Piece { start, end: start + each, shape: piece.shape[1..].to_vec(), ..piece.clone() }
            };
            let matrix = Quantised {
                storage: Storage::Mxfp4,
                format: Format::Mxfp4,
                shape: [n, n_blocks * 32],
                codes: slice(&codes),
                scales: slice(&scales),
                zeros: None,
                groups: None,
            };
            index.insert(format!("{module}.{expert}.{part}.weight"), entry(matrix));
        }
    }
    Ok(index)
}

fn is_eight_bits(piece: &Piece, what: &str) -> bool {
    what == "weight" && piece.dtype == Dtype::F8_E4M3
}

/// One matrix, whose tensors leave the list.
fn matrix(
    pieces: &mut BTreeMap<String, Piece>,
    (module, what): (&str, &str),
    quantization: &Quantization,
) -> Result<Quantised, Misfit> {
    let name = format!("{module}.{what}");
    let misfit = |reason: &str| (name.clone(), reason.to_owned());
    let mut take = |part: &str| pieces.remove(&format!("{module}.{part}"));
    let codes = take(what).ok_or_else(|| misfit("is missing"))?;
    // The name in the file.
    let misfit = |reason: &str| (codes.name.clone(), reason.to_owned());
    let [rows, columns] = codes.shape[..] else { return Err(misfit("is no matrix")) };
    if what == "weight" {
        let scales = take("weight_scale_inv").or_else(|| take("weight_scale"));
        let scales = scales.ok_or_else(|| misfit("is F8_E4M3 and has no scale"))?;
        let (Quantization::Float { tile } | Quantization::Compressed { tile, .. }) = *quantization else {
            return Err(misfit("is F8_E4M3, which `quantization_config` does not explain"));
        };
        let shape = [rows, columns];
        let storage = Storage::Float { tile: tile.unwrap_or(shape) };
        return Ok(Quantised {
            storage,
            format: Format::F8E4M3,
            shape,
            codes,
            scales,
            zeros: None,
            groups: None,
        });
    }
    let part = |old: &'static str, new: &'static str| if what == "qweight" { old } else { new };
    let scales = take(part("scales", "weight_scale")).ok_or_else(|| misfit("has no scales"))?;
    let zeros = take(part("qzeros", "weight_zero_point"));
    let groups = take(part("g_idx", "weight_g_idx"));
    let (storage, is_symmetric, shape) = match *quantization {
        Quantization::Gptq { bits, stored, is_symmetric, .. } => {
            (Storage::Gptq { bits, stored }, is_symmetric, [columns, rows * 32 / bits as usize])
        }
        Quantization::Awq => (Storage::Awq, false, [columns * 8, rows]),
        Quantization::Compressed { bits, .. } => {
            (Storage::Compressed { bits }, zeros.is_none(), [rows, columns * 32 / bits as usize])
        }
        Quantization::Float { .. } | Quantization::Mxfp4 => {
            return Err(misfit("is of integers; `quantization_config` names floats"));
        }
    };
    if what == "qweight" && zeros.is_none() {
        return Err(misfit("has no `qzeros`"));
    }
    let format = match (storage.bits(), is_symmetric) {
        (4, true) => Format::Q4_0,
        (4, false) => Format::U4,
        (8, true) => Format::Q8_0,
        _ => return Err(misfit("is of 8-bit integers with zero points; symmetric ones are supported")),
    };
    Ok(Quantised { storage, format, shape, codes, scales, zeros, groups })
}

fn entry(matrix: Quantised) -> Entry {
    Entry {
        file: matrix.codes.file,
        start: matrix.codes.start,
        end: matrix.codes.end,
        dtype: matrix.format,
        shape: matrix.shape.to_vec(),
        rows: None,
        source: Source::Quantised(Arc::new(matrix)),
    }
}
