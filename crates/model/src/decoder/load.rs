//! The decoder's layers from a checkpoint: the names of their tensors, and the choice of those that an
//! architecture has.

use super::{Feed, Layer, Mixer, Norms};
use crate::{
    Config, Result, Weights,
    backend::{Backend, BesideNorms, Cut, DeltaNetWeights, Matrices, Pointwise, Xielu},
    config::{DeltaNet, QkNorm},
};

/// The common arguments of loading tensors.
pub(super) struct Load<'a, B> {
    pub weights: &'a Weights,
    pub config: &'a Config,
    pub backend: &'a B,
}

impl<B: Backend> Load<'_, B> {
    pub fn layer(&self, layer: usize) -> Result<Layer<B>> {
        let c = self.config;
        let at = |part: &str| format!("model.layers.{layer}.{part}");
        let [before_attention, behind_attention, before_feed, behind_feed] =
            c.norms.names().map(|name| name.map(|name| self.norm(&at(name), c.hidden)).transpose());
        let norms = Norms {
            before_attention: before_attention?,
            behind_attention: behind_attention?,
            before_feed: before_feed?,
            behind_feed: behind_feed?,
        };
        let (mixer, out, width) = match c.delta_net_of(layer) {
            Some(delta) => {
                (self.delta_net(delta, &at("linear_attn"))?, "linear_attn.out_proj", delta.widths()[2])
            }
            None => (
                self.attention(layer, &at("self_attn"))?,
                "self_attn.o_proj",
                c.n_heads * c.attention_of(layer).output_dim(),
            ),
        };
        Ok(Layer {
            norms,
            mixer,
            o_proj: self.linear(&[(at(out), c.hidden)], width, Cut::Anywhere)?,
            feed: self.feed(layer, &at("mlp"))?,
            factor: if c.layer_scalars { self.weights.floats(&at("layer_scalar"), 1)?[0] } else { 1.0 },
        })
    }

    fn attention(&self, layer: usize, module: &str) -> Result<Mixer<B>> {
        let c = self.config;
        let at = |part: &str| format!("{module}.{part}");
        let kind = c.kind_of(layer);
        let attention = c.attention(kind);
        if attention.latent.is_some() {
            return Ok(Mixer::Latent(self.backend.latent(self.weights, module)?));
        }
        let (q, kv) = (c.query_width(kind), attention.kv_width());
        let values = if attention.values_are_keys { "k_proj" } else { "v_proj" };
        let mut qkv = vec![(at("q_proj"), q), (at("k_proj"), kv), (at(values), kv)];
        qkv.extend(c.gated_attention.then(|| (at("gate_proj"), q)));
        Ok(Mixer::Attention {
            qkv: self.linear(&qkv, c.hidden, Cut::Heads(attention.head_dim))?,
            norms: [
                self.qk_norm(&at("q_norm"), c.qk_norm.n_weights(c.n_heads, attention.head_dim))?,
                self.qk_norm(&at("k_norm"), c.qk_norm.n_weights(attention.n_kv_heads, attention.head_dim))?,
                c.value_norm.then(|| self.backend.vector(vec![1.0; attention.head_dim])).transpose()?,
            ],
            sinks: if c.sinks {
                Some(self.backend.vector(self.weights.floats(&at("sinks"), c.n_heads)?)?)
            } else {
                None
            },
            kind,
        })
    }

    fn delta_net(&self, delta: &DeltaNet, module: &str) -> Result<Mixer<B>> {
        let at = |part: &str| format!("{module}.{part}");
        let (channels, n) = (delta.channels(), delta.n_value_heads);
        let parts = [
            (at("in_proj_qkv"), channels),
            (at("in_proj_z"), delta.widths()[2]),
            (at("in_proj_b"), n),
            (at("in_proj_a"), n),
        ];
        // Safetensors hold the logarithm of the decay, GGUF files the decay.
        let decay = if self.weights.contains(&at("A_log")) {
            self.weights.floats(&at("A_log"), n)?.into_iter().map(|log| -log.exp()).collect()
        } else {
            self.weights.floats(&at("decay"), n)?
        };
        let weights = DeltaNetWeights {
            conv: self.weights.float_tensor(&at("conv1d.weight"), &[channels, delta.conv])?,
            decay,
            dt_bias: self.weights.floats(&at("dt_bias"), n)?,
            norm: self.weights.floats(&at("norm.weight"), delta.value_dim)?,
        };
        Ok(Mixer::DeltaNet {
            projections: self.linear(&parts, self.config.hidden, Cut::DeltaNet)?,
            delta_net: self.backend.delta_net(weights)?,
        })
    }

    fn feed(&self, layer: usize, module: &str) -> Result<Feed<B>> {
        let c = self.config;
        let experts = c.experts_of(layer);
        let is_beside = experts.is_some_and(|experts| experts.beside_dense);
        let experts =
            experts.map(|experts| self.backend.experts(self.weights, module, experts)).transpose()?;
        let experts = match experts {
            Some(experts) if !is_beside => return Ok(Feed::Experts(experts)),
            experts => experts,
        };
        let at = |part: &str| format!("{module}.{part}_proj");
        if c.xielu {
            return self.ungated(module);
        }
        let gate_up = [(at("gate"), c.intermediate), (at("up"), c.intermediate)];
        let gate_up = self.linear(&gate_up, c.hidden, Cut::Anywhere)?;
        let down_proj = self.linear(&[(at("down"), c.hidden)], c.intermediate, Cut::Anywhere)?;
        let Some(experts) = experts else { return Ok(Feed::Dense { gate_up, down_proj }) };
        Ok(Feed::Beside { gate_up, down_proj, experts, norms: self.beside_norms(layer, module)? })
    }

    fn ungated(&self, module: &str) -> Result<Feed<B>> {
        let c = self.config;
        let part = |part: &str| format!("{module}.{part}_proj");
        let number = |name: &str| {
            Ok::<_, crate::Error>(self.weights.floats(&format!("{module}.act_fn.{name}"), 1)?[0])
        };
        // Kept above 0 by a softplus of the number in the file.
        let softplus = |x: f32| if x > 20.0 { x } else { x.exp().ln_1p() };
        let (beta, eps) = (number("beta")?, number("eps")?);
        let (positive, negative) = (softplus(number("alpha_p")?), beta + softplus(number("alpha_n")?));
        Ok(Feed::Ungated {
            up_proj: self.linear(&[(part("up"), c.intermediate)], c.hidden, Cut::Anywhere)?,
            down_proj: self.linear(&[(part("down"), c.hidden)], c.intermediate, Cut::Anywhere)?,
            function: Pointwise::Xielu(Xielu { positive, negative, beta, eps }),
        })
    }

    fn beside_norms(&self, layer: usize, module: &str) -> Result<BesideNorms<B::Vector>> {
        let hidden = self.config.hidden;
        let norm = |part: &str| self.norm(&format!("model.layers.{layer}.{part}"), hidden);
        let mut router = self.weights.floats(&format!("{module}.gate.scale"), hidden)?;
        let root = (hidden as f32).sqrt();
        for scale in &mut router {
            *scale /= root;
        }
        Ok(BesideNorms {
            dense: norm("post_feedforward_layernorm_1")?,
            input: norm("pre_feedforward_layernorm_2")?,
            router: self.backend.vector(router)?,
            experts: norm("post_feedforward_layernorm_2")?,
        })
    }

    pub fn linear(&self, parts: &[(String, usize)], k: usize, cut: Cut) -> Result<B::Linear> {
        self.backend.linear(self.weights, Matrices { parts, k, cut })
    }

    fn qk_norm(&self, name: &str, n: usize) -> Result<Option<B::Vector>> {
        (self.config.qk_norm != QkNorm::None).then(|| self.norm(name, n)).transpose()
    }

    fn norm(&self, name: &str, n: usize) -> Result<B::Vector> {
        self.backend.vector(self.norm_weights(name, n)?)
    }

    /// The norm before the output matrix. A factor on logits is one on its weights.
    pub fn last_norm(&self) -> Result<B::Vector> {
        let mut values = self.norm_weights("model.norm", self.config.hidden)?;
        if let Some(scale) = self.config.logit_scale {
            if self.weights.contains("lm_head.bias") {
                return Err(self
                    .weights
                    .bad("lm_head.bias", "is not supported beside a factor on the logits"));
            }
            for weight in &mut values {
                *weight *= scale;
            }
        }
        self.backend.vector(values)
    }

    /// Norm weights in f32.
    fn norm_weights(&self, name: &str, n: usize) -> Result<Vec<f32>> {
        let mut values = self.weights.floats(&format!("{name}.weight"), n)?;
        if self.config.norm_plus_one {
            for w in &mut values {
                *w += 1.0;
            }
        }
        Ok(values)
    }
}
