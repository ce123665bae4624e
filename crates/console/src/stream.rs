//! Standard output and standard error whose reader has gone (`| head`): the command continues, and the exit code tells the
//! result.

use std::{
    error,
    fmt::Arguments,
    io::{self, ErrorKind, Write},
};

use crate::{files, hints, plain, wrap};

/// A message in the one form that hints have: on a line of their own.
#[must_use]
pub fn hinted(text: &str) -> String {
    text.replace("; hint: ", "\nhint: ")
}

/// Prints a message on standard error, in lines that a terminal has room for and with control characters shown. A closed
/// standard error is no error.
pub fn say(line: Arguments<'_>) {
    let line = plain(&hinted(&line.to_string())).into_owned();
    let line = wrap::stderr_columns().map_or_else(|| line.clone(), |columns| wrap::message(&line, columns));
    let _ = writeln!(io::stderr(), "{line}");
}

/// An error with its causes, each said once, since most messages already hold that of their cause; libraries' errors with the
/// options that help. Control characters are shown.
#[must_use]
pub fn explain(error: &anyhow::Error) -> String {
    explain_with(error, hints::text)
}

/// As [`explain`], with another text for some errors.
#[must_use]
pub fn explain_with(
    error: &anyhow::Error,
    text: impl Fn(&(dyn error::Error + 'static)) -> Option<String>,
) -> String {
    let said = error.chain().fold(String::new(), |said, cause| {
        // What the system says of a file is said in the words of `files`, which most errors have used already.
        let own = match cause.downcast_ref::<io::Error>() {
            Some(system) => files::describe(system),
            None => cause.to_string(),
        };
        let told = text(cause).unwrap_or_else(|| own.clone());
        match said.as_str() {
            "" => told,
            _ if said.contains(&told) => said,
            _ if said.contains(&own) => said.replacen(&own, &told, 1),
            _ => format!("{said}: {told}"),
        }
    });
    plain(&hinted(&said)).into_owned()
}

/// A writer that swallows everything from the moment on at which its reader has gone, as with `| head`.
pub struct Patient<W> {
    inner: W,
    is_alone: bool,
}

impl<W: Write> Patient<W> {
    /// Writes to `inner` until its reader has gone.
    pub fn new(inner: W) -> Self {
        Self { inner, is_alone: false }
    }

    fn bear<T>(&mut self, written: io::Result<T>, instead: T) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_alone = true;
                Ok(instead)
            }
            written => written,
        }
    }
}

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_alone {
            return Ok(bytes.len());
        }
        let written = self.inner.write(bytes);
        self.bear(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_alone {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.bear(flushed, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone(ErrorKind);

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn only_a_reader_that_has_gone_is_borne() {
        let mut out = Patient::new(Gone(ErrorKind::BrokenPipe));
        assert!(writeln!(out, "a line").and_then(|()| out.flush()).is_ok());
        assert!(writeln!(Patient::new(Gone(ErrorKind::StorageFull)), "a line").is_err());
    }
}
