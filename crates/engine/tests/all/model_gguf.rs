//! GGUF models in parts, unsupported tensors and settings, and unsupported types.

use std::{
    fs,
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Content, Value},
    },
};
use tribunal_hub::{Identity, inspect};
use tribunal_model::{
    Config, Weights,
    config::{Rope, Scaling},
    weights::Format,
};

use crate::gguf::gguf;

/// The parts of a file.
struct Open {
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, QTensor)>,
}

impl Open {
    /// A llama of two layers with an output matrix of its own, which is last.
    fn small() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small.gguf");
        gguf(&path, GgmlDType::F32);
        let mut file = fs::File::open(&path).unwrap();
        let content = Content::read(&mut file).unwrap();
        let mut names: Vec<&String> = content.tensor_infos.keys().collect();
        names.sort();
        let tensor = |name: &&String| content.tensor(&mut fs::File::open(&path).unwrap(), name, &Device::Cpu);
        let mut tensors: Vec<_> = names.iter().map(|name| ((*name).clone(), tensor(name).unwrap())).collect();
        tensors.push(("output.weight".into(), floats(&[272, 256])));
        let mut metadata: Vec<_> = content.metadata.into_iter().collect();
        metadata.sort_by(|a, b| a.0.cmp(&b.0));
        Self { metadata, tensors }
    }

    /// This file with a key's value set.
    fn with(mut self, key: &str, value: Value) -> Self {
        self.metadata.retain(|(name, _)| name != key);
        self.metadata.push((key.into(), value));
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(name, _)| name != key);
        self
    }

    /// This file as one of another architecture, under whose name all settings are then.
    fn named(mut self, arch: &str) -> Self {
        for (key, _) in &mut self.metadata {
            if let Some(rest) = key.strip_prefix("llama.") {
                *key = format!("{arch}.{rest}");
            }
        }
        self.with("general.architecture", Value::String(arch.into()))
    }

    fn write(&self, path: &Path) {
        let metadata: Vec<(&str, &Value)> =
            self.metadata.iter().map(|(key, value)| (&**key, value)).collect();
        let tensors: Vec<(&str, &QTensor)> = self.tensors.iter().map(|(name, t)| (&**name, t)).collect();
        gguf_file::write(&mut fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
    }

    fn weights(&self) -> Result<Weights, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.gguf");
        self.write(&path);
        Weights::open(&path).map_err(|error| error.to_string())
    }

    fn config(&self) -> Config {
        self.weights().map(|weights| weights.config().clone()).unwrap()
    }

    fn refusal(&self) -> String {
        self.weights().map(drop).unwrap_err()
    }

    /// Writes it in parts as `gguf-split` does: the metadata in the first, numbers in all.
    fn in_parts(self, dir: &Path, sizes: &[usize]) -> Vec<PathBuf> {
        let (n, total) = (sizes.len(), self.tensors.len());
        let (mut metadata, mut tensors) = (self.metadata, self.tensors.into_iter());
        let mut paths = Vec::new();
        for (i, size) in sizes.iter().enumerate() {
            metadata.push(("split.no".into(), Value::U16(i as u16)));
            metadata.push(("split.count".into(), Value::U16(n as u16)));
            metadata.push(("split.tensors.count".into(), Value::I32(total as i32)));
            let path = dir.join(format!("m-{:05}-of-{n:05}.gguf", i + 1));
            let part = Self { metadata, tensors: tensors.by_ref().take(*size).collect() };
            part.write(&path);
            paths.push(path);
            metadata = Vec::new();
        }
        paths
    }

    /// Reads back a part that was written.
    fn read(path: &Path) -> Self {
        let content = Content::read(&mut fs::File::open(path).unwrap()).unwrap();
        let tensor =
            |name: &String| content.tensor(&mut fs::File::open(path).unwrap(), name, &Device::Cpu).unwrap();
        let tensors = content.tensor_infos.keys().map(|name| (name.clone(), tensor(name))).collect();
        Self { metadata: content.metadata.into_iter().collect(), tensors }
    }
}

fn floats(shape: &[usize]) -> QTensor {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|i| (i % 101) as f32 / 50.5 - 1.0).collect();
    QTensor::quantize(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap(), GgmlDType::F32).unwrap()
}

fn refusal(path: &Path) -> String {
    Weights::open(path).map(drop).unwrap_err().to_string()
}

/// Names, types, shapes and bytes of all tensors.
fn all(weights: &Weights) -> Vec<(String, Vec<u8>)> {
    let tensor = |(name, dtype, shape): (&str, Format, &[usize])| {
        (format!("{name} {dtype:?} {shape:?}"), weights.get(name, shape).unwrap().bytes.into_owned())
    };
    weights.tensors().map(tensor).collect()
}

#[test]
fn a_model_in_parts_is_the_whole_whichever_part_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Open::small().weights().unwrap();
    assert!(!whole.config().tied, "the output matrix is the model's own");
    // The first part has no tensors, as some tools write it; the output matrix lies in the last.
    let n = Open::small().tensors.len();
    let paths = Open::small().in_parts(dir.path(), &[0, 9, n - 9]);
    let identity = Identity::from_path(&paths[0]).unwrap();
    assert_eq!(identity.weights, paths[0]);
    assert_eq!(identity.name().as_deref(), Some("m"));
    let names: Vec<_> = identity.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["00001-of-00003.gguf", "00002-of-00003.gguf", "00003-of-00003.gguf"]);
    assert_eq!(identity.sha256, Identity::list_hash(&identity.files));
    for given in paths.iter().map(PathBuf::as_path).chain([dir.path()]) {
        let weights = Weights::open(given).unwrap();
        assert_eq!(weights.config(), whole.config(), "{}", given.display());
        assert_eq!(all(&weights), all(&whole), "{}", given.display());
        assert_eq!(weights.remarks(), [""; 0]);
        assert_eq!(Identity::from_path(given).unwrap(), identity, "{}", given.display());
        weights.check(&identity.stamps).unwrap();
        let shown = inspect::describe(given).unwrap();
        assert_eq!((shown.files, shown.tensors["F32"].0), (paths.clone(), n));
        assert!(shown.metadata.contains(&("llama.block_count".into(), "2".into())));
    }
    // A change of any part is another model; names are not part of it.
    let moved = tempfile::tempdir().unwrap();
    for (i, path) in paths.iter().enumerate() {
        fs::copy(path, moved.path().join(format!("other-{:05}-of-00003.gguf", i + 1))).unwrap();
    }
    assert_eq!(Identity::from_path(moved.path()).unwrap().sha256, identity.sha256);
    let mut bytes = fs::read(&paths[2]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&paths[2], bytes).unwrap();
    assert_ne!(Identity::from_path(&paths[0]).unwrap().sha256, identity.sha256);
    assert!(Weights::open(&paths[0]).unwrap().check(&identity.stamps).is_err());
}

#[test]
fn parts_that_do_not_belong_together_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let n = Open::small().tensors.len();
    let paths = Open::small().in_parts(dir.path(), &[5, 5, n - 10]);
    let kept: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let restore = || paths.iter().zip(&kept).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    let change = |part: usize, change: &dyn Fn(Open) -> Open| {
        change(Open::read(&paths[part])).write(&paths[part]);
        let said = refusal(&paths[1]);
        restore();
        said
    };
    fs::remove_file(&paths[2]).unwrap();
    let said = refusal(&paths[0]);
    assert!(said.contains("1 of the model's 3 parts is missing: `m-00003-of-00003.gguf`"), "{said}");
    assert_eq!(Identity::from_path(&paths[1]).unwrap_err().to_string(), refusal(&paths[1]));
    assert_eq!(inspect::describe(&paths[0]).unwrap_err().to_string(), said);
    fs::remove_file(&paths[0]).unwrap();
    let said = refusal(dir.path());
    let two = "2 of the model's 3 parts are missing: `m-00001-of-00003.gguf`, `m-00003-of-00003.gguf`";
    assert!(said.contains(two), "{said}");
    restore();
    fs::copy(&paths[1], &paths[2]).unwrap();
    let said = refusal(&paths[0]);
    restore();
    assert!(said.contains("m-00003-of-00003.gguf`: its name says part 3"), "{said}");
    assert!(said.contains("its `split.no` is 1, which is part 2"), "{said}");
    let said = change(2, &|part| part.with("split.count", Value::U16(4)));
    assert!(said.contains("m-00003-of-00003.gguf`: its `split.count` is 4, and its name says 3"), "{said}");
    let said = change(1, &|part| part.without("split.count"));
    assert!(said.contains("m-00002-of-00003.gguf`: its header has no `split.count`"), "{said}");
    let said = change(1, &|part| part.with("split.no", Value::String("1".into())));
    assert!(said.contains("`split.no` is 1, not a number"), "{said}");
    let said = change(1, &|part| part.with("split.tensors.count", Value::I32(99)));
    assert!(said.contains("m-00002-of-00003.gguf`: its `split.tensors.count` is 99, and"), "{said}");
    let said = change(1, &|part| part.with("llama.block_count", Value::U32(3)));
    assert!(said.contains("its `llama.block_count` is 3, and 2 in the first part"), "{said}");
    let said = change(1, &|part| part.with("llama.logit_scale", Value::F32(3.0)));
    assert!(said.contains("its key `llama.logit_scale` is not in the first part"), "{said}");
    let said = change(2, &|mut part| {
        part.tensors.push(("blk.0.attn_k.weight".into(), floats(&[128, 256])));
        part
    });
    assert!(said.contains("the tensor `blk.0.attn_k.weight` is also in"), "{said}");
    let said = change(2, &|mut part| {
        part.tensors.push(("blk.0.attn_q.bias".into(), floats(&[256])));
        part
    });
    assert!(said.contains("`split.tensors.count` is 21, and its parts have 22 tensors"), "{said}");
    let mut fewer = Open::read(&paths[2]);
    fewer.tensors.retain(|(name, _)| name != "output.weight");
    fewer.write(&paths[2]);
    let remarks = Weights::open(&paths[1]).unwrap().remarks().join("\n");
    restore();
    assert!(
        remarks.contains("`split.tensors.count` is 21, and the model's parts have 20 tensors"),
        "{remarks}"
    );
}

#[test]
fn a_part_under_another_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let n = Open::small().tensors.len();
    let paths = Open::small().in_parts(dir.path(), &[5, 5, n - 10]);
    let alone = dir.path().join("alone.gguf");
    fs::copy(&paths[1], &alone).unwrap();
    let said = refusal(&alone);
    assert!(said.contains("it is part 2 of the 3 parts of a model, which its name does not say"), "{said}");
    assert!(said.contains("hint: the parts of a model are named `MODEL-00001-of-00003.gguf`"), "{said}");
    let said = refusal(dir.path());
    assert!(said.contains("holds 2 models: `alone.gguf`, `m-00001-of-00003.gguf`; hint: give one"), "{said}");
}

#[test]
fn files_beside_a_model_that_are_none_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let of_type = |kind: &str| Open::small().with("general.type", Value::String(kind.into()));
    let file = |name: &str| dir.path().join(name);
    of_type("mmproj").write(&file("a-mmproj.gguf"));
    of_type("imatrix").write(&file("b-imatrix.gguf"));
    Open::small().named("clip").write(&file("c-mmproj.gguf"));
    assert!(refusal(dir.path()).contains("holds 3 models"), "{}", refusal(dir.path()));
    of_type("model").write(&file("d.gguf"));
    assert_eq!(Weights::open(dir.path()).unwrap().path(), file("d.gguf"));
    of_type("model").write(&file("e.gguf"));
    assert!(refusal(dir.path()).contains("holds 2 models: `d.gguf`, `e.gguf`"), "{}", refusal(dir.path()));
}

/// Writes a file with a matrix in `IQ4_NL`, which has the blocks of `Q4_0` with other values.
pub fn with_uneven_values(path: &Path) {
    gguf(path, GgmlDType::Q4_0);
    let mut bytes = fs::read(path).unwrap();
    let tensor = "blk.1.ffn_up.weight";
    let at = bytes.windows(tensor.len()).position(|w| w == tensor.as_bytes()).unwrap();
    bytes[at + tensor.len() + 20..][..4].copy_from_slice(&20_u32.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_type_that_is_not_read_is_named_with_its_first_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    Open::small().write(&path);
    let bytes = fs::read(&path).unwrap();
    for (number, name) in
        [(16_u32, "IQ2_XXS"), (18, "IQ3_XXS"), (21, "IQ3_S"), (40, "NVFP4"), (99, "number 99")]
    {
        let mut bytes = bytes.clone();
        for tensor in ["blk.0.attn_k.weight", "blk.1.ffn_up.weight"] {
            let at = bytes.windows(tensor.len()).position(|w| w == tensor.as_bytes()).unwrap();
            // Behind a name: the number of dimensions, two dimensions, the type.
            bytes[at + tensor.len() + 20..][..4].copy_from_slice(&number.to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        let said = refusal(&path);
        let type_of = format!("tensor `blk.0.attn_k.weight` is of type {name}, which is not supported");
        assert!(said.contains(&type_of), "{said}");
        assert!(said.contains("Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, MXFP4"), "{said}");
        let shown = inspect::describe(&path).unwrap();
        assert_eq!(shown.tensors[&format!("{name} (not supported)")].0, 2);
    }
}

#[test]
fn settings_are_followed() {
    let plain = Open::small().config();
    let with = |key: &str, value| Open::small().with(&format!("llama.{key}"), value).config();
    let rope = |open: Open| open.config().full.rope;
    let linear = Rope { theta: 1e4, scaling: Scaling::Linear(4.0) };
    let key = "llama.rope.scaling.factor";
    assert_eq!(rope(Open::small().with(key, Value::F32(4.0))), linear, "linear is what no type means");
    assert_eq!(rope(Open::small().with("llama.rope.scale_linear", Value::F32(4.0))), linear, "its old name");
    let none = |open: Open| open.with("llama.rope.scaling.type", Value::String("none".into()));
    assert_eq!(rope(none(Open::small().with(key, Value::F32(4.0)))), plain.full.rope, "a factor of nothing");
    let yarn = |more: &[(&str, f32)]| {
        let mut open = Open::small().with(key, Value::F32(4.0));
        open = open.with("llama.rope.scaling.type", Value::String("yarn".into()));
        for (key, value) in more {
            open = open.with(&format!("llama.rope.scaling.{key}"), Value::F32(*value));
        }
        match rope(open).scaling {
            Scaling::Yarn { factor, original, beta_fast, beta_slow, attention, .. } => {
                assert_eq!((factor, original), (4.0, 128.0), "the context where no other length is given");
                (beta_fast, beta_slow, attention)
            }
            other => panic!("{other:?}"),
        }
    };
    let own = 0.1 * 4_f64.ln() + 1.0;
    assert_eq!(yarn(&[]), (32.0, 1.0, None));
    assert_eq!(yarn(&[("yarn_beta_fast", 16.0), ("yarn_beta_slow", 2.0)]), (16.0, 2.0, None));
    assert_eq!(yarn(&[("attn_factor", 0.5)]), (32.0, 1.0, Some(own * 0.5)), "multiplied");
    assert_eq!(yarn(&[("yarn_attn_factor", 0.5), ("attn_factor", 2.0)]), (32.0, 1.0, Some(1.0)), "replaced");
    assert_eq!(yarn(&[("yarn_ext_factor", 1.0)]), (32.0, 1.0, None));
    assert_eq!(Some(with("attention.scale", Value::F32(0.25)).attention_scale), Some(0.25));
    assert_eq!(with("embedding_scale", Value::F32(12.0)).embedding_scale, Some(12.0));
    let mistral = with("attention.sliding_window", Value::U32(32));
    assert_eq!((mistral.window(), mistral.slides), (Some(32), vec![true, true]));
    assert_eq!(with("attention.sliding_window", Value::U32(128)), plain, "a window of the whole context");
    let heads = Value::Array(vec![Value::I32(2), Value::I32(2)]);
    assert_eq!(with("attention.head_count_kv", heads.clone()), plain, "the same in all layers");
    let sliding = Open::small().with("llama.attention.sliding_window", Value::U32(32));
    let sliding = sliding.with("llama.attention.head_count_kv", heads).config();
    assert_eq!(sliding.attentions().map(|a| a.n_kv_heads).collect::<Vec<_>>(), [2, 2], "no layer is full");
    let mut scaled = Open::small().with(key, Value::F32(2.0));
    scaled.tensors.push(("rope_freqs.weight".into(), floats(&[32])));
    let Scaling::Factors(twice) = rope(scaled).scaling else { panic!("the tensor is followed") };
    assert_eq!(twice[..2].to_vec(), vec![-2.0, 2.0 * (1.0_f32 / 50.5 - 1.0)]);
    for (key, value) in [
        ("vocab_size", Value::U32(5)),
        ("expert_count", Value::U32(0)),
        ("attention.causal", Value::Bool(true)),
        ("final_logit_softcapping", Value::F32(0.0)),
        ("logit_scale", Value::F32(1.0)),
        ("rope.scaling.finetuned", Value::Bool(true)),
        ("tensor_data_layout", Value::String("Meta AI original pth".into())),
    ] {
        assert_eq!(with(key, value), plain, "{key}");
    }
}

#[test]
fn settings_that_cannot_be_followed_are_refused_by_name() {
    let refused = |key: &str, value: Value| Open::small().with(&format!("llama.{key}"), value).refusal();
    for (key, value, reason) in [
        ("rope.dimension_count", Value::U32(32), "is 32 of a head's 64; partial rotary embedding"),
        ("attention.value_length", Value::U32(32), "is 32, and a head of keys has 64"),
        ("attention.head_count_kv", Value::String("2".into()), "is `2`, not a whole number"),
        (
            "attention.head_count_kv",
            Value::Array(vec![Value::I32(2), Value::I32(4)]),
            "differs from layer to layer, which is not supported",
        ),
        ("attention.layer_norm_rms_epsilon", Value::String("1e-5".into()), "is `1e-5`, not a number"),
        ("attention.causal", Value::Bool(false), "is `false`, which is not supported"),
        ("attn_logit_softcapping", Value::F32(50.0), "is `50`, which is not supported"),
        ("final_logit_softcapping", Value::F32(30.0), "is `30`, which is not supported"),
        ("logit_scale", Value::F32(0.0625), "is `0.0625`, which is not supported"),
        ("residual_scale", Value::F32(0.22), "is `0.22`, which is not supported"),
        ("rope.scaling.yarn_log_multiplier", Value::F32(0.1), "is `0.1`, which is not supported"),
        (
            "rope.scaling.yarn_ext_factor",
            Value::F32(1.0),
            "is 1, which is supported with the scaling `yarn` alone",
        ),
        (
            "rope.scaling.attn_factor",
            Value::F32(1.5),
            "is 1.5, which is supported with the scaling `yarn` alone",
        ),
        ("rope.scaling.type", Value::String("longrope".into()), "is `longrope`, which is not supported"),
        ("rope.scaling.type", Value::U32(2), "is `2`, not a string"),
        ("rope.scaling.factor", Value::F32(f32::NAN), "is `NaN`, not a number"),
        ("rope.freq_base", Value::F32(0.0), "is 0, which is not above 0"),
        ("rope.freq_base_swa", Value::F32(1e4), "is not a setting that is known"),
        ("attention.sinks\u{1b}[2J", Value::Bool(true), "is not a setting that is known"),
    ] {
        let said = refused(key, value);
        let key = key.replace('\u{1b}', "\\u{1b}");
        assert!(said.contains(&format!("the model's `llama.{key}` {reason}")), "{said}");
    }
    let both = Open::small().with("llama.rope.scale_linear", Value::F32(2.0));
    let said = both.with("llama.rope.scaling.factor", Value::F32(4.0)).refusal();
    assert!(said.contains("`llama.rope.scale_linear` is 2, and `llama.rope.scaling.factor` is 4"), "{said}");
    let yarn = Open::small().with("llama.rope.scaling.type", Value::String("yarn".into()));
    let said = yarn.with("llama.rope.scaling.yarn_ext_factor", Value::F32(0.5)).refusal();
    assert!(said.contains("`llama.rope.scaling.yarn_ext_factor` is 0.5; only 1 is supported"), "{said}");
    for key in ["context_length", "attention.layer_norm_rms_epsilon", "feed_forward_length"] {
        let said = Open::small().without(&format!("llama.{key}")).refusal();
        assert!(said.contains(&format!("the model's `llama.{key}` is missing")), "{said}");
    }
    let mixtral = refused("expert_count", Value::U32(8));
    assert!(mixtral.contains("the model's `llama.expert_used_count` is missing"), "{mixtral}");
    let window = Open::small().with("llama.attention.sliding_window", Value::U32(16)).named("qwen3");
    assert!(window.refusal().contains("`qwen3.attention.sliding_window` is 16"), "{}", window.refusal());
    let projector = Open::small().with("general.type", Value::String("mmproj".into())).refusal();
    assert!(projector.contains("its `general.type` is `mmproj`, not `model`"), "{projector}");
    let other = Open::small().named("\u{1b}]0;x").refusal();
    assert!(other.contains("architecture `\\u{1b}]0;x` is not known"), "{other}");
}

#[test]
fn tensors_that_the_decoder_has_no_place_for_are_refused_by_name() {
    for (name, shape, said) in [
        ("blk.0.attn_q_norm.weight", vec![64], "tensor `blk.0.attn_q_norm.weight` is not one of"),
        (
            "blk.0.ffn_gate_inp.weight",
            vec![8, 256],
            "tensor `blk.0.ffn_gate_inp.weight` is not one that the decoder reads with these settings",
        ),
        ("blk.2.attn_q.weight", vec![256, 256], "belongs to a layer behind the 2 that `block_count` says"),
        ("cls\u{7}.weight", vec![2, 256], "tensor `cls\\u{7}.weight` is not one of the architecture `llama`"),
    ] {
        let mut open = Open::small();
        open.tensors.push((name.into(), floats(&shape)));
        assert!(open.refusal().contains(said), "{}", open.refusal());
    }
    let said = Open::small().named("qwen2").refusal();
    assert!(said.contains("`model.layers.0.self_attn.q_proj.bias` is missing"), "{said}");
    let mut biased = Open::small();
    biased.tensors.push(("blk.1.attn_k.bias".into(), floats(&[128])));
    assert!(biased.weights().unwrap().contains("model.layers.1.self_attn.k_proj.bias"));
    let mut tied = Open::small();
    tied.tensors.retain(|(name, _)| name != "output.weight");
    assert!(tied.config().tied);
    tied.tensors.push(("output.bias".into(), floats(&[272])));
    assert!(tied.refusal().contains("has no output matrix to be added to"), "{}", tied.refusal());
}

#[test]
fn headers_with_two_of_a_kind_are_refused() {
    let mut open = Open::small();
    open.metadata.push(("general.na\u{1b}me".into(), Value::U32(1)));
    open.metadata.push(("general.na\u{1b}me".into(), Value::U32(2)));
    assert!(
        open.refusal().contains("the key `general.na\\u{1b}me` stands in it twice"),
        "{}",
        open.refusal()
    );
    let mut open = Open::small();
    open.tensors.push(("output.weight".into(), floats(&[272, 256])));
    assert!(open.refusal().contains("the tensor `output.weight` stands in it twice"), "{}", open.refusal());
}
