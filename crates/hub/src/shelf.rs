//! The cards and chat templates that are built into the program. A test compares these lists with the files
//! in `models/`. It reads no folder at run time.

macro_rules! cards {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each card, the smallest first within a family.
        pub(super) const CARDS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../models/", $name, ".toml")))),*];
    };
}

cards![
    "smollm2-135m-instruct",
    "gemma-3-270m",
    "multilingual-e5-small",
    "qwen2.5-coder-0.5b-instruct",
    "qwen2.5-coder-1.5b-instruct",
    "qwen2.5-0.5b-instruct",
    "qwen2.5-1.5b-instruct",
    "qwen2.5-3b-instruct",
    "qwen2.5-7b-instruct",
    "qwen2.5-14b-instruct",
    "qwen2.5-32b-instruct",
    "qwen2.5-72b-instruct",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-4b",
    "qwen3-8b",
    "qwen3-14b",
    "qwen3-32b",
    "qwen3-30b-a3b-instruct-2507",
    "qwen3-235b-a22b-instruct-2507",
    "qwen3.5-4b",
    "qwen3.5-9b",
    "qwen3.6-27b",
    "qwen3.6-35b-a3b",
    "glm-4.5-air",
    "tower-plus-9b",
    "remedy-9b-22",
    "remedy-9b-23",
    "wmt20-comet-qe-da",
    "wmt22-comet-da",
    "wmt22-cometkiwi-da",
    "wmt23-cometkiwi-da-xl",
    "xcomet-xl",
    "sentinel-src-24",
    "llama-3.1-8b-instruct",
    "gemma-3-1b-it",
    "gemma-3-4b-it",
    "gemma-3-12b-it",
    "gemma-3-27b-it",
    "gemma-4-12b-it",
    "gemma-4-26b-a4b-it",
    "gemma-4-31b-it",
    "gpt-oss-20b",
    "gpt-oss-120b",
];

const TEMPLATES: &[(&str, &str)] = &[("plain.j2", include_str!("../../../models/templates/plain.j2"))];

/// The text of a chat template in `models/templates/`.
pub(super) fn template(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn names_in(folder: &str, ending: &str) -> BTreeSet<String> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(folder);
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect()
    }

    #[test]
    fn the_lists_equal_the_folder() {
        let listed: BTreeSet<_> = CARDS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, names_in("models", ".toml"));
        let listed: BTreeSet<_> = TEMPLATES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, names_in("models/templates", ""));
    }
}
