//! A small model as a GGUF file: a llama of two layers of seeded noise, each of whose matrices has another
//! format, with a vocabulary of single bytes. Its output is meaningless.

use tribunal_core::random::SplitMix;

const HIDDEN: usize = 256;
const FEED_FORWARD: usize = 256;
const HEADS: usize = 2;
const HEAD_DIM: usize = 32;
const CONTEXT: usize = 1024;
const SEED: u64 = 45;

/// Bytes, the token that ends a turn, and another that acts.
const SPECIAL: [&str; 2] = ["<|end|>", "<|other|>"];
const VOCABULARY: usize = 256 + SPECIAL.len();

/// Distribution of a format's numbers, with a standard deviation of about 0.07.
enum Numbers {
    /// Multiples of a power of two, which the format holds exactly.
    Floats(fn(&mut SplitMix) -> Vec<u8>),
    /// Blocks of so many values and bytes: random codes, and at these places scales `n * 2^exponent` in f16.
    Blocks { values: usize, bytes: usize, scales: &'static [(usize, i32, i32)] },
}

/// A format: its number in GGUF, and its numbers. Source: llama.cpp, `ggml/src/ggml-common.h`.
struct Format(u32, Numbers);

const fn blocks(values: usize, bytes: usize, scales: &'static [(usize, i32, i32)]) -> Numbers {
    Numbers::Blocks { values, bytes, scales }
}

const F32: Format = Format(0, Numbers::Floats(|random| multiple(random, 24, -26).to_le_bytes().into()));
const F16: Format =
    Format(1, Numbers::Floats(|random| f16(multiple_of(random, 11), -13).to_le_bytes().into()));
const BF16: Format = Format(
    30,
    Numbers::Floats(|random| ((multiple(random, 8, -10).to_bits() >> 16) as u16).to_le_bytes().into()),
);
const Q4_0: Format = Format(2, blocks(32, 18, &[(0, 1, -6)]));
const Q4_1: Format = Format(3, blocks(32, 20, &[(0, 1, -6), (2, -15, -7)]));
const Q5_0: Format = Format(6, blocks(32, 22, &[(0, 1, -7)]));
const Q5_1: Format = Format(7, blocks(32, 24, &[(0, 1, -7), (2, -31, -8)]));
const Q8_0: Format = Format(8, blocks(32, 34, &[(0, 1, -10)]));
const Q2_K: Format = Format(10, blocks(256, 84, &[(80, 1, -8), (82, 3, -9)]));
const Q3_K: Format = Format(11, blocks(256, 110, &[(108, 1, -9)]));
const Q4_K: Format = Format(12, blocks(256, 144, &[(0, 1, -12), (2, 15, -13)]));
const Q5_K: Format = Format(13, blocks(256, 176, &[(0, 1, -13), (2, 31, -14)]));
const Q6_K: Format = Format(14, blocks(256, 210, &[(208, 1, -14)]));
const IQ4_NL: Format = Format(20, blocks(32, 18, &[(0, 1, -10)]));
const IQ4_XS: Format = Format(23, blocks(256, 136, &[(0, 1, -14)]));

/// The matrices of both layers: name, outputs, inputs, format in each layer.
const MATRICES: [(&str, usize, usize, [Format; 2]); 7] = [
    ("attn_q", HEADS * HEAD_DIM, HIDDEN, [Q4_K, Q2_K]),
    ("attn_k", HEAD_DIM, HIDDEN, [Q5_K, IQ4_XS]),
    ("attn_v", HEAD_DIM, HIDDEN, [Q6_K, F16]),
    ("attn_output", HIDDEN, HEADS * HEAD_DIM, [Q8_0, IQ4_NL]),
    ("ffn_gate", FEED_FORWARD, HIDDEN, [Q4_0, Q4_1]),
    ("ffn_up", FEED_FORWARD, HIDDEN, [Q5_0, Q5_1]),
    ("ffn_down", HIDDEN, FEED_FORWARD, [Q3_K, BF16]),
];

/// The file's bytes.
pub fn gguf() -> Vec<u8> {
    let mut file = File { tensors: Vec::new(), n_tensors: 0, data: Vec::new(), random: SplitMix(SEED) };
    file.matrix("token_embd", VOCABULARY, HIDDEN, &Q8_0);
    file.norm("output_norm");
    file.matrix("output", VOCABULARY, HIDDEN, &F32);
    for layer in 0..2 {
        for norm in ["attn_norm", "ffn_norm"] {
            file.norm(&format!("blk.{layer}.{norm}"));
        }
        for (name, outputs, inputs, formats) in &MATRICES {
            file.matrix(&format!("blk.{layer}.{name}"), *outputs, *inputs, &formats[layer]);
        }
    }
    file.written()
}

/// A random whole number of so many bits, with a sign.
fn multiple_of(random: &mut SplitMix, bits: u32) -> i32 {
    (random.draw() >> (64 - bits)) as i32 - (1 << (bits - 1))
}

fn multiple(random: &mut SplitMix, bits: u32, exponent: i32) -> f32 {
    // Both factors and the product are exact.
    multiple_of(random, bits) as f32 * f32::from_bits(((exponent + 127) as u32) << 23)
}

/// `n * 2^exponent` in f16, for an `n` of at most 11 bits and a result that is not subnormal.
fn f16(n: i32, exponent: i32) -> u16 {
    if n == 0 {
        return 0;
    }
    let top = n.unsigned_abs().ilog2();
    let fraction = (n.unsigned_abs() << (10 - top)) & 0x3ff;
    let sign = if n < 0 { 0x8000 } else { 0 };
    sign | (((exponent + top as i32 + 15) as u16) << 10) | fraction as u16
}

struct File {
    /// The table of tensors.
    tensors: Vec<u8>,
    n_tensors: u64,
    data: Vec<u8>,
    random: SplitMix,
}

/// Alignment of tensors in the file. Unit: bytes.
const ALIGNMENT: usize = 32;

impl File {
    fn matrix(&mut self, name: &str, outputs: usize, inputs: usize, Format(kind, numbers): &Format) {
        self.entry(name, &[inputs, outputs], *kind);
        match numbers {
            Numbers::Floats(draw) => {
                for _ in 0..inputs * outputs {
                    let bytes = draw(&mut self.random);
                    self.data.extend(bytes);
                }
            }
            Numbers::Blocks { values, bytes, scales } => {
                for _ in 0..inputs * outputs / values {
                    let mut block: Vec<u8> = (0..*bytes).map(|_| self.random.draw() as u8).collect();
                    for (at, n, exponent) in *scales {
                        block[*at..at + 2].copy_from_slice(&f16(*n, *exponent).to_le_bytes());
                    }
                    self.data.extend(block);
                }
            }
        }
    }

    fn norm(&mut self, name: &str) {
        self.entry(name, &[HIDDEN], F32.0);
        for _ in 0..HIDDEN {
            let weight = 1.0 + multiple(&mut self.random, 8, -10);
            self.data.extend(weight.to_le_bytes());
        }
    }

    fn entry(&mut self, name: &str, shape: &[usize], kind: u32) {
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        text(&mut self.tensors, &format!("{name}.weight"));
        self.tensors.extend((shape.len() as u32).to_le_bytes());
        self.tensors.extend(shape.iter().flat_map(|n| (*n as u64).to_le_bytes()));
        self.tensors.extend(kind.to_le_bytes());
        self.tensors.extend((self.data.len() as u64).to_le_bytes());
        self.n_tensors += 1;
    }

    fn written(self) -> Vec<u8> {
        let (metadata, n_values) = metadata();
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(self.n_tensors.to_le_bytes());
        file.extend(n_values.to_le_bytes());
        file.extend(metadata);
        file.extend(self.tensors);
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(self.data);
        file
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A value of the metadata.
enum Value<'a> {
    Size(usize),
    Float(f32),
    Text(&'a str),
    Texts(Vec<String>),
    /// Kinds of tokens.
    Kinds(Vec<i32>),
}

/// The metadata and the number of its values.
fn metadata() -> (Vec<u8>, u64) {
    let template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}";
    let tokens = (0..256).map(letter).chain(SPECIAL.map(str::to_owned)).collect();
    let values = [
        ("general.architecture", Value::Text("llama")),
        ("llama.embedding_length", Value::Size(HIDDEN)),
        ("llama.block_count", Value::Size(2)),
        ("llama.feed_forward_length", Value::Size(FEED_FORWARD)),
        ("llama.attention.head_count", Value::Size(HEADS)),
        ("llama.attention.head_count_kv", Value::Size(1)),
        ("llama.attention.key_length", Value::Size(HEAD_DIM)),
        ("llama.attention.value_length", Value::Size(HEAD_DIM)),
        ("llama.rope.dimension_count", Value::Size(HEAD_DIM)),
        ("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5)),
        ("llama.context_length", Value::Size(CONTEXT)),
        ("tokenizer.ggml.model", Value::Text("gpt2")),
        ("tokenizer.ggml.pre", Value::Text("qwen2")),
        ("tokenizer.ggml.tokens", Value::Texts(tokens)),
        (
            "tokenizer.ggml.token_type",
            Value::Kinds((0..VOCABULARY).map(|id| if id < 256 { 1 } else { 3 }).collect()),
        ),
        ("tokenizer.ggml.eos_token_id", Value::Size(256)),
        ("tokenizer.chat_template", Value::Text(template)),
    ];
    let mut out = Vec::new();
    for (key, value) in &values {
        text(&mut out, key);
        write(&mut out, value);
    }
    (out, values.len() as u64)
}

/// Source: `docs/gguf.md` of ggml.
fn write(out: &mut Vec<u8>, value: &Value) {
    const UINT32: u32 = 4;
    const INT32: u32 = 5;
    const FLOAT32: u32 = 6;
    const STRING: u32 = 8;
    const ARRAY: u32 = 9;
    let array = |out: &mut Vec<u8>, kind: u32, n: usize| {
        out.extend(ARRAY.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend((n as u64).to_le_bytes());
    };
    match value {
        Value::Size(n) => {
            out.extend(UINT32.to_le_bytes());
            out.extend((*n as u32).to_le_bytes());
        }
        Value::Float(x) => {
            out.extend(FLOAT32.to_le_bytes());
            out.extend(x.to_le_bytes());
        }
        Value::Text(value) => {
            out.extend(STRING.to_le_bytes());
            text(out, value);
        }
        Value::Texts(texts) => {
            array(out, STRING, texts.len());
            for value in texts {
                text(out, value);
            }
        }
        Value::Kinds(kinds) => {
            array(out, INT32, kinds.len());
            out.extend(kinds.iter().flat_map(|kind| kind.to_le_bytes()));
        }
    }
}

/// A byte as vocabularies of bytes spell it: itself where it prints, else the next letter behind the first
/// 256.
fn letter(byte: u32) -> String {
    let prints = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let code =
        if prints(byte) { byte } else { 256 + (0..byte).filter(|other| !prints(*other)).count() as u32 };
    char::from_u32(code).map(String::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        assert_eq!(f16(1, -6), 0x2400);
        assert_eq!(f16(-15, -7), 0xaf80);
        assert_eq!(f16(1023, -13), 0x2ffe);
        assert_eq!(f16(1, -14), 0x0400);
        let mut random = SplitMix(1);
        for _ in 0..1000 {
            let x = multiple(&mut random, 8, -10);
            assert!(x.abs() <= 0.125 && x.to_bits().trailing_zeros() >= 16, "{x} is no bf16");
        }
    }

    #[test]
    fn the_same_bytes_every_time() {
        let hash = tribunal_core::digest::short(gguf());
        assert_eq!(hash, "d2044f01", "the model of the recorded verdicts");
    }
}
