//! The encoder that `tribunal models pull multilingual-e5-small` puts into the model cache.

use std::path::PathBuf;

/// The file in the model cache; without it nothing is checked, or with `TRIBUNAL_REQUIRE` the test fails.
#[expect(clippy::print_stderr, reason = "a test that did not run says so")]
pub fn cached_encoder() -> Option<PathBuf> {
    let cache = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = cache("TRIBUNAL_HOME")
        .or_else(|| cache("XDG_CACHE_HOME").map(|path| path.join("tribunal")))
        .or_else(|| cache("HOME").map(|path| path.join(".cache/tribunal")))?;
    let path = home.join("multilingual-e5-small/multilingual-e5-small.bin");
    if !path.exists() {
        assert!(std::env::var_os("TRIBUNAL_REQUIRE").is_none(), "not checked: no `{}`", path.display());
        eprintln!("not checked: no `{}`", path.display());
    }
    path.exists().then_some(path)
}
