//! The start of a step: its plan is made and uploaded, and blocks of the cache are copied.

use super::{
    super::{
        Error,
        plan::{Layout, Plan},
    },
    Cuda, tail,
};
use tribunal_model::{Result, step::Step};

impl Cuda {
    /// Checks a step and prepares for it.
    pub(crate) fn expect(&mut self, step: &Step) -> Result<()> {
        step.check(self.n_blocks, self.config.vocab)?;
        if self.config.delta_net.is_some() {
            step.check_states(self.states.as_ref().map_or(0, |states| states.n_slots))?;
        }
        self.here()?;
        self.logits = None;
        if let Some(graphs) = &mut self.graphs {
            graphs.abandon();
        }
        Ok(self.reach(step)?)
    }

    /// Plans a step.
    pub(crate) fn plan(&self, step: &Step) -> Plan {
        // Captured states may leave the device in the middle of a step, and a recording is of all layers.
        let as_graph = self.gpu.graphs && step.noted.is_empty() && step.n_layers.is_none();
        Plan::new(step, &self.config, self.limits(), as_graph)
    }

    /// Uploads a step's plan, and copies its blocks and states.
    pub(crate) fn start(&mut self, plan: Plan) -> Result<(), Error> {
        self.plan = plan;
        self.hold(self.plan.extent())?;
        self.noted = tail::Noted::default();
        self.send()?;
        self.copy_blocks()?;
        self.copy_states()
    }

    /// Returns true if memory that recordings refer to has moved since the last call.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The layout of the current step, if it may be recorded.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.plan.layout.as_ref()
    }

    /// Records that the step was launched as a whole, and the address of its logits.
    pub(crate) fn set_whole(&mut self, at: u64) {
        self.gpu.count_whole_step();
        self.logits = Some(at);
    }

    /// Uploads the step's numbers. Recordings refer to their memory.
    fn send(&mut self) -> Result<(), Error> {
        let to = self.numbers()?;
        self.step_upload.send(&self.plan.numbers.values, to, &self.stream)
    }

    /// Extends the ropes' tables to the positions of the step.
    fn reach(&mut self, step: &Step) -> Result<(), Error> {
        let furthest = step.positions.iter().max().map_or(0, |&position| position as usize + 1);
        let upload = self.weight_upload.get_mut();
        let mut moved = self.angles.reach(furthest, upload)?;
        if let Some(angles) = &mut self.sliding_angles {
            moved |= angles.reach(furthest, upload)?;
        }
        if moved {
            self.forget_recordings();
        }
        Ok(())
    }
}
