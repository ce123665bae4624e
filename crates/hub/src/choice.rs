//! Selects the GGUF model that `hf:OWNER/NAME:QUANT` names among those of a hub repository. It reads no
//! files.

/// Returns the only one of these models, or the only one with `quant` in its name.
///
/// # Errors
/// The number of models that fit and their names, worded to follow the given name.
pub(super) fn choose<'a>(names: &'a [String], quant: Option<&str>) -> Result<&'a str, String> {
    let fitting: Vec<&String> =
        names.iter().filter(|name| quant.is_none_or(|quant| has(name, quant))).collect();
    let (n, shown) = match fitting[..] {
        [one] => return Ok(one),
        [] => ("none".to_owned(), names.iter().collect()),
        _ => (fitting.len().to_string(), fitting),
    };
    let shown: Vec<String> =
        shown.into_iter().map(|name| format!("`{}`", crate::gguf::shown(name))).collect();
    Err(format!("fits {n} of the repository's GGUF models: {}", shown.join(", ")))
}

/// Returns true if the name contains this part between separators, in any case: `Q4_K` is not a part of
/// `fox-Q4_K_M.gguf`.
fn has(name: &str, quant: &str) -> bool {
    let (name, quant) = (name.to_lowercase(), quant.to_lowercase());
    name.match_indices(&quant).any(|(at, _)| {
        let (before, after) = (&name[..at], &name[at + quant.len()..]);
        (before.is_empty() || before.ends_with(['-', '.', '_', '/']))
            && (after.is_empty() || after.starts_with(['-', '.', '/']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantisation_names_one_model() {
        let names =
            ["fox-IQ4_XS.gguf", "fox-Q4_K_M.gguf", "Q8_0/fox-Q8_0-00001-of-00002.gguf", "fox.UD-Q8_0.gguf"];
        let names = names.map(str::to_owned);
        for (quant, expected) in [
            ("Q4_K_M", "fox-Q4_K_M.gguf"),
            ("iq4_xs", "fox-IQ4_XS.gguf"),
            ("UD-Q8_0", "fox.UD-Q8_0.gguf"),
            ("fox-Q8_0", "Q8_0/fox-Q8_0-00001-of-00002.gguf"),
        ] {
            assert_eq!(choose(&names, Some(quant)), Ok(expected), "{quant}");
        }
        for (quant, said) in [
            (
                Some("Q4_K"),
                "fits none of the repository's GGUF models: `fox-IQ4_XS.gguf`, `fox-Q4_K_M.gguf`, ",
            ),
            (Some("4_XS"), "fits none"),
            (
                Some("q8_0"),
                "fits 2 of the repository's GGUF models: `Q8_0/fox-Q8_0-00001-of-00002.gguf`, `fox.UD",
            ),
            (None, "fits 4 of"),
        ] {
            assert!(choose(&names, quant).unwrap_err().starts_with(said), "{quant:?}");
        }
    }
}
