//! The types that ggml stores tensors in, by their numbers, and which of them are read here.
//!
//! Source: `enum ggml_type` of ggml's `ggml.h`.

use std::fmt;

/// A type, by its number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u32);

/// The names of all types, by number, and those of types that are read.
const NAMES: &str = "\
    F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS \
    IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 \
    IQ4_NL_4_4 IQ4_NL_4_8 IQ4_NL_8_8 MXFP4 NVFP4 Q1_0 Q2_0";
const READ: &str = "F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS BF16 MXFP4";

impl Kind {
    /// Returns true if tensors of this type are read.
    pub fn is_read(self) -> bool {
        self.name().is_some_and(|name| Self::all_read().contains(&name))
    }

    /// The names of all types that are read, in the order of their numbers.
    pub fn all_read() -> Vec<&'static str> {
        READ.split(' ').collect()
    }

    fn name(self) -> Option<&'static str> {
        NAMES.split(' ').nth(self.0 as usize)
    }
}

impl fmt::Display for Kind {
    /// ggml's name, or `number 77` for a number that has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("number {}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_name() {
        let names: Vec<String> = [0, 12, 23, 30, 39, 41, 77].map(|n| Kind(n).to_string()).into();
        assert_eq!(names, ["F32", "Q4_K", "IQ4_XS", "BF16", "MXFP4", "Q1_0", "number 77"]);
        let read = "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, MXFP4";
        assert_eq!(Kind::all_read().join(", "), read);
    }
}
