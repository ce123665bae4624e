//! Tables of rotary angles, computed once for every backend, so that all rotate by the same numbers.

use super::config::Rope;

/// Cosines and sines of all positions up to the furthest one so far, under one rope.
pub struct Angles {
    frequencies: Vec<f32>,
    /// Multiplies cosines and sines.
    scale: f32,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Angles {
    pub fn new(rope: &Rope, rotary_dim: usize) -> Self {
        let (frequencies, scale) = rope.frequencies(rotary_dim);
        Self { frequencies, scale, cos: Vec::new(), sin: Vec::new() }
    }

    /// Extends the tables to the first `n` positions.
    pub fn reach(&mut self, n: usize) {
        for position in self.n_positions()..n {
            let angles = self.frequencies.iter().map(|f| position as f32 * f);
            self.cos.extend(angles.clone().map(|a| a.cos() * self.scale));
            self.sin.extend(angles.map(|a| a.sin() * self.scale));
        }
    }

    pub fn n_positions(&self) -> usize {
        self.cos.len() / self.frequencies.len()
    }

    /// Angles of a position: half of the values that are rotated.
    pub fn half(&self) -> usize {
        self.frequencies.len()
    }

    /// Cosines and sines of one position.
    ///
    /// Shape: both `[rotary_dim / 2]`.
    ///
    /// # Panics
    /// When the position has not been reached.
    #[inline]
    pub fn at(&self, position: u32) -> (&[f32], &[f32]) {
        let half = self.frequencies.len();
        let at = position as usize * half..(position as usize + 1) * half;
        (&self.cos[at.clone()], &self.sin[at])
    }

    /// Cosines and sines of all positions that have been reached.
    ///
    /// Shape: both `[positions, rotary_dim / 2]`.
    pub fn tables(&self) -> (&[f32], &[f32]) {
        (&self.cos, &self.sin)
    }
}
