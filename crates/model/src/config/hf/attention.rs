//! The attention of full and of sliding layers: heads, rope and window of each.

use super::{
    super::{
        Arch,
        attention::{Attention, Layers},
    },
    gemma4::{self, Heads},
    layers, rope,
    settings::Settings,
};
use crate::Error;

pub fn read(s: &Settings<'_>, arch: Arch, n_layers: usize) -> Result<Layers, Error> {
    let (hidden, n_heads) = (s.needed_size("hidden_size")?, s.needed_size("num_attention_heads")?);
    let heads = Heads {
        head_dim: s.size("head_dim")?.unwrap_or(hidden / n_heads.max(1)),
        n_kv_heads: s.size("num_key_value_heads")?.unwrap_or(n_heads),
    };
    let (window, slides) = layers::windows(s, arch, n_layers)?;
    let of_full = if arch == Arch::Gemma4 { gemma4::full_heads(s, &slides, heads)? } else { heads };
    let (rope, sliding_rope) = rope::ropes(s, arch, of_full.head_dim)?;
    let full = Attention {
        head_dim: of_full.head_dim,
        n_kv_heads: of_full.n_kv_heads,
        rope,
        rotary_dim: rope::rotary_dim(s, arch, of_full.head_dim)?,
        window: None,
        values_are_keys: arch == Arch::Gemma4 && s.flag("attention_k_eq_v")?,
    };
    let sliding = window.map(|window| Attention {
        head_dim: heads.head_dim,
        n_kv_heads: heads.n_kv_heads,
        rope: sliding_rope.unwrap_or_else(|| full.rope.clone()),
        rotary_dim: if arch == Arch::Gemma4 { heads.head_dim } else { full.rotary_dim },
        window: Some(window),
        values_are_keys: false,
    });
    Ok(Layers { full, sliding, slides })
}
