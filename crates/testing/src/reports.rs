//! Inputs made after public bug reports.

use std::path::PathBuf;

use crate::{not_checked, published_data};

/// The path of an input made after a public bug report, beside the published test data.
pub fn report(path: &str) -> Option<PathBuf> {
    let file = published_data()?.join("../fixtures/reports").join(path);
    if !file.exists() {
        not_checked(&format!("there is no `fixtures/reports/{path}` beside TRIBUNAL_DATA"));
        return None;
    }
    Some(file)
}
