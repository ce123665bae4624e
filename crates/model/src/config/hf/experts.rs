//! Experts from a `config.json`: settings that classes share.

use serde_json::Value;

use super::{Settings, shown};
use crate::{
    Result,
    config::{Experts, Routing},
};

impl Settings<'_> {
    /// Number and width of the experts, and a softmax that gives each token its experts; their number is
    /// under the class's key or the one that newer versions write.
    pub fn experts(&self, [key, other]: [&str; 2], is_normalised: bool) -> Result<Experts> {
        let n = self.either_size(key, other)?;
        let routing = Routing::softmax(self.top_k("num_experts_per_tok", n)?, is_normalised);
        Ok(Experts::new(n, self.needed_size("moe_intermediate_size")?, routing, self.n_layers()?))
    }

    /// A size under the class's key or another name of it.
    pub fn either_size(&self, key: &str, other: &str) -> Result<usize> {
        let n = match (self.given(key), self.given(other)) {
            (None, Some(_)) => self.needed_size(other)?,
            _ => self.needed_size(key)?,
        };
        if self.given(other).is_some() && self.needed_size(other)? != n {
            return Err(self.bad(other, format!("is not {n}, as `{key}` is; hint: remove one of them")));
        }
        Ok(n)
    }

    /// Experts of a token, of `n`.
    pub fn top_k(&self, key: &str, n: usize) -> Result<usize> {
        let top_k = self.needed_size(key)?;
        if (1..=n).contains(&top_k) {
            return Ok(top_k);
        }
        let reason = format!("is {top_k}; a number from 1 to {n}, that of the experts, was expected");
        Err(self.bad(key, reason))
    }

    /// Every layer of a step has experts, unless it is listed as dense.
    pub fn sparse_layers(&self) -> Result<Vec<bool>> {
        let step = self.needed_size("decoder_sparse_step")?;
        if step == 0 {
            return Err(self.bad("decoder_sparse_step", "is 0; a number from 1 was expected"));
        }
        let key = "mlp_only_layers";
        let dense: Vec<u64> = match self.value(key) {
            None => Vec::new(),
            Some(value) => {
                let list = value.as_array().and_then(|list| list.iter().map(Value::as_u64).collect());
                list.ok_or_else(|| self.bad(key, format!("is {}, not a list of layers", shown(value))))?
            }
        };
        Ok((0..self.n_layers()?)
            .map(|layer| (layer + 1).is_multiple_of(step) && !dense.contains(&(layer as u64)))
            .collect())
    }
}
