//! The decoder of all architectures, over any [`Backend`]; the differences are fields of its [`Config`].
//! One call runs one step of any mix of prompt chunks and single tokens.

mod load;

use super::{
    Adapter, Config, Error, Result, Weights,
    adapter::{AdapterLayer, Module},
    backend::{
        Added, After, Backend, Beside, BesideNorms, Cut, HeadNorms, LogitsStatus, Pointwise, Recheck, Rows,
        Runtime, StepStatus,
    },
    config::{AttentionKind, LayerNorms},
    step::Step,
};
use load::Load;

/// A model loaded on any device: it runs steps and samples from their logits.
pub trait Model: Send + Sync {
    fn config(&self) -> &Config;

    /// Cache, buffers and logits on the device.
    fn runtime(&self) -> &dyn Runtime;

    fn runtime_mut(&mut self) -> &mut dyn Runtime;

    /// Adds an adapter, and returns the number by which the parts of a step refer to it. Rows without an
    /// adapter are computed as if there were none.
    ///
    /// # Errors
    /// An adapter of a model of another shape, or no memory on the device.
    fn adapt(&mut self, adapter: &Adapter) -> Result<u32>;

    /// Runs one step: writes the tokens' keys and values to the cache and stores the requested logits. A GPU
    /// may still be computing when this returns.
    ///
    /// # Errors
    /// A token or block that does not exist, or the device fails.
    fn run(&mut self, step: Step) -> Result<()>;

    /// Runs the last step once more, by the kernels of a recheck, each launched by itself: the same bits
    /// where all kernels are right. A model with recurrent states has advanced and cannot.
    ///
    /// # Errors
    /// Those of [`Model::run`].
    fn run_again(&mut self, step: Step, recheck: Recheck) -> Result<()>;

    /// Runs a step through the first `layers` layers only and returns the residual stream of all its rows,
    /// with or without logits.
    ///
    /// Shape: `[rows, hidden]`.
    ///
    /// # Errors
    /// Those of [`Model::run`], and when the model has fewer layers.
    fn states(&mut self, step: Step, layers: usize) -> Result<Vec<f32>>;

    /// The hidden states that the last step captured: the residual stream after each of the step's depths,
    /// row after row.
    ///
    /// Shape: `[depths][noted, hidden]`.
    fn hidden_states(&self) -> &[Vec<f32>];
}

/// A loaded model on one kind of device.
pub struct Decoder<B: Backend> {
    config: Config,
    backend: B,
    embed_tokens: B::Table,
    layers: Vec<Layer<B>>,
    norm: B::Vector,
    /// `None` of a model with a score head.
    lm_head: Option<B::Linear>,
    hidden_states: Vec<Vec<f32>>,
    n_adapters: usize,
}

struct Layer<B: Backend> {
    norms: Norms<B::Vector>,
    mixer: Mixer<B>,
    /// The output of the token mixer.
    o_proj: B::Linear,
    feed: Feed<B>,
    /// The factor of the layer's output.
    factor: f32,
}

/// The norms of a layer; `None` where the architecture has none.
struct Norms<V> {
    before_attention: Option<V>,
    behind_attention: Option<V>,
    before_feed: Option<V>,
    behind_feed: Option<V>,
}

/// The way that a layer's tokens see earlier ones.
enum Mixer<B: Backend> {
    /// Keys and values of all of them, or of a window.
    Attention {
        /// Queries, keys, values and, where attention is gated, the gate.
        qkv: B::Linear,
        norms: [Option<B::Vector>; 3],
        sinks: Option<B::Vector>,
        kind: AttentionKind,
    },
    /// Compressed rows of all of them.
    Latent(B::Latent),
    /// A recurrent state.
    DeltaNet { projections: B::Linear, delta_net: B::DeltaNet },
}

/// The feed-forward half of a layer.
enum Feed<B: Backend> {
    Dense {
        gate_up: B::Linear,
        down_proj: B::Linear,
    },
    /// Without a gate.
    Ungated {
        up_proj: B::Linear,
        down_proj: B::Linear,
        function: Pointwise,
    },
    Experts(B::Experts),
    /// A dense half and experts, side by side.
    Beside {
        gate_up: B::Linear,
        down_proj: B::Linear,
        experts: B::Experts,
        norms: BesideNorms<B::Vector>,
    },
}

impl<B: Backend> Feed<B> {
    /// Adds the half layer of `h` to the stream; returns the input of the next one.
    fn add(
        &self,
        backend: &mut B,
        x: &mut B::Stream,
        h: &B::Input,
        after: After<'_, B::Vector>,
    ) -> Result<B::Input> {
        match self {
            Self::Dense { gate_up, down_proj } => {
                let gated = backend.gated_product(h, gate_up)?; // [rows, intermediate]
                backend.add_product(x, &gated, down_proj, after)
            }
            Self::Ungated { up_proj, down_proj, function } => {
                let activated = backend.pointwise_product(h, up_proj, *function)?; // [rows, intermediate]
                backend.add_product(x, &activated, down_proj, after)
            }
            Self::Experts(experts) => backend.add_experts(x, h, experts, after),
            Self::Beside { gate_up, down_proj, experts, norms } => {
                let gated = &backend.gated_product(h, gate_up)?; // [rows, intermediate]
                backend.add_beside(x, Beside { gated, down: down_proj, experts, norms }, after)
            }
        }
    }
}

/// The norms of heads, as arguments of an operation.
fn head_norms<V>([q, k, v]: &[Option<V>; 3]) -> HeadNorms<'_, V> {
    HeadNorms { q: q.as_ref(), k: k.as_ref(), v: v.as_ref() }
}

impl<B: Backend> Decoder<B> {
    /// Loads a checkpoint onto a device.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape than in the configuration, or no memory on the device.
    pub fn load(weights: &Weights, backend: B) -> Result<Self> {
        let config = weights.config().clone();
        let (vocab, hidden) = (config.vocab, config.hidden);
        let embed_tokens = backend.table(weights, "model.embed_tokens.weight", [vocab, hidden])?;
        let load = Load { weights, config: &config, backend: &backend };
        let lm_head = match config.score_head {
            Some(_) => None,
            None if config.tied => Some(backend.tied(&embed_tokens)?),
            None => Some(load.linear(&[("lm_head".into(), vocab)], hidden, Cut::Anywhere)?),
        };
        let layers = (0..config.n_layers).map(|layer| load.layer(layer)).collect::<Result<_, _>>()?;
        let norm = load.last_norm()?;
        let hidden_states = Vec::new();
        Ok(Self { config, backend, embed_tokens, layers, norm, lm_head, n_adapters: 0, hidden_states })
    }

    /// The operations of the current step: its first `n_layers` layers, with hidden states captured after
    /// those in `depths`, and the logits if they are `wanted`.
    fn operations(&mut self, wanted: bool, n_layers: usize, depths: &[u32]) -> Result<LogitsStatus> {
        let (mut x, mut h) = self.embed()?; // [rows, hidden]
        let (mut kept, mut after_all) = (LogitsStatus::Ready, None);
        for idx in 0..n_layers {
            let is_captured = depths.contains(&(idx as u32 + 1));
            if idx + 1 == n_layers && !wanted && !is_captured {
                self.remember(idx, &h)?;
                break;
            }
            (x, h) = self.layer(idx, x, &h)?;
            if is_captured && idx + 1 == self.layers.len() {
                after_all = Some(self.backend.floats(&x)?); // [wanted, hidden]
            } else if is_captured {
                self.backend.note(&x)?;
            }
        }
        if let Some(lm_head) = self.lm_head.as_ref().filter(|_| wanted) {
            let logits = self.backend.product(&h, lm_head)?; // [wanted, vocab]
            kept = self.backend.keep_logits(logits)?;
        }
        if !depths.is_empty() {
            self.hidden_states = self.backend.noted()?;
            self.hidden_states.extend(after_all);
        }
        Ok(kept)
    }

    /// The tokens' rows, and their norm for the first layer.
    fn embed(&mut self) -> Result<(B::Stream, B::Input)> {
        let x = self.backend.embed(&self.embed_tokens)?; // [rows, hidden]
        let first =
            self.layers.first().map_or(Some(&self.norm), |layer| layer.norms.before_attention.as_ref());
        let h = self.backend.norm(&x, first)?;
        Ok((x, h))
    }

    /// Computes one layer from the residual stream and its norm; returns both for the next layer. After the
    /// keys and values of the last layer, only the rows with logits remain.
    ///
    /// Shape: `[rows, hidden]` -> `[rows or wanted, hidden]`, each.
    fn layer(&mut self, idx: usize, mut x: B::Stream, h: &B::Input) -> Result<(B::Stream, B::Input)> {
        let next = self.layers.get(idx + 1);
        let next = next.map_or(Some(&self.norm), |layer| layer.norms.before_attention.as_ref());
        let is_last = idx + 1 == self.layers.len();
        let (backend, layer) = (&mut self.backend, &self.layers[idx]);
        let is_parallel = self.config.norms == LayerNorms::Shared;
        let mut input_of_wanted = None;
        let mixed = match &layer.mixer {
            Mixer::Attention { qkv, norms, sinks, kind } => {
                let mut queries = backend.project(idx, h, qkv, head_norms(norms), *kind)?;
                if is_last {
                    (x, queries) = backend.take_wanted(x, queries)?;
                    if is_parallel {
                        input_of_wanted = Some(backend.norm(&x, layer.norms.before_attention.as_ref())?);
                    }
                }
                let rows = if is_last { Rows::Wanted } else { Rows::All };
                backend.attend(idx, queries, rows, *kind, sinks.as_ref())? // [rows, heads head_dim]
            }
            Mixer::Latent(latent) => {
                let mut queries = backend.project_latent(idx, h, latent)?;
                if is_last {
                    (x, queries) = backend.take_wanted(x, queries)?;
                }
                let rows = if is_last { Rows::Wanted } else { Rows::All };
                let attended = backend.attend(idx, queries, rows, AttentionKind::Full, None)?; // [rows, heads rank]
                backend.expand(&attended, latent)? // [rows, heads value_dim]
            }
            // Never the last layer: the configuration is checked.
            Mixer::DeltaNet { projections, delta_net } => backend.mix(idx, h, projections, delta_net)?,
        };
        let of_stream;
        let h = if is_parallel {
            backend.accumulate(&mut x, &mixed, &layer.o_proj)?;
            input_of_wanted.as_ref().unwrap_or(h)
        } else {
            let (norm, next) = (layer.norms.behind_attention.as_ref(), layer.norms.before_feed.as_ref());
            let after = After { norm, factor: 1.0, next };
            of_stream = backend.add_product(&mut x, &mixed, &layer.o_proj, after)?;
            &of_stream
        };
        let after = After { norm: layer.norms.behind_feed.as_ref(), factor: layer.factor, next };
        let h = layer.feed.add(backend, &mut x, h, after)?;
        Ok((x, h))
    }

    /// Stores a layer's keys and values, or its state, for later tokens, and computes nothing else.
    fn remember(&mut self, idx: usize, h: &B::Input) -> Result<()> {
        let backend = &mut self.backend;
        match &self.layers[idx].mixer {
            Mixer::Attention { qkv, norms, kind, .. } => {
                backend.project(idx, h, qkv, head_norms(norms), *kind).map(drop)
            }
            Mixer::Latent(latent) => backend.project_latent(idx, h, latent).map(drop),
            Mixer::DeltaNet { projections, delta_net } => {
                backend.mix(idx, h, projections, delta_net).map(drop)
            }
        }
    }
}

impl<B: Backend> Model for Decoder<B> {
    fn config(&self) -> &Config {
        &self.config
    }

    fn runtime(&self) -> &dyn Runtime {
        &self.backend
    }

    fn runtime_mut(&mut self) -> &mut dyn Runtime {
        &mut self.backend
    }

    fn adapt(&mut self, adapter: &Adapter) -> Result<u32> {
        adapter.check(&self.config)?;
        let (none, scale) = (AdapterLayer::new(), adapter.scale() as f32);
        for (idx, layer) in self.layers.iter_mut().enumerate() {
            let layer_parts = adapter.layers.get(idx).unwrap_or(&none);
            let added = |module| layer_parts.get(&module).map(|matrices| Added { matrices, scale });
            let backend = &mut self.backend;
            let attention = self.config.attention_of(idx);
            match &mut layer.mixer {
                Mixer::Attention { qkv, .. } if self.config.gated_attention => {
                    let halves = layer_parts.get(&Module::Q).map(|both| both.halves(attention.head_dim));
                    let half = |i: usize| halves.as_ref().map(|halves| Added { matrices: &halves[i], scale });
                    backend.adapt(qkv, &[half(0), added(Module::K), added(Module::V), half(1)])?;
                }
                Mixer::Attention { qkv, .. } if self.config.neighbours_rotate => {
                    let turned = [Module::Q, Module::K].map(|module| {
                        layer_parts
                            .get(&module)
                            .map(|part| part.apart(attention.head_dim, attention.rotary_dim))
                    });
                    let [q, k] =
                        turned.each_ref().map(|part| part.as_ref().map(|matrices| Added { matrices, scale }));
                    backend.adapt(qkv, &[q, k, added(Module::V)])?;
                }
                Mixer::Attention { qkv, .. } => {
                    let values = if attention.values_are_keys { Module::K } else { Module::V };
                    backend.adapt(qkv, &[Module::Q, Module::K, values].map(added))?;
                }
                // No adapter has matrices of it: it is checked.
                Mixer::Latent(_) => {}
                Mixer::DeltaNet { projections, .. } => backend.adapt(projections, &[None; 4])?,
            }
            backend.adapt(&mut layer.o_proj, &[added(Module::O)])?;
            match &mut layer.feed {
                Feed::Dense { gate_up, down_proj } | Feed::Beside { gate_up, down_proj, .. } => {
                    backend.adapt(gate_up, &[Module::Gate, Module::Up].map(added))?;
                    backend.adapt(down_proj, &[added(Module::Down)])?;
                }
                Feed::Ungated { up_proj, down_proj, .. } => {
                    backend.adapt(up_proj, &[added(Module::Up)])?;
                    backend.adapt(down_proj, &[added(Module::Down)])?;
                }
                Feed::Experts(_) => {}
            }
        }
        self.n_adapters += 1;
        Ok(self.n_adapters as u32 - 1)
    }

    fn run(&mut self, mut step: Step) -> Result<()> {
        step.check_adapters(self.n_adapters)?;
        let n_layers = step.n_layers.map_or(self.layers.len(), |n_layers| n_layers as usize);
        let deepest = self.layers.len() - usize::from(self.lm_head.is_some());
        if let Some(&depth) = step.depths.iter().chain(&step.n_layers).find(|&&n| n as usize > deepest) {
            return Err(Error::Depth { depth, n_layers: self.layers.len() });
        }
        if self.lm_head.is_none() {
            // The last layer computes no other rows, and the head reads their states.
            step.wanted.clone_from(&step.noted);
        }
        let wanted = !step.wanted.is_empty();
        let depths = if step.noted.is_empty() { Vec::new() } else { step.depths.clone() };
        self.hidden_states.clear();
        if self.backend.begin(step)? == StepStatus::Execute
            && self.operations(wanted, n_layers, &depths)? == LogitsStatus::Rerun
        {
            let _kept = self.operations(wanted, n_layers, &depths)?;
        }
        Ok(())
    }

    fn run_again(&mut self, step: Step, recheck: Recheck) -> Result<()> {
        self.backend.take_kernels(Some(recheck));
        let run = self.run(step);
        self.backend.take_kernels(None);
        run
    }

    fn states(&mut self, mut step: Step, layers: usize) -> Result<Vec<f32>> {
        if layers > self.layers.len() {
            return Err(Error::Step(format!("{layers} layers of a model of {}", self.layers.len())));
        }
        step.check_adapters(self.n_adapters)?;
        step.wanted = (0..step.n_rows() as u32).collect();
        step.noted.clone_from(&step.wanted);
        if self.backend.begin(step)? == StepStatus::Replayed {
            return Err(Error::Step("its states were not computed".into()));
        }
        let (mut x, mut h) = self.embed()?; // [rows, hidden]
        for idx in 0..layers {
            (x, h) = self.layer(idx, x, &h)?;
        }
        self.backend.floats(&x)
    }

    fn hidden_states(&self) -> &[Vec<f32>] {
        &self.hidden_states
    }
}
