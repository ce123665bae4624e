//! Bidirectional encoders over any [`Backend`]: every token attends to all of its text, which one step
//! computes. It has no logits and keeps no prefix.

use super::{
    Adapter, Config, Error, Model, Result, Weights,
    backend::{
        Backend, Cut, HeadNorms, LayerNorm, Matrices, Normed, Pointwise, Recheck, Rows, Runtime, StepStatus,
    },
    config::{AttentionKind, EncoderConfig, LayerNorms},
    step::Step,
};

/// A loaded encoder on one kind of device.
pub struct Encoder<B: Backend> {
    config: Config,
    /// The row of the table of positions for a text's first token.
    first_position: usize,
    padding: Option<u32>,
    backend: B,
    embed_tokens: B::Table,
    /// Learned positions, each with the token type added.
    ///
    /// Shape: `[positions, hidden]`.
    embed_positions: B::Vector,
    /// The norm behind the embeddings, or behind the last layer.
    norm: Norm<B::Vector>,
    layers: Vec<Layer<B>>,
    hidden_states: Vec<Vec<f32>>,
}

struct Layer<B: Backend> {
    qkv: B::Linear,
    o_proj: B::Linear,
    up_proj: B::Linear,
    down_proj: B::Linear,
    /// Of attention and of the feed-forward half: before or behind each.
    norms: [Norm<B::Vector>; 2],
}

/// The weights of a norm with a bias.
struct Norm<V> {
    weight: V,
    bias: V,
}

impl<V> Norm<V> {
    fn weights(&self) -> LayerNorm<'_, V> {
        LayerNorm { weight: &self.weight, bias: &self.bias }
    }
}

impl<B: Backend> Encoder<B> {
    /// Loads a checkpoint onto a device.
    ///
    /// # Errors
    /// A checkpoint of a decoder, tensors that are missing or of another shape than in the configuration, or
    /// no memory on the device.
    pub fn load(weights: &Weights, backend: B) -> Result<Self> {
        let config = weights.config().clone();
        let Some(encoder) = config.encoder else {
            return Err(Error::Step("the model is not an encoder".into()));
        };
        let load = Load { weights, config: &config, backend: &backend };
        let (first_position, padding) = (encoder.first_position, encoder.padding());
        Ok(Self {
            embed_tokens: backend.table(
                weights,
                "model.embed_tokens.weight",
                [config.vocab, config.hidden],
            )?,
            embed_positions: load.positions(encoder)?,
            norm: load.norm(EncoderConfig::outer_norm(config.norms))?,
            layers: (0..config.n_layers).map(|layer| load.layer(layer)).collect::<Result<_>>()?,
            hidden_states: Vec::new(),
            first_position,
            padding,
            config,
            backend,
        })
    }

    /// The operations of the current step: its first `n_layers` layers, with hidden states captured at
    /// `depths`.
    fn operations(&mut self, n_layers: usize, depths: &[u32]) -> Result<()> {
        let (mut x, mut h) = self.embed()?; // [rows, hidden]
        for depth in 0..=n_layers {
            if let Some(idx) = depth.checked_sub(1) {
                (x, h) = self.layer(idx, x, &h)?;
            }
            if depths.contains(&(depth as u32)) {
                self.backend.note(&x)?;
            }
        }
        Ok(())
    }

    /// The sums of words, positions and types, normed behind or not; and the input of the first layer.
    fn embed(&mut self) -> Result<(B::Stream, B::Input)> {
        let mut x = self.backend.embed(&self.embed_tokens)?; // [rows, hidden]
        self.backend.add_positions(&mut x, &self.embed_positions)?;
        let (norm, to) = match self.config.norms {
            LayerNorms::Behind => (&self.norm, Normed::StreamToo),
            _ => (self.layers.first().map_or(&self.norm, |layer| &layer.norms[0]), Normed::InputAlone),
        };
        let h = self.backend.layer_norm(&mut x, norm.weights(), to)?;
        Ok((x, h))
    }

    /// Computes one layer from the residual stream and its input; returns both for the next layer.
    ///
    /// Shape: `[rows, hidden]` -> `[rows, hidden]`, each.
    fn layer(&mut self, idx: usize, mut x: B::Stream, h: &B::Input) -> Result<(B::Stream, B::Input)> {
        let (backend, layer, kind) = (&mut self.backend, &self.layers[idx], AttentionKind::Full);
        // All layers share the cache of the first.
        let queries = backend.project(0, h, &layer.qkv, HeadNorms { q: None, k: None, v: None }, kind)?;
        let attended = backend.attend(0, queries, Rows::All, kind, None)?; // [rows, hidden]
        backend.accumulate(&mut x, &attended, &layer.o_proj)?;
        let [first, second] = &layer.norms;
        let next = self.layers.get(idx + 1).map(|next| &next.norms[0]);
        // The norms of the sums behind attention and behind the feed-forward half.
        let [(of_attention, to), (of_feed, to_next)] = match (self.config.norms, next) {
            (LayerNorms::Behind, _) => [(first, Normed::StreamToo), (second, Normed::StreamToo)],
            (_, Some(next)) => [(second, Normed::InputAlone), (next, Normed::InputAlone)],
            (_, None) => [(second, Normed::InputAlone), (&self.norm, Normed::StreamToo)],
        };
        let h = backend.layer_norm(&mut x, of_attention.weights(), to)?;
        let activated = backend.pointwise_product(&h, &layer.up_proj, Pointwise::Gelu)?; // [rows, intermediate]
        backend.accumulate(&mut x, &activated, &layer.down_proj)?;
        let h = backend.layer_norm(&mut x, of_feed.weights(), to_next)?;
        Ok((x, h))
    }

    /// Checks a step of whole texts, and gives every row the position of its text's last token, so that it
    /// attends to all of them; the places have its own position.
    fn spread(&self, step: &mut Step) -> Result<()> {
        if !step.wanted.is_empty() {
            return Err(Error::Step("an encoder has no logits".into()));
        }
        if let Some(id) = step.tokens.iter().find(|id| Some(**id) == self.padding) {
            return Err(Error::Step(format!("a text has the padding token {id}")));
        }
        let first = self.first_position as u32;
        step.places = step.positions.iter().map(|&position| position + first).collect();
        for rows in step.rows_of_sequences() {
            let last = (rows.len() as u32).saturating_sub(1);
            let positions = &mut step.positions[rows];
            if positions.first() != Some(&0) || last as usize >= self.config.context {
                let reason =
                    format!("an encoder computes whole texts of at most {} tokens", self.config.context);
                return Err(Error::Step(reason));
            }
            positions.fill(last);
        }
        Ok(())
    }
}

/// The common arguments of loading tensors.
struct Load<'a, B> {
    weights: &'a Weights,
    config: &'a Config,
    backend: &'a B,
}

impl<B: Backend> Load<'_, B> {
    fn positions(&self, encoder: EncoderConfig) -> Result<B::Vector> {
        let (weights, hidden) = (self.weights, self.config.hidden);
        let n = self.config.context + encoder.first_position;
        let mut positions = weights.float_tensor(EncoderConfig::POSITIONS, &[n, hidden])?;
        let types = weights.float_tensor(EncoderConfig::TYPES, &[encoder.n_types, hidden])?;
        for row in positions.chunks_exact_mut(hidden) {
            row.iter_mut().zip(&types).for_each(|(x, of_type)| *x += of_type);
        }
        self.backend.vector(positions)
    }

    fn layer(&self, layer: usize) -> Result<Layer<B>> {
        let (hidden, width) = (self.config.hidden, self.config.intermediate);
        let at = |part: &str| format!("model.layers.{layer}.{part}");
        let qkv = ["q", "k", "v"].map(|part| (at(&format!("self_attn.{part}_proj")), hidden));
        let names: Vec<&str> = self.config.norms.names().into_iter().flatten().collect();
        let [first, second] = names[..] else {
            return Err(Error::Step("an encoder's layer has two norms".into()));
        };
        Ok(Layer {
            qkv: self.linear(&qkv, hidden, Cut::Heads(self.config.full.head_dim))?,
            o_proj: self.linear(&[(at("self_attn.o_proj"), hidden)], hidden, Cut::Anywhere)?,
            up_proj: self.linear(&[(at("mlp.up_proj"), width)], hidden, Cut::Anywhere)?,
            down_proj: self.linear(&[(at("mlp.down_proj"), hidden)], width, Cut::Anywhere)?,
            norms: [self.norm(&at(first))?, self.norm(&at(second))?],
        })
    }

    fn linear(&self, parts: &[(String, usize)], k: usize, cut: Cut) -> Result<B::Linear> {
        self.backend.linear(self.weights, Matrices { parts, k, cut })
    }

    fn norm(&self, name: &str) -> Result<Norm<B::Vector>> {
        let vector = |part: &str| {
            self.backend.vector(self.weights.floats(&format!("{name}.{part}"), self.config.hidden)?)
        };
        Ok(Norm { weight: vector("weight")?, bias: vector("bias")? })
    }
}

impl<B: Backend> Model for Encoder<B> {
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
        let (reason, base) = ("the model is an encoder".into(), adapter.config.base.clone());
        Err(Error::Adapter { reason, base })
    }

    fn run(&mut self, mut step: Step) -> Result<()> {
        step.check_adapters(0)?;
        let n_layers = step.n_layers.map_or(self.layers.len(), |n_layers| n_layers as usize);
        if let Some(&depth) =
            step.depths.iter().chain(&step.n_layers).find(|&&n| n as usize > self.layers.len())
        {
            return Err(Error::Depth { depth, n_layers: self.layers.len() });
        }
        self.spread(&mut step)?;
        let depths = if step.noted.is_empty() { Vec::new() } else { step.depths.clone() };
        if self.backend.begin(step)? == StepStatus::Execute {
            self.operations(n_layers, &depths)?;
        }
        self.hidden_states = if depths.is_empty() { Vec::new() } else { self.backend.noted()? };
        Ok(())
    }

    fn run_again(&mut self, step: Step, recheck: Recheck) -> Result<()> {
        self.backend.take_kernels(Some(recheck));
        let run = self.run(step);
        self.backend.take_kernels(None);
        run
    }

    fn states(&mut self, mut step: Step, layers: usize) -> Result<Vec<f32>> {
        step.noted = (0..step.n_rows() as u32).collect();
        self.run(step.at_depths([layers as u32]).up_to_layer(Some(layers as u32)))?;
        Ok(self.hidden_states.pop().unwrap_or_default())
    }

    fn hidden_states(&self) -> &[Vec<f32>] {
        &self.hidden_states
    }
}
