//! The training loop: which examples a step takes, their gradients summed, the adapters moved, the held-out loss
//! watched. It writes no report: whoever starts it hears of every step.

use std::path::PathBuf;

use candle_core::Tensor;
use serde::Serialize;

use super::{
    Error,
    adamw::{self, Moments, Pace},
    draw,
    forward::Upper,
    lora::{Adapters, Dropout},
    lower::{Lower, Text},
    state::{self, State},
    task::{Gradient, Loss, Task},
};

/// Steps that a training that is killed may have to take again.
const SAVE_EVERY: usize = 10;

/// How adapters are trained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    pub n_steps: usize,
    /// Examples of one step.
    pub batch: usize,
    /// Tokens that go through the layers together; a step of more is taken in parts.
    pub max_rows: usize,
    /// The greatest learning rate.
    pub rate: f64,
    /// Steps until it is reached.
    pub warm_up: usize,
    pub weight_decay: f64,
    /// The greatest length of a step's gradient.
    pub clip: f64,
    /// Steps between evaluations.
    pub every: usize,
    /// Evaluations without a better held-out loss after which training stops.
    pub patience: usize,
    pub seed: u64,
}

/// What is trained, and on what.
pub struct Training<'a> {
    pub recipe: Recipe,
    pub upper: &'a Upper,
    pub adapters: &'a Adapters,
    /// The rows of the task's texts.
    pub lower: Lower,
    /// The first `n_train` examples are trained on, the others held out.
    pub task: &'a dyn Task,
    pub n_train: usize,
    /// Where the state is kept.
    pub state_path: PathBuf,
    /// What tells this training from others.
    pub digest: String,
}

/// What there is to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    Step {
        step: usize,
        /// In the task's unit: nats a token of the answers, Huber's loss a translation.
        loss: f64,
        rate: f64,
        /// Of the gradient, before it was cut.
        norm: f64,
        /// Tokens that went through the layers.
        rows: usize,
    },
    HeldOut {
        step: usize,
        loss: f64,
        is_best: bool,
    },
}

/// A sum of losses, and what it is a sum over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub sum: f64,
    pub n: usize,
    pub rows: usize,
}

impl Training<'_> {
    /// Trains until all steps are made, the held-out loss has not got better for long enough, or `go_on` says no; it
    /// then goes on from the same place when it is called again.
    ///
    /// # Errors
    /// A state of another training, a file that cannot be read or written, an adapter that gets no gradient.
    pub fn run(
        &mut self,
        tell: &mut dyn FnMut(&Event) -> Result<(), Error>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<State, Error> {
        let mut state = self.begin()?;
        if state.progress.step == 0 && state.progress.best.is_none() {
            self.evaluate(&mut state, tell)?;
        }
        while !state.progress.is_over && go_on() {
            let step = state.progress.step + 1;
            tell(&self.step(step, &mut state.moments)?)?;
            state.progress.step = step;
            let is_last = step >= self.recipe.n_steps;
            let is_measured = is_last || step.is_multiple_of(self.recipe.every);
            if is_measured {
                self.evaluate(&mut state, tell)?;
                state.progress.is_over = is_last || state.progress.worse >= self.recipe.patience;
            }
            // A measurement takes long, and its adapters may be the best.
            if is_measured || step.is_multiple_of(SAVE_EVERY) {
                state::save(&self.state_path, &state, self.adapters)?;
            }
        }
        state::save(&self.state_path, &state, self.adapters)?;
        Ok(state)
    }

    fn begin(&self) -> Result<State, Error> {
        let found = state::load(&self.state_path, self.adapters)?;
        let Some(state) = found else {
            let progress = state::Progress { digest: self.digest.clone(), ..state::Progress::default() };
            return Ok(State { progress, ..State::default() });
        };
        if state.progress.digest != self.digest {
            return Err(Error::Unsuitable(format!(
                "`{}` is the state of another training: its data, its model or its options were others; hint: choose \
                 another folder, or delete the file",
                self.state_path.display()
            )));
        }
        Ok(state)
    }

    /// The examples of a step: every epoch takes all, in an order of its own.
    #[must_use]
    pub fn chosen(&self, step: usize) -> Vec<usize> {
        let first = (step - 1) * self.recipe.batch;
        let mut order: Vec<usize> = Vec::new();
        let mut of_epoch = None;
        let one = |i: usize| {
            let epoch = i / self.n_train;
            if of_epoch != Some(epoch) {
                order = (0..self.n_train).collect();
                draw::shuffle(self.recipe.seed, epoch as u64, &mut order);
                of_epoch = Some(epoch);
            }
            order[i % self.n_train]
        };
        (first..first + self.recipe.batch).map(one).collect()
    }

    /// The gradients of one step without the step: how many tokens went through the layers.
    ///
    /// # Errors
    /// As [`Training::run`].
    pub fn trial(&mut self, step: usize) -> Result<usize, Error> {
        Ok(self.gradients(&self.chosen(step), step)?.0.rows)
    }

    fn step(&mut self, step: usize, moments: &mut Vec<Moments>) -> Result<Event, Error> {
        let chosen = self.chosen(step);
        let (total, mut gradients) = self.gradients(&chosen, step)?;
        let by = (1.0 / total.n.max(1) as f64) as f32;
        gradients.iter_mut().flatten().for_each(|g| *g *= by);
        let norm = adamw::clip(&mut gradients, self.recipe.clip);
        let Recipe { n_steps, warm_up, rate, weight_decay: decay, .. } = self.recipe;
        let rate = adamw::rate(step, n_steps, warm_up, rate);
        let tensors = self.adapters.tensors();
        moments.resize(tensors.len(), Moments::default());
        for (((_, var), gradient), moments) in tensors.into_iter().zip(&gradients).zip(moments) {
            adamw::update(var, gradient, moments, Pace { step, rate, decay })?;
        }
        let loss = total.sum / total.n.max(1) as f64;
        Ok(Event::Step { step, loss, rate, norm, rows: total.rows })
    }

    /// The gradients of the summed loss of these examples, in the order of [`Adapters::tensors`].
    pub(super) fn gradients(
        &mut self,
        chosen: &[usize],
        step: usize,
    ) -> Result<(Total, Vec<Vec<f32>>), Error> {
        let mut total = Total::default();
        let mut sums: Vec<Vec<f32>> = Vec::new();
        let texts = self.task.texts();
        for (i, part) in self.parts(&texts, chosen).into_iter().enumerate() {
            let dropout = Dropout { seed: self.recipe.seed, step: ((step as u64) << 16) + i as u64 };
            let (x, batch) = self.lower.batch(&texts, &self.texts_of(&part))?;
            total.rows += x.dim(0)?;
            let h = self.upper.forward(x, &batch, self.adapters, Some(dropout))?; // [wanted, hidden]
            let loss = self.loss(&h, &part, Gradient::Wanted)?;
            total.sum += loss.sum;
            total.n += loss.n;
            // What falls along `gradient` falls as the loss does.
            let gradient = Tensor::from_vec(loss.gradient, h.shape(), h.device())?;
            let grads = (h * gradient)?.sum_all()?.backward()?;
            for (i, (name, var)) in self.adapters.tensors().into_iter().enumerate() {
                let grad = grads.get(var).ok_or_else(|| {
                    Error::Unsuitable(format!(
                        "the adapter `{name}` gets no gradient, which is a fault of ours"
                    ))
                })?;
                let grad = grad.flatten_all()?.to_vec1::<f32>()?;
                match sums.get_mut(i) {
                    Some(sum) => sum.iter_mut().zip(grad).for_each(|(a, b)| *a += b),
                    None => sums.push(grad),
                }
            }
        }
        Ok((total, sums))
    }

    fn loss(&self, h: &Tensor, part: &[usize], gradient: Gradient) -> Result<Loss, Error> {
        Ok(self.task.loss(self.upper, &h.flatten_all()?.to_vec1::<f32>()?, part, gradient))
    }

    /// The texts of some examples.
    fn texts_of(&self, examples: &[usize]) -> Vec<usize> {
        examples.iter().flat_map(|&example| self.task.texts_of(example)).collect()
    }

    /// Examples in parts that go through the layers together, shortest first; a longer one goes alone.
    fn parts(&self, texts: &[Text<'_>], chosen: &[usize]) -> Vec<Vec<usize>> {
        let rows_of =
            |example: usize| self.task.texts_of(example).map(|text| texts[text].tokens.len()).sum::<usize>();
        let mut sorted = chosen.to_vec();
        sorted.sort_by_key(|&example| (rows_of(example), example));
        let (mut parts, mut rows): (Vec<Vec<usize>>, usize) = (Vec::new(), 0);
        for example in sorted {
            let n = rows_of(example);
            if let Some(part) = parts.last_mut().filter(|_| rows + n <= self.recipe.max_rows) {
                part.push(example);
            } else {
                parts.push(vec![example]);
                rows = 0;
            }
            rows += n;
        }
        parts
    }

    /// The held-out loss, in the task's unit.
    ///
    /// # Errors
    /// The rows of the lower layers cannot be read.
    pub fn held_out_loss(&mut self) -> Result<f64, Error> {
        let held_out: Vec<usize> = (self.n_train..self.task.len()).collect();
        let mut total = Total::default();
        let texts = self.task.texts();
        for part in self.parts(&texts, &held_out) {
            let (x, batch) = self.lower.batch(&texts, &self.texts_of(&part))?;
            let h = self.upper.forward(x, &batch, self.adapters, None)?.detach();
            let loss = self.loss(&h, &part, Gradient::Unwanted)?;
            total.sum += loss.sum;
            total.n += loss.n;
        }
        Ok(total.sum / total.n.max(1) as f64)
    }

    fn evaluate(
        &mut self,
        state: &mut State,
        tell: &mut dyn FnMut(&Event) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (loss, step) = (self.held_out_loss()?, state.progress.step);
        let is_best = state.progress.best.is_none_or(|(best, _)| loss < best);
        if is_best {
            state.progress.best = Some((loss, step));
            state.progress.worse = 0;
            state.best = state::values(self.adapters)?;
        } else {
            state.progress.worse += 1;
        }
        tell(&Event::HeldOut { step, loss, is_best })
    }
}
