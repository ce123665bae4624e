//! Several GPUs for one model: a tensor-parallel group. They are of one kind, and most reach each other's
//! memory. It opens no GPU and loads nothing.

use super::{
    Error, Gpu, Sizes,
    peers::{self, Access},
    shard::{Shard, SharedHeads},
};
use tribunal_model::Config;

/// GPUs that can share a model.
#[derive(Clone)]
pub struct Group {
    gpus: Vec<Gpu>,
    /// The first two GPUs of which one does not read the other's memory, and the reason.
    apart: Option<([usize; 2], Access)>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.gpus.first().map_or("", Gpu::name);
        let ordinals: Vec<String> = self.gpus.iter().map(|gpu| gpu.ordinal().to_string()).collect();
        write!(f, "{name} ({})", ordinals.join("+"))
    }
}

impl Group {
    /// Gives each of some distinct GPUs access to the memory of the others, where the driver allows it and
    /// reads return the bytes written.
    ///
    /// # Errors
    /// They are not of one kind, or the driver fails.
    pub fn new(gpus: Vec<Gpu>) -> Result<Self, Error> {
        for gpu in gpus.iter().skip(1) {
            if !gpu.is_like(&gpus[0]) {
                return Err(Error::Unequal {
                    first: gpus[0].ordinal(),
                    first_name: gpus[0].name().to_owned(),
                    ordinal: gpu.ordinal(),
                    name: gpu.name().to_owned(),
                });
            }
        }
        let mut apart = None;
        for from in &gpus {
            for to in gpus.iter().filter(|to| to.ordinal() != from.ordinal()) {
                match peers::access(from, to)? {
                    Access::Direct => {}
                    other => apart = apart.or(Some(([from.ordinal(), to.ordinal()], other))),
                }
            }
        }
        Ok(Self { gpus, apart })
    }

    /// Returns true if each reaches the memory of all others.
    pub(super) fn has_peers(&self) -> bool {
        self.apart.is_none()
    }

    /// A remark on how they exchange rows, if any.
    pub fn remark(&self) -> Option<String> {
        let ([from, to], access) = self.apart?;
        let (reason, hint) = match access {
            Access::Wrong => (
                format!("GPU {from} reads other bytes from the memory of GPU {to} than were written there"),
                "the machine's IOMMU or PCIe switch redirects what GPUs send each other; `iommu=pt`, or ACS switched off, \
                 as in NVIDIA's NCCL troubleshooting guide",
            ),
            Access::Refused | Access::Direct => (
                format!("GPU {from} has no access to the memory of GPU {to}"),
                "`nvidia-smi topo -p2p r` shows which GPUs have access",
            ),
        };
        Some(format!(
            "{reason}, so what the GPUs exchange goes through this machine's memory, which is slow; scores do not \
             change\nhint: {hint}"
        ))
    }

    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// These GPUs, each changed by `change`.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Gpu) -> Gpu) -> Self {
        Self { gpus: self.gpus.iter().map(change).collect(), apart: self.apart }
    }

    /// The configuration of the first GPU's part of a model; all have as many heads.
    ///
    /// # Errors
    /// A number of GPUs that the model cannot be sharded over.
    pub fn config(&self, config: &Config) -> Result<Config, Error> {
        let (n_cards, heads) = (self.gpus.len(), SharedHeads::from(Sizes::from(config)));
        let possible = heads.possible_cards();
        if !possible.contains(&n_cards) {
            return Err(Error::Cards { n_cards, heads: Box::new(heads), possible });
        }
        Ok(Shard { card: 0, n_cards }.config(config))
    }
}
