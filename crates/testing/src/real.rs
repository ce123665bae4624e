//! Real data and models, which not every machine has. A test that needs them and does not find them prints
//! that it did not run; with `TRIBUNAL_REQUIRE=1`, as in CI, it fails instead.

use std::path::PathBuf;

/// Prints which check did not run, and why.
///
/// # Panics
/// With `TRIBUNAL_REQUIRE`.
#[expect(clippy::print_stderr, reason = "a test that did not run says so")]
pub fn not_checked(why: &str) {
    assert!(std::env::var_os("TRIBUNAL_REQUIRE").is_none(), "not checked: {why}");
    eprintln!("not checked: {why}");
}

/// The folder with the published test data.
pub fn published_data() -> Option<PathBuf> {
    let data = std::env::var_os("TRIBUNAL_DATA").map(PathBuf::from);
    if data.is_none() {
        not_checked("TRIBUNAL_DATA, the folder with the published test data, is not set");
    }
    data
}
