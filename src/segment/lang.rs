//! Language codes and the English names that prompts use.

use serde::{Deserialize, Serialize};

/// A language as given (`en`, `de_DE`, `sr_Cyrl_RS`) with its English name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Lang {
    code: String,
    name: String,
}

impl Lang {
    /// The English name that prompts use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<Lang> for String {
    fn from(lang: Lang) -> Self {
        lang.code
    }
}

impl TryFrom<String> for Lang {
    type Error = String;

    fn try_from(code: String) -> Result<Self, String> {
        let table = [("en", "English"), ("de", "German"), ("zh", "Chinese"), ("cs", "Czech")];
        match table.iter().find(|(known, _)| *known == code) {
            Some((_, name)) => Ok(Self { code, name: (*name).into() }),
            None => Err(format!("unknown language code `{code}`")),
        }
    }
}
