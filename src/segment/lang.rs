//! Language codes and the English names that prompts use.

use serde::{Deserialize, Serialize};

/// A language as given (`en`, `de_DE`, `sr_Cyrl_RS`) with its English name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Lang {
    code: String,
    name: String,
}

impl From<Lang> for String {
    fn from(lang: Lang) -> Self {
        lang.code
    }
}

impl TryFrom<String> for Lang {
    type Error = std::convert::Infallible;

    fn try_from(code: String) -> Result<Self, Self::Error> {
        Ok(Self { name: code.clone(), code })
    }
}
