//! Language codes and the English names that prompts use.

use serde::{Deserialize, Serialize};

/// A language as given (`en`, `de_DE`, `sr_Cyrl_RS`) with its English name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Lang {
    code: String,
    name: String,
}
