//! Cache, states, buffers and logits of a GPU, as the engine reserves and reads them.

use super::{
    super::{
        Error,
        arena::{Extent, Places},
        delta_net::States,
        memory::{CACHE, Memory, STATES},
        tail::Wants,
    },
    Cuda,
};
use tribunal_model::{
    KvType, Result,
    backend::{Recheck, Runtime},
    sampler::{SampleRequest, SampledToken},
    step::StepLimits,
};

/// Rows up to which a step's time is that of reading the weights.
const CHEAP_ROWS: usize = 64;

/// The most bytes of logits, but for a single row, that are copied to the host at a time.
const LOGITS_AT_ONCE: usize = 16 << 20;

impl Runtime for Cuda {
    fn reserve(&mut self, n_blocks: usize, kv: KvType) -> Result<()> {
        if kv != KvType::Bf16 {
            return Err(Error::Cache(kv.name()).into());
        }
        self.here()?;
        self.forget_recordings();
        self.cache = None;
        let bytes = n_blocks * kv.block_bytes(&self.config);
        self.cache = Some(Memory::new(self.gpu.context(), bytes, CACHE)?);
        self.n_blocks = n_blocks;
        Ok(())
    }

    fn reserve_states(&mut self, n_slots: usize) -> Result<()> {
        self.here()?;
        self.forget_recordings();
        self.states = None;
        let Some(delta_net) = &self.config.delta_net else { return Ok(()) };
        let (layer_bytes, slot_bytes) = (size_of::<f32>() * delta_net.state(), self.config.state_bytes());
        let memory = Memory::new(self.gpu.context(), n_slots * slot_bytes, STATES)?;
        self.states = Some(States { memory, n_slots, slot_bytes, layer_bytes });
        Ok(())
    }

    fn step_bytes(&self, most: StepLimits) -> usize {
        let extra = self.extra();
        let extent = Extent::from_limits(most, self.sizes(), extra.n_adapters);
        let ropes = std::iter::once(&self.angles).chain(&self.sliding_angles);
        let ropes: usize = ropes.map(|rope| rope.bytes(most.context)).sum();
        Places::new(extent, self.sizes(), extra).bytes + ropes
    }

    fn prepare(&mut self, most: StepLimits) -> Result<()> {
        self.here()?;
        let extent = Extent::from_limits(most, self.sizes(), self.extra().n_adapters);
        self.make(extent)?;
        let upload = self.weight_upload.get_mut();
        for rope in std::iter::once(&mut self.angles).chain(&mut self.sliding_angles) {
            rope.make(most.context, upload)?;
        }
        self.step_upload.reserve(extent.numbers)?;
        self.prepared = true;
        Ok(())
    }

    fn take_kernels(&mut self, recheck: Option<Recheck>) {
        self.gpu = recheck.map_or_else(|| self.own.clone(), |recheck| self.own.rechecked_by(recheck));
    }

    fn take(&self, wants: &[SampleRequest]) -> Result<Vec<Option<SampledToken>>> {
        let mut choices = vec![None; wants.len()];
        let wants = Wants::new(&wants[..wants.len().min(self.plan.n_wanted)], self.config.vocab);
        if let Some(logits) = self.logits.filter(|_| !wants.rows.is_empty()) {
            for (&row, choice) in wants.rows.iter().zip(self.choose(logits, &wants)?) {
                choices[row] = choice;
            }
        }
        Ok(choices)
    }

    fn logprobs(&self, rows: &[(usize, &[u32])]) -> Result<Vec<Option<Vec<f64>>>> {
        let known = rows.iter().filter(|(row, _)| *row < self.plan.n_wanted);
        let requested: Vec<(usize, u32)> =
            known.flat_map(|&(row, ids)| ids.iter().map(move |&id| (row, id))).collect();
        let mut logprobs = Vec::with_capacity(requested.len());
        for some in requested.chunks(self.logprobs_at_once()) {
            let Some(logits) = self.logits else { break };
            let choices = self.choose(logits, &Wants::for_logprobs(some))?;
            logprobs.extend(choices.into_iter().map(|choice| choice.map(|choice| choice.logprob)));
        }
        let mut logprobs = logprobs.into_iter();
        let of_row = |&(row, ids): &(usize, &[u32])| {
            if row >= self.plan.n_wanted {
                return None;
            }
            let some: Vec<Option<f64>> = logprobs.by_ref().take(ids.len()).collect();
            (some.len() == ids.len()).then(|| some.into_iter().collect()).flatten()
        };
        Ok(rows.iter().map(of_row).collect())
    }

    fn each_logits(&self, visit: &mut dyn FnMut(&[f32])) -> Result<()> {
        let Some(logits) = self.logits else { return Ok(()) };
        self.here()?;
        let (row, n_rows) = (self.config.vocab * 4, self.plan.n_wanted);
        let at_once = (LOGITS_AT_ONCE / row).max(1);
        for first in (0..n_rows).step_by(at_once) {
            let bytes = self.fetch(logits + (first * row) as u64, at_once.min(n_rows - first) * row)?;
            for row in bytes.chunks_exact(row) {
                let row: Vec<f32> = row.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                visit(&row);
            }
        }
        Ok(())
    }

    fn cheap_rows(&self) -> usize {
        CHEAP_ROWS
    }

    fn computes_on_threads(&self) -> bool {
        false
    }
}
