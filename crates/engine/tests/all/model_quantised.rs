//! Checkpoints of quantisation libraries: the tiny Qwen3 with two matrices in each library's storage, against
//! the expected values.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use tribunal_cpu::{Activations, Compute, Packed};
use tribunal_engine::Device;
use tribunal_model::{KvType, Weights, weights::Format};

use crate::model::{Desk, bits, root, tiny};

/// The tensors of a file, by name.
type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn read(path: &Path) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let owned = |view: TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
    file.tensors().into_iter().map(|(name, view)| (name, owned(view))).collect()
}

/// The tiny Qwen3 without some modules' matrices, with these tensors and settings.
fn folder(without: &[&str], with: &Tensors, quantization: &Value) -> tempfile::TempDir {
    let mut tensors = read(&tiny("qwen3").join("model.safetensors"));
    tensors.retain(|name, _| !without.iter().any(|module| *name == format!("{module}.weight")));
    tensors.extend(with.clone());
    let mut config: Value =
        serde_json::from_slice(&fs::read(tiny("qwen3").join("config.json")).unwrap()).unwrap();
    config["quantization_config"] = quantization.clone();
    with_config(&tensors, &config)
}

/// A folder with these tensors and this `config.json`.
fn with_config(tensors: &Tensors, config: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    let file = safetensors::serialize(views.collect::<HashMap<_, _>>(), None).unwrap();
    fs::write(folder.path().join("model.safetensors"), file).unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

/// A case of the golden: its settings, its tensors, and the values of its modules.
pub struct Case {
    pub name: String,
    settings: Value,
    tensors: Tensors,
    values: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

pub fn cases() -> Vec<Case> {
    let golden = root().join("tests/golden/quantised");
    let all = read(&golden.with_extension("safetensors"));
    let json = fs::read(golden.with_extension("json")).unwrap();
    let settings: BTreeMap<String, Value> = serde_json::from_slice(&json).unwrap();
    let case = |(name, settings): (String, Value)| {
        let of_case = |(key, tensor): (&String, &(Dtype, Vec<usize>, Vec<u8>))| {
            key.strip_prefix(&format!("{name}/")).map(|key| (key.to_owned(), tensor.clone()))
        };
        let (values, tensors): (Tensors, Tensors) =
            all.iter().filter_map(of_case).partition(|(key, _)| key.starts_with("values/"));
        let floats = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let module = |(key, (_, shape, bytes)): (String, (Dtype, Vec<usize>, Vec<u8>))| {
            (key.trim_start_matches("values/").to_owned(), (shape, floats(&bytes)))
        };
        Case { values: values.into_iter().map(module).collect(), name, settings, tensors }
    };
    settings.into_iter().map(case).collect()
}

impl Case {
    fn modules(&self) -> Vec<&str> {
        self.values.keys().map(String::as_str).collect()
    }

    pub fn folder(&self) -> tempfile::TempDir {
        folder(&self.modules(), &self.tensors, &self.settings)
    }

    /// A folder with its numbers as floats.
    pub fn as_floats(&self) -> tempfile::TempDir {
        let module = |(module, (shape, values)): (&String, &(Vec<usize>, Vec<f32>))| {
            let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            (format!("{module}.weight"), (Dtype::F32, shape.clone(), bytes))
        };
        folder(&self.modules(), &self.values.iter().map(module).collect(), &Value::Null)
    }
}

fn logits(folder: &Path) -> Vec<u32> {
    bits(&logits_on(&Device::Cpu, folder, KvType::F32))
}

/// Logits of the last token of a sequence, on a CPU with exact activations.
pub fn logits_on(device: &Device, path: &Path, kv: KvType) -> Vec<f32> {
    let weights = Weights::open(path).unwrap_or_else(|error| panic!("{error}"));
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let mut model = device.load(&weights, compute).unwrap();
    let ids: Vec<u32> = (0..40).map(|i| (i * 17 + 3) % 256).collect();
    let mut desk = Desk::new(&mut *model, &[ids], kv);
    desk.step(&[(0, 40)]).pop().unwrap()
}

#[test]
fn values_are_those_that_are_meant() {
    for case in cases() {
        let folder = case.folder();
        let weights = Weights::open(folder.path()).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        for (module, (shape, values)) in &case.values {
            let stored = weights.get(&format!("{module}.weight"), shape).unwrap();
            let expected = match case.name.as_str() {
                "gptq" | "compressed-4" => Format::Q4_0,
                "gptq-8" | "compressed-8" => Format::Q8_0,
                name if name.contains("fp8") => Format::F8E4M3,
                _ => Format::U4,
            };
            assert_eq!(stored.dtype, expected, "{}", case.name);
            let packed = Packed::pack(stored.dtype, shape[0], shape[1], &stored.bytes).unwrap();
            let mut row = vec![0.0; shape[1]];
            for (i, values) in values.chunks(shape[1]).enumerate() {
                packed.dequantize_row(i, &mut row);
                let is_same = |(a, b): (&f32, &f32)| (a + 0.0).to_bits() == (b + 0.0).to_bits();
                assert!(
                    row.iter().zip(values).all(is_same),
                    "{} {module} row {i}: {row:?} for {values:?}",
                    case.name
                );
            }
        }
    }
}

/// A quantised checkpoint computes the same as one with equal numbers as floats, to the bit.
#[test]
fn logits_are_those_of_the_same_numbers_as_floats() {
    for case in cases() {
        assert_eq!(logits(case.folder().path()), logits(case.as_floats().path()), "{}", case.name);
    }
}

/// Multimodal checkpoints have the settings beside `text_config`.
#[test]
fn settings_beside_those_of_the_decoder_are_read() {
    let source = tiny("qwen3-5-multimodal");
    let mut tensors = read(&source.join("model.safetensors"));
    let module = "model.language_model.layers.0.mlp.down_proj";
    let (_, shape, _) = tensors[&format!("{module}.weight")].clone();
    let codes = (0..shape.iter().product()).map(|i: usize| (i % 0x60) as u8).collect();
    tensors.insert(format!("{module}.weight"), (Dtype::F8_E4M3, shape, codes));
    let scale = 0.01_f32.to_le_bytes().to_vec();
    tensors.insert(format!("{module}.weight_scale_inv"), (Dtype::F32, vec![1, 1], scale));
    let open = |outside: Value, inside: Value| {
        let mut config: Value =
            serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
        config["quantization_config"] = outside;
        config["text_config"]["quantization_config"] = inside;
        let folder = with_config(&tensors, &config);
        Weights::open(folder.path()).map(|_| logits(folder.path())).map_err(|error| error.to_string())
    };
    let of_tiles = |n: usize| json!({"quant_method": "fp8", "weight_block_size": [n, n]});
    let inside = open(Value::Null, of_tiles(128)).unwrap();
    assert_eq!(open(of_tiles(128), Value::Null).unwrap(), inside);
    assert_eq!(open(of_tiles(128), of_tiles(128)).unwrap(), inside);
    let said = open(of_tiles(128), of_tiles(64)).unwrap_err();
    assert!(said.contains("`text_config.quantization_config` contradicts `quantization_config`"), "{said}");
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let refused = |change: &dyn Fn(&mut Tensors), case: &str, words: &[&str]| {
        let mut case = cases().into_iter().find(|known| known.name == case).unwrap();
        change(&mut case.tensors);
        let folder = case.folder();
        let load = || Device::Cpu.load(&Weights::open(folder.path())?, Compute::default()).map(drop);
        let said = load().unwrap_err().to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    let at = |part: &str| format!("model.layers.0.mlp.down_proj.{part}");
    let without = |part: &'static str| move |tensors: &mut Tensors| drop(tensors.remove(&at(part)));
    refused(&without("scales"), "gptq", &["down_proj.qweight", "has no scales"]);
    refused(&without("qzeros"), "awq", &["down_proj.qweight", "has no `qzeros`"]);
    refused(&without("weight_scale_inv"), "fp8-tiles", &["down_proj.weight", "is F8_E4M3 and has no scale"]);
    let reordered = |tensors: &mut Tensors| tensors.get_mut(&at("g_idx")).unwrap().2.rotate_left(4);
    refused(&reordered, "gptq", &["down_proj.weight", "order of activations", "hint: "]);
    let moved = |tensors: &mut Tensors| tensors.get_mut(&at("qzeros")).unwrap().2[0] ^= 1;
    refused(&moved, "gptq", &["down_proj.qzeros", "zero point of", "8", "hint: "]);
    let nan = |tensors: &mut Tensors| tensors.get_mut(&at("weight")).unwrap().2[70] = 0x7f;
    refused(&nan, "fp8-tensor", &["down_proj.weight", "has a NaN in row 1"]);
    let tiny = |tensors: &mut Tensors| {
        tensors.get_mut(&at("weight_scale")).unwrap().2[..2].copy_from_slice(&[1, 0x10]);
    };
    refused(&tiny, "compressed-4", &["down_proj.weight_scale", "which f16 does not hold exactly"]);
    let narrow = |tensors: &mut Tensors| tensors.get_mut(&at("scales")).unwrap().1 = vec![32, 2];
    refused(&narrow, "awq", &["down_proj.scales", "has shape [32, 2]"]);
}

/// Symmetric integers whose zero points are stored directly, under the name of the format that stores one
/// less.
#[test]
fn symmetric_zero_points_may_be_stored_as_they_are() {
    for name in ["gptq", "gptq-8"] {
        let mut case = cases().into_iter().find(|known| known.name == name).unwrap();
        let expected = logits(case.folder().path());
        let zeros = case.tensors.iter_mut().filter(|(name, _)| name.ends_with(".qzeros"));
        // 7 becomes 8, and 127 becomes 128.
        zeros.flat_map(|(_, (.., bytes))| bytes).for_each(|byte| {
            assert!(matches!(*byte, 0x77 | 0x7f), "{byte}");
            *byte = if *byte == 0x77 { 0x88 } else { 0x80 };
        });
        assert_eq!(logits(case.folder().path()), expected, "{name}");
    }
}

/// `dynamic` of GPTQ names modules that are floats.
#[test]
fn modules_that_settings_leave_as_floats_are_floats() {
    let mut case = cases().into_iter().find(|known| known.name == "gptq").unwrap();
    let expected = logits(case.folder().path());
    case.settings["dynamic"] = json!({"-:lm_head": {}, "-:.*vision": {}});
    assert_eq!(logits(case.folder().path()), expected);
    case.settings["dynamic"] = json!({"-:model.*down_proj": {}});
    let said = Weights::open(case.folder().path()).map(drop).unwrap_err().to_string();
    assert!(said.contains("down_proj.qweight") && said.contains("leaves its module as floats"), "{said}");
}

/// Integers without a `quantization_config` are rejected.
#[test]
fn quantised_tensors_without_settings_are_refused() {
    let case = cases().remove(0);
    let folder = folder(&case.modules(), &case.tensors, &Value::Null);
    let said = Weights::open(folder.path()).map(drop).unwrap_err().to_string();
    assert!(
        said.contains("down_proj") && said.contains("I32") && said.contains("quantization_config"),
        "{said}"
    );
}

/// A matrix of 8-bit floats with scales of tiles of 48 by 32, and its numbers as floats.
fn tiled(shape: &[usize], seed: usize) -> [(Dtype, Vec<usize>, Vec<u8>); 3] {
    let (n, k) = (shape[0], shape[1]);
    // Finite numbers of all signs; 0x7f and 0xff are NaN.
    let codes: Vec<u8> =
        (0..n * k).map(|i| ((i * 37 + i / k * 11 + seed) % 112 + i % 2 * 128) as u8).collect();
    let tiles = [n.div_ceil(48), k.div_ceil(32)];
    let scales: Vec<f32> =
        (0..tiles[0] * tiles[1]).map(|i| 0.0009 + 0.0003 * ((i + seed) % 5) as f32).collect();
    let value = |i: usize| {
        let code = codes[i];
        let (exponent, mantissa) = (i32::from(code >> 3 & 15), f32::from(code & 7));
        let size = if exponent == 0 {
            mantissa / 8.0 / 64.0
        } else {
            (1.0 + mantissa / 8.0) * 2_f32.powi(exponent - 7)
        };
        let scale = scales[i / k / 48 * tiles[1] + i % k / 32];
        scale * if code < 128 { size } else { -size }
    };
    let values: Vec<f32> = (0..n * k).map(value).collect();
    let bytes = |floats: &[f32]| floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    [
        (Dtype::F8_E4M3, shape.to_vec(), codes.clone()),
        (Dtype::F32, tiles.to_vec(), bytes(&scales)),
        (Dtype::F32, shape.to_vec(), bytes(&values)),
    ]
}

/// DeepSeek's storage: matrices of layers in 8 bits, among them the one whose part is transposed.
#[test]
fn latent_attention_in_8_bits_computes_the_same_as_its_numbers_as_floats() {
    let mut floats = read(&tiny("deepseek-v3").join("model.safetensors"));
    let mut coded = floats.clone();
    let is_matrix =
        |name: &str| name.contains("_proj") && name.ends_with(".weight") && !name.contains("eh_proj");
    let names: Vec<String> = floats.keys().filter(|name| is_matrix(name)).cloned().collect();
    for (seed, name) in names.iter().enumerate() {
        let shape = floats[name].1.clone();
        if !shape[1].is_multiple_of(32) {
            continue;
        }
        let [codes, scales, values] = tiled(&shape, seed);
        floats.insert(name.clone(), values);
        coded.insert(name.clone(), codes);
        coded.insert(format!("{name}_scale_inv"), scales);
    }
    let mut config: Value =
        serde_json::from_slice(&fs::read(tiny("deepseek-v3").join("config.json")).unwrap()).unwrap();
    let expected = logits(with_config(&floats, &config).path());
    config["quantization_config"] = json!({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [48, 32]});
    assert_eq!(logits(with_config(&coded, &config).path()), expected);
    assert!(coded.contains_key("model.layers.1.self_attn.kv_b_proj.weight_scale_inv"));
}
