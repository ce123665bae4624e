//! What a training learns, as the training loop sees it: examples of one or several texts, and a loss of the rows that the
//! layers give for them.

use std::ops::Range;

use super::{forward::Upper, lower::Text};

/// Something to learn.
pub trait Task {
    /// What the layers read, example by example.
    fn texts(&self) -> Vec<Text<'_>>;

    /// The number of examples.
    fn len(&self) -> usize;

    /// Whether there is nothing to learn from.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which of the texts are an example's.
    fn texts_of(&self, example: usize) -> Range<usize>;

    /// The loss of some examples.
    ///
    /// Shape: `rows` `[wanted, hidden]`, what the layers give for the examples' wanted rows, in their order.
    fn loss(&self, upper: &Upper, rows: &[f32], examples: &[usize], gradient: Gradient) -> Loss;
}

/// The first examples of a task.
pub struct First<'a> {
    pub task: &'a dyn Task,
    pub n: usize,
}

impl Task for First<'_> {
    fn texts(&self) -> Vec<Text<'_>> {
        let n = self.len().checked_sub(1).map_or(0, |last| self.texts_of(last).end);
        let mut texts = self.task.texts();
        texts.truncate(n);
        texts
    }

    fn len(&self) -> usize {
        self.n.min(self.task.len())
    }

    fn texts_of(&self, example: usize) -> Range<usize> {
        self.task.texts_of(example)
    }

    fn loss(&self, upper: &Upper, rows: &[f32], examples: &[usize], gradient: Gradient) -> Loss {
        self.task.loss(upper, rows, examples, gradient)
    }
}

/// A loss, and where it falls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The sum over whatever is counted: nats of tokens, Huber's losses of translations.
    pub sum: f64,
    /// How many those are.
    pub n: usize,
    /// The gradient of the sum. Empty when it was not asked for.
    ///
    /// Shape: `[wanted, hidden]`.
    pub gradient: Vec<f32>,
}

/// Whether a loss is wanted with its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    Wanted,
    Unwanted,
}
