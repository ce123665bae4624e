//! Linear probes: fixed linear maps of a model's hidden states, the only view of them that judges have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;

/// A linear probe: maps from a token's hidden states to numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinearProbe {
    /// After how many layers the states are taken, ascending.
    pub depths: Vec<usize>,
    /// One map for each number.
    ///
    /// Shape: `[numbers][depths * hidden]`.
    pub maps: Vec<Vec<f32>>,
}

/// The values of a linear probe for each token of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// End of each token in the text. Unit: bytes.
    pub ends: Vec<usize>,
    /// Shape: `[tokens][numbers]`.
    pub values: Vec<Vec<f64>>,
}

/// The ends of a text's tokens, and the hidden states at each of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// End of each token in the text. Unit: bytes.
    pub ends: Vec<usize>,
    /// The residual stream after each of the requested depths.
    ///
    /// Shape: `[depths][tokens * hidden]`.
    pub states: Vec<Vec<f32>>,
    pub usage: Usage,
}

impl States {
    /// One token's states side by side, each scaled to a mean square of 1. The scale of the residual stream
    /// grows from layer to layer and differs between tokens; its direction is what the next layer reads.
    ///
    /// Shape: `[depths * hidden]`.
    pub fn features(&self, token: usize) -> Vec<f32> {
        let n = self.ends.len().max(1);
        let scaled = |states: &Vec<f32>| {
            let width = states.len() / n;
            let row = &states[token * width..(token + 1) * width];
            let square: f64 = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            let scale = (square / width.max(1) as f64).sqrt().max(f64::MIN_POSITIVE);
            row.iter().map(|x| (f64::from(*x) / scale) as f32).collect::<Vec<_>>()
        };
        self.states.iter().flat_map(scaled).collect()
    }

    /// Applies a linear probe with these depths. Sums have a fixed order, so that the same states give the
    /// same bits.
    pub fn apply(&self, probe: &LinearProbe) -> Reading {
        let shown = |token: usize| {
            let features = self.features(token);
            let dot =
                |map: &Vec<f32>| map.iter().zip(&features).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            probe.maps.iter().map(dot).collect()
        };
        Reading { ends: self.ends.clone(), values: (0..self.ends.len()).map(shown).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_scaled_and_mapped_token_by_token() {
        let states = States {
            ends: vec![2, 5],
            states: vec![vec![3.0, 3.0, 0.0, 2.0], vec![1.0, -1.0, 5.0, 5.0]],
            usage: Usage::default(),
        };
        assert_eq!(states.features(0), [1.0, 1.0, 1.0, -1.0]);
        let probe = LinearProbe { depths: vec![1, 2], maps: vec![vec![1.0, 2.0, 3.0, 4.0], vec![0.0; 4]] };
        let Reading { ends, values } = states.apply(&probe);
        assert_eq!(ends, [2, 5]);
        assert_eq!(values[0], [2.0, 0.0]);
        assert!((values[1][0] - (2.0 * 2f64.sqrt() + 7.0)).abs() < 1e-6);
    }

    #[test]
    fn nothing_has_no_states() {
        assert_eq!(States::default().apply(&LinearProbe::default()), Reading::default());
    }
}
