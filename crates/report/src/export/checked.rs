//! Checks for formats with offsets that no error lies outside its text, since files of verdicts may have been
//! edited.

use std::io::Write;

use super::{Error, Rows};
use crate::{mqm::Side, run::Record};

/// A format of rows whose verdicts are checked first.
pub struct Checked {
    pub rows: Box<dyn Rows>,
    pub is_begun: bool,
}

impl Rows for Checked {
    fn begin(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_begun, true) { Ok(()) } else { self.rows.begin(out) }
    }

    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error> {
        check(record)?;
        self.begin(out)?;
        self.rows.add(record, out)
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
        self.begin(out)?;
        self.rows.finish(out)
    }
}

/// Rejects a verdict with an error outside its text.
///
/// # Errors
/// [`Error::Place`].
pub fn check(record: &Record) -> Result<(), Error> {
    if record.errors.is_empty() {
        return Ok(());
    }
    let [source, hypothesis] = [&record.source, &record.hypothesis].map(|text| text.chars().count());
    for error in &record.errors {
        let Some((start, end)) = error.start.zip(error.end) else { continue };
        let n = if error.side == Side::Source { source } else { hypothesis };
        if start <= end && end <= n {
            continue;
        }
        let (system, doc, seg) = (record.system.clone(), record.doc.clone(), record.seg);
        return Err(Error::Place { system, doc, seg, start, end, n });
    }
    Ok(())
}
