//! The attention of full and of sliding layers from GGUF metadata.

use super::{Arch, Reader, Tensors, Value, whole};
use crate::{
    Error,
    config::attention::{Attention, Layers},
};

impl Reader<'_> {
    /// The attention of layers whose full ones have heads of `head_dim` values.
    pub(super) fn attention(
        &self,
        arch: Arch,
        (n_layers, n_heads, head_dim): (usize, usize, usize),
        tensors: &Tensors,
    ) -> Result<Layers, Error> {
        let rotary_dim = self.check_heads(arch, head_dim)?;
        let (window, slides) = self.windows(arch, n_layers, self.size("context_length")?)?;
        let [full_kv_heads, sliding_kv_heads] = self.kv_heads(arch, &slides, n_heads)?;
        let first_full = slides.iter().position(|slides| !slides);
        let full = Attention {
            head_dim,
            n_kv_heads: full_kv_heads,
            rope: self.rope(arch, tensors.factors.clone())?,
            rotary_dim,
            window: None,
            values_are_keys: arch == Arch::Gemma4
                && first_full.is_some_and(|first| tensors.without_values.contains(&first)),
        };
        let sliding = match window {
            Some(window) => Some(self.sliding_attention(arch, &full, window, sliding_kv_heads)?),
            None => None,
        };
        Ok(Layers { full, sliding, slides })
    }

    /// Heads of keys and values of full and of sliding layers.
    fn kv_heads(&self, arch: Arch, slides: &[bool], n_heads: usize) -> Result<[usize; 2], Error> {
        let key = "attention.head_count_kv";
        let Some(Value::Array(layers)) = self.value(key).filter(|_| arch == Arch::Gemma4) else {
            return Ok([self.optional_size(key)?.unwrap_or(n_heads); 2]);
        };
        let sizes: Option<Vec<usize>> = layers.iter().map(whole).collect();
        let sizes = sizes.filter(|sizes| sizes.len() == slides.len());
        let sizes = sizes.ok_or_else(|| {
            self.bad(key, format!("is not a list of whole numbers for each of {} layers", slides.len()))
        })?;
        let of = |kind: bool| {
            let mut sizes =
                sizes.iter().zip(slides).filter(|(_, slides)| **slides == kind).map(|(size, _)| *size);
            let first = sizes.next().unwrap_or(n_heads);
            if sizes.any(|size| size != first) {
                return Err(self.bad(key, "differs between layers of one type, which is not supported"));
            }
            Ok(first)
        };
        Ok([of(false)?, of(true)?])
    }

    /// The attention of sliding layers, where `full` is that of the others.
    fn sliding_attention(
        &self,
        arch: Arch,
        full: &Attention,
        window: usize,
        n_kv_heads: usize,
    ) -> Result<Attention, Error> {
        let has_rope = matches!(arch, Arch::Gemma3 | Arch::Gemma4);
        let rope = if has_rope { self.local_rope()? } else { full.rope.clone() };
        let common =
            Attention { n_kv_heads, rope, window: Some(window), values_are_keys: false, ..full.clone() };
        if arch != Arch::Gemma4 {
            return Ok(common);
        }
        let head_dim = self.size("attention.key_length_swa")?;
        for key in ["attention.value_length_swa", "rope.dimension_count_swa"] {
            if self.optional_size(key)?.is_some_and(|size| size != head_dim) {
                return Err(self.bad(key, format!("is not {head_dim}, the head size of sliding layers")));
            }
        }
        Ok(Attention { head_dim, rotary_dim: head_dim, ..common })
    }
}
