//! Text files with a segment on each line. No line is joined or skipped. Decoding and checks of bytes are in
//! `files::text`.

use std::path::Path;

use super::{Error, Result, markup::Markup};
use crate::files::text::{self, NotText};

pub use text::is_marked;

/// The lines of a file, without their ends and trailing white space (as mt-metrics-eval reads them). A last
/// line without a line end counts; nothing after the last line end does not.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotText`]; [`Error::Markup`].
pub fn lines(path: &Path) -> Result<Vec<String>> {
    let text = whole(path)?;
    if let Some(format) = Markup::parse(&text) {
        return Err(Error::Markup { path: path.into(), format });
    }
    let mut lines: Vec<String> = text.split('\n').map(|line| line.trim_end().to_string()).collect();
    if text.is_empty() || text.ends_with('\n') {
        lines.pop();
    }
    Ok(lines)
}

/// The whole text of a file without its byte-order mark.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotText`].
pub fn whole(path: &Path) -> Result<String> {
    text::read(path).map_err(|error| wrong(path, error))
}

/// Goes through the lines of a file with their numbers, without their ends and the byte-order mark. Only one
/// line is in memory at a time.
///
/// # Errors
/// The errors of [`whole`], and the errors of `visit`.
pub fn each(path: &Path, mut visit: impl FnMut(usize, &str) -> Result<()>) -> Result<()> {
    let mut lines = text::lines(path).map_err(|error| wrong(path, error))?;
    while let Some((number, line)) = lines.next_line().map_err(|error| wrong(path, error))? {
        visit(number, line)?;
    }
    Ok(())
}

fn wrong(path: &Path, error: std::io::Error) -> Error {
    match NotText::of(&error) {
        Some(reason) => Error::NotText { path: path.into(), reason: reason.clone() },
        None => Error::Io { path: path.into(), source: error },
    }
}
