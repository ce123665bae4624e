//! The types that ggml stores tensors in, by their numbers, and which of them are read here.
//!
//! Source: `enum ggml_type` of ggml's `ggml.h`.

use std::fmt;

use candle_core::quantized::GgmlDType;

/// A type, by its number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u32);

/// Number, name, and the type as it is read; `None` where it is not.
const KINDS: &[(u32, &str, Option<GgmlDType>)] = &[
    (0, "F32", Some(GgmlDType::F32)),
    (1, "F16", Some(GgmlDType::F16)),
    (2, "Q4_0", Some(GgmlDType::Q4_0)),
    (3, "Q4_1", Some(GgmlDType::Q4_1)),
    (4, "Q4_2", None),
    (5, "Q4_3", None),
    (6, "Q5_0", Some(GgmlDType::Q5_0)),
    (7, "Q5_1", Some(GgmlDType::Q5_1)),
    (8, "Q8_0", Some(GgmlDType::Q8_0)),
    (9, "Q8_1", None),
    (10, "Q2_K", None),
    (11, "Q3_K", None),
    (12, "Q4_K", Some(GgmlDType::Q4K)),
    (13, "Q5_K", Some(GgmlDType::Q5K)),
    (14, "Q6_K", Some(GgmlDType::Q6K)),
    (15, "Q8_K", None),
    (16, "IQ2_XXS", None),
    (17, "IQ2_XS", None),
    (18, "IQ3_XXS", None),
    (19, "IQ1_S", None),
    (20, "IQ4_NL", None),
    (21, "IQ3_S", None),
    (22, "IQ2_S", None),
    (23, "IQ4_XS", None),
    (24, "I8", None),
    (25, "I16", None),
    (26, "I32", None),
    (27, "I64", None),
    (28, "F64", None),
    (29, "IQ1_M", None),
    (30, "BF16", Some(GgmlDType::BF16)),
    (31, "Q4_0_4_4", None),
    (32, "Q4_0_4_8", None),
    (33, "Q4_0_8_8", None),
    (34, "TQ1_0", None),
    (35, "TQ2_0", None),
    (36, "IQ4_NL_4_4", None),
    (37, "IQ4_NL_4_8", None),
    (38, "IQ4_NL_8_8", None),
    (39, "MXFP4", None),
    (40, "NVFP4", None),
    (41, "Q1_0", None),
    (42, "Q2_0", None),
];

impl Kind {
    /// The type as it is read; `None` for one that is not.
    #[must_use]
    pub fn read(self) -> Option<GgmlDType> {
        self.row().and_then(|(.., read)| *read)
    }

    /// The names of all types that are read, in the order of their numbers.
    #[must_use]
    pub fn all_read() -> Vec<&'static str> {
        KINDS.iter().filter(|(.., read)| read.is_some()).map(|(_, name, _)| *name).collect()
    }

    fn row(self) -> Option<&'static (u32, &'static str, Option<GgmlDType>)> {
        KINDS.iter().find(|(number, ..)| *number == self.0)
    }
}

impl fmt::Display for Kind {
    /// ggml's name, or `number 77` for a number that has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some((_, name, _)) => f.pad(name),
            None => f.pad(&format!("number {}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_name() {
        assert!(KINDS.iter().enumerate().all(|(i, (number, ..))| i == *number as usize));
        let names: Vec<String> = [0, 12, 23, 30, 39, 41, 77].map(|n| Kind(n).to_string()).into();
        assert_eq!(names, ["F32", "Q4_K", "IQ4_XS", "BF16", "MXFP4", "Q1_0", "number 77"]);
        let read = "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16";
        assert_eq!(Kind::all_read().join(", "), read);
    }
}
