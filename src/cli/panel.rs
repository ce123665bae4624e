//! From the model and engine arguments to a panel: the one place where the command line meets the engine.

use anyhow::{Result, bail};

use super::args::{EngineArgs, ModelArgs};
use crate::{judges::Panel, llm::Sampling, run::Plan};

/// A panel with what the command line must know of its models.
pub struct Seated {
    pub panel: Panel,
    /// The engine's fields of the signature, in order: model, sha256, dtype, act, kv, device, tier.
    pub signature: Vec<(String, String)>,
    /// Names and values that the engine adds to a dry run's table: memory, hours.
    pub estimate: Estimate,
}

/// What the engine expects of a plan, as names and values.
pub type Estimate = Box<dyn Fn(&Plan) -> Vec<(String, String)>>;

/// How a command gets its panel: [`panel`], or a script in tests.
pub type Seat = fn(&ModelArgs, &EngineArgs, Sampling) -> Result<Seated>;

/// Loads the models that the arguments name.
///
/// # Errors
/// A model that cannot be found, read or run here.
pub fn panel(model: &ModelArgs, engine: &EngineArgs, _sampling: Sampling) -> Result<Seated> {
    bail!("no engine can run `{}` on `{}` in this build", model.model, engine.device())
}
