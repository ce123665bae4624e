//! Cautions about the verdicts of a run: what limits the validity of its scores. They come from the judge's
//! method, and from its fit to the input, which `run.json` keeps. Every output has this list.

use crate::{judges::registry, plain::plain, signature::Signature};

/// Caution about a judge whose means do not rank systems.
pub const UNRANKED: &str = "Do not order these systems by their means";

/// All cautions about a run with this signature, as sentences without full stops. `of_input` are those about
/// the judge on this input. None of the method where it is unknown.
pub fn cautions(signature: &Signature, of_input: &[String], n_systems: usize) -> Vec<String> {
    let method = registry::of_signature(signature);
    let is_unranked = n_systems > 1 && method.is_some_and(|method| !method.ranks_systems());
    let refusal = is_unranked.then(|| UNRANKED.to_owned());
    let of_method = method.and_then(|method| method.caution());
    let of_input = of_input.iter().map(|caution| plain(caution).into_owned());
    refusal.into_iter().chain(of_method).chain(of_input).collect()
}
