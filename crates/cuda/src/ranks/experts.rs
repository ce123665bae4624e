//! A feed-forward half of experts on several GPUs: each computes some columns of every expert, as of every
//! other matrix, and chooses the experts of all rows by itself.
//!
//! ```text
//! x -> norm -> router, gate, up, own columns of each pair -> | -> down, own columns -> own columns of x += experts -> |
//!                                                pairs brought together                                     whole rows of x
//! ```

use super::{
    super::{
        backend::{Merged, Values},
        experts::Experts,
    },
    Ranks,
    exchange::Columns,
};
use tribunal_model::{self as model, Result, config};

impl Ranks {
    /// The outputs of each row's experts, and of the shared one: of each card's columns.
    pub(super) fn sum_of_experts(&mut self, h: &[Values], experts: &[Experts]) -> Result<()> {
        self.each(|i, cuda| cuda.route(&h[i], &experts[i]))?;
        self.sum_of_routed(h, experts)
    }

    /// The outputs of the experts of rows already routed, and of the shared one: of each card's columns.
    pub(super) fn sum_of_routed(&mut self, h: &[Values], experts: &[Experts]) -> Result<()> {
        let Some(config::Experts { width, shared, .. }) = self.whole.experts else {
            return Err(model::Error::Step("experts of a model without any".into()));
        };
        if let Some(shared) = shared {
            let gated = self.each(|i, cuda| cuda.shared_gated(&h[i], &experts[i]))?;
            let gated: Vec<Values> = gated.into_iter().flatten().collect();
            let full_rows = self.whole_rows(&gated, self.ends(shared.width, 2))?;
            self.each(|i, cuda| cuda.shared_output(&full_rows[i], &experts[i]))?;
        }
        let gated = self.each(|i, cuda| cuda.gated_experts(&h[i], &experts[i]))?;
        let full_rows = self.whole_rows(&gated, self.ends(width, 2))?; // [pairs, width]
        self.each(|i, cuda| cuda.expert_outputs(&full_rows[i], &experts[i])).map(|_| ())
    }

    /// Writes each card's columns of the rows' sums to rows of the hidden size, or adds them, and gathers the
    /// others'.
    pub(super) fn whole_experts(&mut self, experts: &[Experts], to: &[Values], adds: bool) -> Result<()> {
        let ends = self.ends(self.whole.hidden, 4);
        self.each(|i, cuda| {
            let first = if i == 0 { 0 } else { ends[i - 1] };
            let merged = Merged { to: to[i].at() + first as u64, adds };
            cuda.merge_experts(to[i].n_rows(), &experts[i], merged)
        })?;
        self.exchange(&Columns { pieces: to, ends, in_place: true }, to)
    }
}
