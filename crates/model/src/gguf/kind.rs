//! The types that ggml stores tensors in, by their numbers, and which of them are read here.
//!
//! Source: `enum ggml_type` of ggml's `ggml.h`.

use std::fmt;

/// A type, by its number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u32);

/// Number, name, and true for types that are read.
const KINDS: &[(u32, &str, bool)] = &[
    (0, "F32", true),
    (1, "F16", true),
    (2, "Q4_0", true),
    (3, "Q4_1", true),
    (4, "Q4_2", false),
    (5, "Q4_3", false),
    (6, "Q5_0", true),
    (7, "Q5_1", true),
    (8, "Q8_0", true),
    (9, "Q8_1", false),
    (10, "Q2_K", true),
    (11, "Q3_K", true),
    (12, "Q4_K", true),
    (13, "Q5_K", true),
    (14, "Q6_K", true),
    (15, "Q8_K", false),
    (16, "IQ2_XXS", false),
    (17, "IQ2_XS", false),
    (18, "IQ3_XXS", false),
    (19, "IQ1_S", false),
    (20, "IQ4_NL", true),
    (21, "IQ3_S", false),
    (22, "IQ2_S", false),
    (23, "IQ4_XS", true),
    (24, "I8", false),
    (25, "I16", false),
    (26, "I32", false),
    (27, "I64", false),
    (28, "F64", false),
    (29, "IQ1_M", false),
    (30, "BF16", true),
    (31, "Q4_0_4_4", false),
    (32, "Q4_0_4_8", false),
    (33, "Q4_0_8_8", false),
    (34, "TQ1_0", false),
    (35, "TQ2_0", false),
    (36, "IQ4_NL_4_4", false),
    (37, "IQ4_NL_4_8", false),
    (38, "IQ4_NL_8_8", false),
    (39, "MXFP4", true),
    (40, "NVFP4", false),
    (41, "Q1_0", false),
    (42, "Q2_0", false),
];

impl Kind {
    /// Returns true if tensors of this type are read.
    #[must_use]
    pub fn is_read(self) -> bool {
        self.row().is_some_and(|(.., read)| *read)
    }

    /// The names of all types that are read, in the order of their numbers.
    #[must_use]
    pub fn all_read() -> Vec<&'static str> {
        KINDS.iter().filter(|(.., read)| *read).map(|(_, name, _)| *name).collect()
    }

    fn row(self) -> Option<&'static (u32, &'static str, bool)> {
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
        let read = "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, MXFP4";
        assert_eq!(Kind::all_read().join(", "), read);
    }
}
