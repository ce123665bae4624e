//! Checkpoints by PyTorch Lightning: a zip archive with the pickled names of tensors and their uncompressed
//! numbers. Nothing in the pickle is executed: calls of functions stay data, of which only those of tensors
//! are read.

use std::{
    io::{BufReader, Cursor, Read as _},
    path::Path,
};

use candle_core::{
    DType,
    pickle::{Object, Stack, TensorInfo},
};
use safetensors::Dtype;
use zip::{CompressionMethod, ZipArchive};

use super::quantised::Piece;
use crate::{Error, Result, panics};

/// The file of a metric's folder.
pub(super) const FILE: &str = "checkpoints/model.ckpt";

/// The most bytes of the pickle: those of real checkpoints have some hundred kilobytes.
const MAX_PICKLE_BYTES: u64 = 64 << 20;

/// The tensors of a checkpoint's `state_dict`.
///
/// # Errors
/// A file that is no such archive, or has a tensor in another form than row after row.
pub(super) fn pieces(path: &Path, file_idx: usize, file: &[u8]) -> Result<Vec<Piece>> {
    // The reader of pickles panics on some damaged ones.
    let read = panics::caught(|| read(file_idx, file));
    read.unwrap_or_else(|| Err("its pickle is damaged".into())).map_err(|reason| Error::File {
        path: path.display().to_string(),
        reason: format!("is not a whole checkpoint of PyTorch Lightning: {reason}"),
        hint: "fetch it again".into(),
    })
}

fn read(file_idx: usize, file: &[u8]) -> Result<Vec<Piece>, String> {
    let mut archive = ZipArchive::new(Cursor::new(file)).map_err(|error| error.to_string())?;
    let name = archive.file_names().flatten().find(|name| name.ends_with("/data.pkl")).map(String::from);
    let name = name.ok_or("it has no `data.pkl`")?;
    let folder = Path::new(&name).with_extension("");
    let mut stack = Stack::empty();
    let pickle = archive.by_name(&name).map_err(|error| error.to_string())?;
    let read = stack.read_loop(&mut BufReader::new(pickle.take(MAX_PICKLE_BYTES)));
    let Object::Dict(keys) = read.and_then(|()| stack.finalize()).map_err(|error| error.to_string())? else {
        return Err("its pickle is no dictionary".into());
    };
    let key = Object::Unicode("state_dict".into());
    let Some((_, Object::Dict(tensors))) = keys.into_iter().find(|(name, _)| *name == key) else {
        return Err("it has no `state_dict`".into());
    };
    let mut pieces = Vec::new();
    // An attribute of the dictionary, not a tensor.
    let metadata = Object::Unicode("_metadata".into());
    for (name, value) in tensors.into_iter().filter(|(name, _)| *name != metadata) {
        let shown = format!("{name:?}");
        let info =
            value.into_tensor_info(name, &folder).map_err(|error| format!("tensor {shown}: {error}"))?;
        let info = info.ok_or_else(|| format!("{shown} is no tensor"))?;
        pieces.push(
            piece(&mut archive, file_idx, &info)
                .map_err(|reason| format!("tensor `{}` {reason}", info.name))?,
        );
    }
    Ok(pieces)
}

/// The place of a tensor's numbers in the file.
fn piece(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    file_idx: usize,
    info: &TensorInfo,
) -> Result<Piece, String> {
    let dtype = match info.dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        other => return Err(format!("is {other:?}")),
    };
    if !info.layout.is_contiguous() {
        return Err("is not stored row after row".into());
    }
    let stored = archive.by_name(&info.path).map_err(|error| error.to_string())?;
    if stored.compression() != CompressionMethod::Stored {
        return Err("is compressed".into());
    }
    let n_bytes = info.layout.shape().elem_count().checked_mul(info.dtype.size_in_bytes());
    let (begin, offset) = (stored.data_start().unwrap_or(u64::MAX), info.layout.start_offset());
    let start = usize::try_from(begin).ok().and_then(|begin| begin.checked_add(offset));
    let end = start.zip(n_bytes).and_then(|(start, n_bytes)| start.checked_add(n_bytes));
    match start.zip(end) {
        Some((start, end)) if end as u64 <= begin.saturating_add(stored.size()) => {
            let (name, shape) = (info.name.clone(), info.layout.dims().to_vec());
            Ok(Piece { name, file: file_idx, start, end, dtype, shape })
        }
        _ => Err("is longer than its file".into()),
    }
}
