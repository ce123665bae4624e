//! Opens an engine: weights, tokenizer, chat template, cache. It runs no step.

use std::{collections::HashMap, path::Path, sync::Arc};

use candle_core::quantized::gguf_file::Value;

use crate::{
    cuda,
    device::Device,
    model::{
        self, Adapter, BLOCK, Config, KvType, Model, StepLimits, Weights, gguf,
        metric::Metric,
        score_head::Head,
        small_file::{self, MAX_SETTINGS_BYTES, MAX_TOKENIZER_BYTES},
    },
    signature::Signature,
};

use super::{
    Engine, Error, Facts, Loaded, MAX_CONTEXT, Options, Result,
    chat::{self, ChatTemplate},
    estimate::Recent,
    grammar::Vocabulary,
    memory,
    saved::PrefixFiles,
    scheduler::Limits,
    signed::{self, Built},
    tokenizer::{Files, GgufVocab, Tokenizer},
    workers::{Ready, Workers},
};

/// Loads everything and starts the engine's thread.
pub fn engine(path: &Path, weights: &Weights, options: &Options) -> Result<Engine> {
    if !options.hashed.is_empty() {
        weights.check(&options.hashed)?;
    }
    let text = |reason: String| Error::Text { path: path.display().to_string(), reason };
    let source = template_source(path, weights, options).map_err(text)?;
    let tokenizer = tokenizer(path, weights, source.as_deref()).map_err(text)?;
    over(weights, tokenizer, source.as_deref(), options)
}

/// Opens an engine with a tokenizer and the source of a chat template already read.
pub fn over(
    weights: &Weights,
    tokenizer: Tokenizer,
    source: Option<&str>,
    options: &Options,
) -> Result<Engine> {
    let config = weights.config();
    let context = options.context.unwrap_or_else(|| config.context.min(MAX_CONTEXT));
    let is_encoder = config.encoder.is_some();
    let options = &if is_encoder { of_encoder(options, context) } else { options.clone() };
    let text = |reason: String| Error::Text { path: weights.path().display().to_string(), reason };
    let tokenizer = tokenizer.with_stop_ids(&config.stop_ids);
    let stops = added_stops(&tokenizer, &options.stop_tokens);
    let tokenizer = tokenizer.with_stop_tokens(&options.stop_tokens).map_err(|e| text(e.to_string()))?;
    let template = source.map(|source| ChatTemplate::new(source, &tokenizer)).transpose();
    let refused = |source| Error::Template { path: weights.path().display().to_string(), source };
    let template = template.map_err(refused)?;
    let chat_options = chat::variables(source.unwrap_or_default(), &options.chat_options);
    let mut template = template.map(|t| t.with_options(&chat_options));
    let (head, metric) = (Head::load(weights)?, Metric::load(weights)?);
    if head.is_some() {
        template = template.map(ChatTemplate::for_whole_chats);
    }
    config.check_context(&weights.path().display().to_string(), context)?;
    let adapters = options.adapters.iter().map(|dir| adapter(dir, config)).collect::<Result<Vec<_>, _>>()?;
    let devices = std::iter::once(&options.device).chain(&options.more_devices);
    let models = devices.map(|device| ready(device, weights, &adapters, context, options));
    let models: Vec<Ready> = models.collect::<Result<_>>()?;
    let tokenizer = Arc::new(tokenizer);
    let built = Built { weights, context, template: source, chat_options, stops };
    let signature = signed::signature(options, &built);
    let prefixes = prefix_files(&signature, options);
    let remark = prefixes.as_ref().and_then(PrefixFiles::remark);
    let facts = Facts {
        signature,
        context,
        n_layers: config.n_layers,
        score_head: config.score_head,
        encoder: config.encoder,
        weight_bytes: weights.n_bytes(),
        weight_bytes_on_gpus: weights.n_bytes_on_gpus(false),
        adapter_bytes: adapters.iter().map(Adapter::n_bytes).sum(),
        kv_bytes: models.iter().map(|ready| ready.kv_bytes).sum(),
        n_rows: models.iter().map(|ready| ready.limits.n_rows).sum(),
        sizes: config.into(),
        remarks: weights.remarks().iter().cloned().chain(remark).collect(),
    };
    let workers = Workers::start(models, prefixes.as_ref(), options)?;
    let vocabulary = (!is_encoder).then(|| Vocabulary::new(&tokenizer, config.vocab)).transpose();
    let vocabulary = vocabulary.map_err(|e| text(e.to_string()))?;
    let n_adapters = adapters.len();
    let (estimator, recent) = (options.estimator.clone(), Recent::default());
    let loaded = Loaded {
        workers,
        tokenizer,
        template,
        vocabulary,
        head,
        metric,
        estimator,
        recent,
        facts,
        n_adapters,
    };
    Ok(Engine { loaded: Arc::new(loaded), adapter: None, stop: None, rank: 0 })
}

/// The options of an encoder: keys and values are those of the text that a step computes, so that none is
/// cached or drafted, and they are f32 on a CPU.
fn of_encoder(options: &Options, context: usize) -> Options {
    let kv = if options.device.is_cpu() { KvType::F32 } else { options.kv };
    let step_tokens = options.step_tokens.max(context);
    Options { kv, step_tokens, prefix_cache: false, saved_prefixes: None, drafts: false, ..options.clone() }
}

/// Reads an adapter and checks it against the model before weights are read.
fn adapter(dir: &Path, config: &Config) -> Result<Adapter> {
    let adapter = Adapter::read(dir)?;
    match adapter.check(config) {
        Ok(()) => Ok(adapter),
        Err(source) => Err(Error::Adapter { path: dir.display().to_string(), source }),
    }
}

/// A loaded model with its cache.
fn ready(
    device: &Device,
    weights: &Weights,
    adapters: &[Adapter],
    context: usize,
    options: &Options,
) -> Result<Ready> {
    let config = weights.config();
    let adapter_bytes = adapters.iter().map(Adapter::n_bytes).sum::<usize>();
    let gpus = device.gpus();
    if gpus.is_empty() {
        let loaded_bytes = weights.n_bytes() + adapter_bytes;
        // Checked before weights are read, which takes a while.
        let n_weights = weights.tensors().map(|(_, _, shape)| shape.iter().product::<usize>()).sum();
        memory::check_weights(loaded_bytes, n_weights, memory::available())?;
        let kv_bytes = options.kv_bytes.unwrap_or_else(|| memory::default_cache(loaded_bytes));
        let shares = Shares::new(1, config, context, options);
        let room = room(shares, kv_bytes, options)?;
        let kv_bytes = room.bytes(shares);
        memory::check_limit(loaded_bytes.saturating_add(kv_bytes))?;
        if let Some(bytes) = options.kv_bytes {
            memory::check_free(bytes, loaded_bytes, memory::available())?;
        }
        let mut model = loaded(device, weights, adapters, options)?;
        room.reserve(&mut *model, options)?;
        // The rows of a mixture of experts are divided among many weights.
        let n_beside_answers = if config.experts.is_some() { usize::MAX } else { BESIDE_ANSWERS };
        let limits = Limits { n_beside_answers, ..limits(config, options, options.step_tokens, None) };
        let Room { n_blocks, n_slots } = room;
        return Ok(Ready { model, n_blocks, n_slots, kv_bytes, limits });
    }
    let loaded_bytes = weights.n_bytes_on_gpus(gpus[0].packs()) + adapter_bytes;
    let shares = Shares::new(gpus.len(), &device.share(config)?, context, options);
    if let Some(kv_bytes) = options.kv_bytes {
        room(shares, kv_bytes / shares.n_cards, options)?;
    }
    // The least free memory of any card.
    let free = || {
        let free = gpus.iter().map(|gpu| Ok(gpu.memory()?.0)).collect::<Result<Vec<_>, cuda::Error>>();
        free.map(|free| free.into_iter().min().unwrap_or(0)).map_err(model::Error::from)
    };
    if loaded_bytes / shares.n_cards > free()? {
        let error = cuda::Error::weights(loaded_bytes / shares.n_cards, free()?);
        return Err(model::Error::from(error).into());
    }
    let mut model = loaded(device, weights, adapters, options)?;
    let n_rows = most_rows(&*model, shares, free()?, options);
    let options = &Options { n_rows, ..options.clone() };
    let (n_tokens, most) = largest_step(&*model, shares, free()?, options)?;
    model.runtime_mut().prepare(most)?;
    let room = cache(&mut *model, shares, free()?, options)?;
    let (kv_bytes, Room { n_blocks, n_slots }) = (room.bytes(shares), room);
    Ok(Ready { model, n_blocks, n_slots, kv_bytes, limits: limits(config, options, n_tokens, Some(most)) })
}

/// The files of saved prefixes, if the options enable them.
fn prefix_files(signature: &Signature, options: &Options) -> Option<PrefixFiles> {
    let saved = options.saved_prefixes.as_ref()?;
    let is_used = options.device.is_cpu() && options.prefix_cache;
    is_used.then(|| PrefixFiles::new(saved, &signature.to_string(), options.compute.tier.name()))
}

/// The distribution of a cache over the cards of an engine.
#[derive(Clone, Copy)]
struct Shares {
    n_cards: usize,
    /// Bytes of a block on each card.
    block_bytes: usize,
    /// Bytes of a recurrent state on each card; 0 for a model without.
    state_bytes: usize,
    /// Positions of one sequence.
    context: usize,
}

impl Shares {
    /// `config` is that of the model's part on one card.
    fn new(n_cards: usize, config: &Config, context: usize, options: &Options) -> Self {
        let (block_bytes, state_bytes) = (options.kv.block_bytes(config), config.state_bytes());
        Self { n_cards, block_bytes, state_bytes, context }
    }

    /// Bytes of a single sequence of the full context on each card: its blocks, and its state with a
    /// snapshot.
    fn least(self) -> usize {
        self.context.div_ceil(BLOCK) * self.block_bytes + memory::LEAST_SLOTS * self.state_bytes
    }
}

/// The capacity of a cache.
#[derive(Clone, Copy)]
struct Room {
    n_blocks: usize,
    n_slots: usize,
}

impl Room {
    /// Bytes on all cards.
    fn bytes(self, shares: Shares) -> usize {
        (self.n_blocks * shares.block_bytes + self.n_slots * shares.state_bytes) * shares.n_cards
    }

    fn reserve(self, model: &mut dyn Model, options: &Options) -> Result<(), model::Error> {
        model.runtime_mut().reserve(self.n_blocks, options.kv)?;
        if self.n_slots > 0 { model.runtime_mut().reserve_states(self.n_slots) } else { Ok(()) }
    }
}

/// Rows of a step that a CPU computes as fast, each, as those of a longer one: 204 prompt tokens a second in
/// steps of 64, 208 in steps of 512 (the 1.5B on two cores of an EPYC, Zen 4, AVX-512).
const BESIDE_ANSWERS: usize = 64;

fn limits(config: &Config, options: &Options, n_tokens: usize, most: Option<StepLimits>) -> Limits {
    Limits {
        n_rows: options.n_rows.max(1),
        n_tokens: n_tokens.max(1),
        n_beside_answers: usize::MAX,
        max_rows: most.map_or(usize::MAX, |most| most.rows),
        max_logits: most.map_or(usize::MAX, |most| most.wanted),
        prefix_cache: options.prefix_cache,
        whole_prompts: config.encoder.is_some(),
    }
}

/// The most sequences in flight, `options.most_rows` or less by halves, whose own positions fit the cache
/// beside the largest step; `options.n_rows` if no more do.
fn most_rows(model: &dyn Model, shares: Shares, free: usize, options: &Options) -> usize {
    /// Positions that a sequence does not share with others: a judge's prompts mostly begin alike.
    const OWN: usize = 256;
    let config = model.config();
    let of_row = OWN / BLOCK * shares.block_bytes + memory::LEAST_SLOTS * shares.state_bytes;
    let fits = |n_rows: &usize| {
        let most = memory::step_limits(config.into(), options.step_tokens, *n_rows, shares.context);
        let left = free.saturating_sub(model.runtime().step_bytes(most) + memory::SPARE);
        let cache = options.kv_bytes.map_or(left, |bytes| bytes / shares.n_cards);
        (n_rows * of_row).max(shares.least()) <= cache && cache <= left
    };
    let candidates = std::iter::successors(Some(options.most_rows), |n| Some(n / 2));
    candidates.take_while(|n| *n > options.n_rows).find(fits).unwrap_or(options.n_rows)
}

/// The largest step that leaves room for the cache, with its prompt tokens.
fn largest_step(
    model: &dyn Model,
    shares: Shares,
    free: usize,
    options: &Options,
) -> Result<(usize, StepLimits)> {
    let (config, Shares { n_cards, block_bytes, context, .. }) = (model.config(), shares);
    let kv_bytes = options.kv_bytes.map(|bytes| bytes / n_cards);
    let cache = kv_bytes.unwrap_or_else(|| shares.least());
    let mut least = 0;
    // A text of an encoder is computed in one step.
    let least_tokens = if config.encoder.is_some() { context } else { 0 };
    for n_tokens in memory::step_tokens(options).filter(|n| *n >= least_tokens) {
        let most = memory::step_limits(config.into(), n_tokens, options.n_rows, context);
        least = model.runtime().step_bytes(most) + memory::SPARE;
        if least + cache <= free {
            return Ok((n_tokens, most));
        }
    }
    // A shorter context makes steps smaller too; ignoring that is conservative.
    let fits = free.saturating_sub(least) / block_bytes * BLOCK;
    let (subject, hint) = match options.kv_bytes {
        Some(_) if fits >= context => {
            let most = memory::whole_size((free - least) * n_cards);
            ("steps beside this cache".to_owned(), format!("a KV cache of {most} fits"))
        }
        _ if fits > 0 => {
            let subject = format!("steps and a sequence of {context} tokens");
            (subject, format!("a context of {} fits", fits.min(context)))
        }
        _ => ("steps beside the weights".to_owned(), "a quantized model leaves more room".to_owned()),
    };
    Err(model::Error::from(cuda::Error::memory(&subject, least + cache, free, &hint)).into())
}

/// Reserves the cache. A cache sized by the free memory shrinks where another program takes memory at the
/// same time.
fn cache(model: &mut dyn Model, shares: Shares, free: usize, options: &Options) -> Result<Room> {
    let kv_bytes = options.kv_bytes.map(|bytes| bytes / shares.n_cards);
    let mut kv_bytes = kv_bytes.unwrap_or_else(|| free.saturating_sub(memory::SPARE));
    let mut fits = room(shares, kv_bytes, options)?;
    while let Err(error) = fits.reserve(model, options) {
        let full = matches!(cuda::Error::of_model(&error), Some(cuda::Error::Memory { .. }));
        if !full || options.kv_bytes.is_some() {
            return Err(error.into());
        }
        kv_bytes = fits.bytes(shares) / shares.n_cards / 16 * 15;
        fits = room(shares, kv_bytes, options).map_err(|_| error)?;
    }
    Ok(fits)
}

/// A model with its adapters.
fn loaded(
    device: &Device,
    weights: &Weights,
    adapters: &[Adapter],
    options: &Options,
) -> Result<Box<dyn Model>> {
    let mut model = device.load(weights, options.compute)?;
    for adapter in adapters {
        model.adapt(adapter)?;
    }
    Ok(model)
}

/// The capacity of a cache of so many bytes on each card; at least one sequence of the full context must fit.
/// Recurrent states get half of it at most: two for each sequence in flight would all be of use.
fn room(shares: Shares, kv_bytes: usize, options: &Options) -> Result<Room> {
    let Shares { n_cards, block_bytes, state_bytes, context } = shares;
    let need = context.div_ceil(BLOCK);
    let slots = |bytes: usize| bytes.checked_div(state_bytes);
    let beside_blocks = slots(kv_bytes.saturating_sub(need * block_bytes)).unwrap_or(0);
    let n_slots = slots(kv_bytes / 2)
        .map_or(0, |n_slots| n_slots.min(2 * options.n_rows).min(beside_blocks).max(memory::LEAST_SLOTS));
    let have = kv_bytes.saturating_sub(n_slots * state_bytes) / block_bytes;
    if have < need {
        return Err(Error::Cache {
            given: memory::size(kv_bytes * n_cards),
            fits: have * BLOCK,
            context,
            needed: memory::size(shares.least() * n_cards),
        });
    }
    // More blocks than all rows can fill would be unused.
    Ok(Room { n_blocks: have.min(need * options.n_rows.max(1)), n_slots })
}

fn tokenizer(path: &Path, weights: &Weights, template: Option<&str>) -> Result<Tokenizer, String> {
    let tokenizer = if let Some(metadata) = weights.metadata() {
        Tokenizer::from_gguf(&vocabulary(metadata)?, template)
    } else if let Some(vocabulary) = weights.unigram() {
        Tokenizer::from_unigram(vocabulary.map_err(|e| e.to_string())?)
    } else {
        let json = small_file::read(&path.join("tokenizer.json"), MAX_TOKENIZER_BYTES).map_err(|e| {
            let hint = match weights.metric() {
                // Metrics are published without it.
                Some(metric) => {
                    format!("put `tokenizer.json` of `{}` beside `hparams.yaml`", metric.pretrained)
                }
                None => "the folder needs the model's tokenizer beside its weights".to_owned(),
            };
            format!("`tokenizer.json`: {e}; hint: {hint}")
        })?;
        let config = tokenizer_config(path)?;
        let of_folder = template_file(path)?;
        let model_type = model_type(path);
        let files = Files { json: &json, config: config.as_deref(), model_type: model_type.as_deref() };
        Tokenizer::from_files(files, template.or(of_folder.as_deref()))
    };
    tokenizer.map_err(|e| e.to_string())
}

/// The given tokens that do not end a turn by themselves, each once.
fn added_stops(tokenizer: &Tokenizer, stops: &[String]) -> Vec<String> {
    let mut added: Vec<String> = Vec::new();
    for name in stops {
        let is_own = tokenizer.control_id(name).is_some_and(|id| tokenizer.stops().contains(&id));
        if !is_own && !added.contains(name) {
            added.push(name.clone());
        }
    }
    added
}

/// The kind of model that `config.json` names.
fn model_type(path: &Path) -> Option<String> {
    let config = small_file::read(&path.join("config.json"), MAX_SETTINGS_BYTES).ok()?;
    let config: serde_json::Value = serde_json::from_slice(&config).ok()?;
    config["model_type"].as_str().map(str::to_owned)
}

/// A template of its own file beside the weights.
fn template_file(path: &Path) -> Result<Option<String>, String> {
    let file = path.join("chat_template.jinja");
    let wrong = |reason: &dyn std::fmt::Display| format!("`chat_template.jinja`: {reason}");
    let Some(bytes) = small_file::read_if_there(&file, MAX_SETTINGS_BYTES).map_err(|e| wrong(&e))? else {
        return Ok(None);
    };
    String::from_utf8(bytes).map(Some).map_err(|_| wrong(&"it is not UTF-8"))
}

/// The bytes of `tokenizer_config.json`, where the folder has one.
fn tokenizer_config(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let file = path.join("tokenizer_config.json");
    small_file::read_if_there(&file, MAX_SETTINGS_BYTES).map_err(|e| format!("`tokenizer_config.json`: {e}"))
}

/// The chat template in force: the option's, the file's, or the one in the tokenizer's settings.
fn template_source(path: &Path, weights: &Weights, options: &Options) -> Result<Option<String>, String> {
    if options.chat_template.is_some() {
        return Ok(options.chat_template.clone());
    }
    if weights.config().encoder.is_some() {
        return Ok(None);
    }
    if let Some(metadata) = weights.metadata() {
        return Ok(string(metadata, "tokenizer.chat_template"));
    }
    if let Some(template) = template_file(path)? {
        return Ok(Some(template));
    }
    let Some(config) = tokenizer_config(path)? else { return Ok(None) };
    let config: serde_json::Value =
        serde_json::from_slice(&config).map_err(|e| format!("`tokenizer_config.json` is not JSON: {e}"))?;
    let template = &config["chat_template"];
    // Some checkpoints name several; the default one is for chats.
    let listed = || template.as_array()?.iter().find(|t| t["name"] == "default")?["template"].as_str();
    Ok(template.as_str().or_else(listed).map(str::to_owned))
}

fn vocabulary(metadata: &HashMap<String, Value>) -> Result<GgufVocab, String> {
    let get = |key: &str| metadata.get(&format!("tokenizer.ggml.{key}"));
    let list = |key: &str| get(key).and_then(|v| v.to_vec().ok()).map_or(&[][..], Vec::as_slice);
    let strings = |key| list(key).iter().filter_map(|v| v.to_string().ok().cloned()).collect();
    let id = |key: &str| {
        let Some(value) = get(key) else { return Ok(None) };
        let id = gguf::whole(value).and_then(|id| u32::try_from(id).ok());
        id.map(Some)
            .ok_or_else(|| format!("`tokenizer.ggml.{key}` is `{}`, not a token id", gguf::in_words(value)))
    };
    Ok(GgufVocab {
        model: string(metadata, "tokenizer.ggml.model").unwrap_or_default(),
        pre: string(metadata, "tokenizer.ggml.pre").unwrap_or_default(),
        tokens: strings("tokens"),
        scores: list("scores").iter().filter_map(|v| v.to_f32().ok()).collect(),
        token_types: list("token_type").iter().filter_map(|v| v.to_i32().ok()).collect(),
        merges: strings("merges"),
        bos: id("bos_token_id")?,
        eos: id("eos_token_id")?,
        eot: id("eot_token_id")?,
        unknown: id("unknown_token_id")?,
        padding: id("padding_token_id")?,
        add_bos: get("add_bos_token").and_then(|v| v.to_bool().ok()),
        add_space_prefix: get("add_space_prefix").and_then(|v| v.to_bool().ok()),
        chat_template: string(metadata, "tokenizer.chat_template"),
    })
}

fn string(metadata: &HashMap<String, Value>, key: &str) -> Option<String> {
    metadata.get(key).and_then(|v| v.to_string().ok()).cloned()
}
