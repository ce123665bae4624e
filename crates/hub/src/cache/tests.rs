//! Tests of the hub's cache, on systems with symbolic links.
#![cfg(unix)]

use std::os::unix::fs::symlink;

use super::*;
use crate::find;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A cache with one repository, whose files are links into `blobs`.
fn cache(names: &[&str]) -> tempfile::TempDir {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("models--lab--fox-1");
    for name in ["refs", "blobs", &format!("snapshots/{COMMIT}")] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::write(folder.join("refs/main"), format!("{COMMIT}\n")).unwrap();
    for name in names {
        let blob = format!("blobs/blob-{}", name.replace('/', "-"));
        fs::write(folder.join(&blob), format!("{{\"{name}\": 1}}")).unwrap();
        let link = folder.join("snapshots").join(COMMIT).join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(format!("{}{blob}", "../".repeat(2 + name.matches('/').count())), link).unwrap();
    }
    cache
}

const ALL: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

#[test]
fn a_repository_is_found_by_name_branch_and_commit() {
    let cache = cache(&ALL);
    let found = |name: &str| find(name).unwrap().cached_in(cache.path()).unwrap();
    for name in ["hf:lab/fox-1".to_owned(), "hf:lab/fox-1@main".to_owned(), format!("hf:lab/fox-1@{COMMIT}")]
    {
        let local = found(&name).unwrap();
        assert_eq!(local.revision.as_deref(), Some(COMMIT), "{name}");
        assert_eq!(local.sha256, Identity::from_path(&local.folder).unwrap().sha256);
        assert!(local.weights.ends_with(COMMIT) && !local.is_pinned);
    }
    for name in ["hf:lab/fox-2", "hf:lab/fox-1@v2", "qwen3-4b"] {
        assert_eq!(found(name), None, "{name}");
    }
}

#[test]
fn gguf_models_are_found_by_quantisation_and_in_subfolders() {
    let parts = ["Q8_0/fox-Q8_0-00001-of-00002.gguf", "Q8_0/fox-Q8_0-00002-of-00002.gguf"];
    let both = cache(&["README.md", "fox-Q4_K_M.gguf", parts[0], parts[1]]);
    let local = |name: &str, cache: &tempfile::TempDir| find(name).unwrap().cached_in(cache.path());
    for (name, file) in [
        ("hf:lab/fox-1:q4_k_m", "fox-Q4_K_M.gguf"),
        ("hf:lab/fox-1@main:Q8_0", parts[0]),
        (&format!("hf:lab/fox-1@{COMMIT}:Q8_0"), parts[0]),
    ] {
        let local = local(name, &both).unwrap().unwrap();
        assert!(local.weights.ends_with(file) && local.tokenizer.is_none(), "{:?}", local.weights);
    }
    let message = |name: &str| local(name, &both).unwrap_err().to_string();
    insta::assert_snapshot!(message("hf:lab/fox-1"), @r"
    `hf:lab/fox-1` fits 2 of the repository's GGUF models: `Q8_0/fox-Q8_0-00001-of-00002.gguf`, `fox-Q4_K_M.gguf`
    hint: `hf:lab/fox-1:QUANT`, where QUANT is a part of one file's name (`Q4_K_M`)
    ");
    assert!(message("hf:lab/fox-1:Q5_K_M").contains("fits none of"));
    let one = cache(&["gguf/fox.gguf"]);
    assert!(local("hf:lab/fox-1", &one).unwrap().unwrap().weights.ends_with("gguf/fox.gguf"));
    assert!(find("hf:lab/fox-1:").is_err() && find("hf:lab/fox-1:Q4/K").is_err());
}

/// A link that leads to itself stands for a folder without permission, which a test as root would read.
#[test]
fn a_folder_that_cannot_be_read_is_no_missing_model() {
    let home = tempfile::tempdir().unwrap();
    let card = find("hf:lab/fox-1").unwrap();
    let not_cached = card.local_or_cached(home.path(), Some(home.path()));
    assert!(matches!(not_cached, Err(Error::NotCached { .. })));
    for folder in [card.folder(home.path()), home.path().join("models--lab--fox-1")] {
        symlink(&folder, &folder).unwrap();
        let said = card.local_or_cached(home.path(), Some(home.path())).unwrap_err().to_string();
        assert!(said.starts_with("cannot read `") && said.contains("fox-1"), "{said}");
        fs::remove_file(&folder).unwrap();
    }
}

#[test]
fn other_bytes_are_another_model() {
    let cache = cache(&ALL);
    let card = find("hf:lab/fox-1").unwrap();
    let before = card.cached_in(cache.path()).unwrap().unwrap().sha256;
    fs::write(cache.path().join("models--lab--fox-1/blobs/blob-config.json"), "{}").unwrap();
    assert_ne!(card.cached_in(cache.path()).unwrap().unwrap().sha256, before);
}

#[test]
fn damaged_snapshots_are_named() {
    let message = |cache: &tempfile::TempDir| {
        let error = find("hf:lab/fox-1").unwrap().cached_in(cache.path()).unwrap_err().to_string();
        error.replace(&cache.path().display().to_string(), "CACHE")
    };
    insta::assert_snapshot!(message(&cache(&ALL[..2])), @"
    the hub's cache has `hf:lab/fox-1` in `CACHE/models--lab--fox-1/snapshots/0123456789abcdef0123456789abcdef01234567`, but `model.safetensors` is missing
    hint: download it again on a connected machine: `hf download lab/fox-1`
    ");
    let dangling = cache(&ALL);
    fs::remove_file(dangling.path().join("models--lab--fox-1/blobs/blob-tokenizer.json")).unwrap();
    assert!(message(&dangling).contains("`tokenizer.json` is a link to a file that is not there"));
    let (out, secret) = (cache(&ALL), tempfile::NamedTempFile::new().unwrap());
    let link = out.path().join("models--lab--fox-1/snapshots").join(COMMIT).join("chat_template.jinja");
    symlink(secret.path(), link).unwrap();
    assert!(message(&out).contains("`chat_template.jinja` is a link out of the cache"));
}
