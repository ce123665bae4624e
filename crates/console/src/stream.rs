//! Standard output and standard error whose reader has gone (`| head`): the command continues, and the exit
//! code still holds the result.

use std::{
    error,
    fmt::Arguments,
    io::{self, ErrorKind, Write},
};

use crate::{files, hints, plain, wrap};

/// A message in the one form that hints have: on a line of their own.
pub fn hinted(text: &str) -> String {
    text.replace("; hint: ", "\nhint: ")
}

/// Prints a message on standard error, in lines that a terminal has room for and with control characters
/// shown. A closed standard error is no error.
pub fn say(line: Arguments<'_>) {
    let line = plain(&hinted(&line.to_string())).into_owned();
    let line = wrap::stderr_columns().map_or_else(|| line.clone(), |columns| wrap::message(&line, columns));
    let _ = writeln!(io::stderr(), "{line}");
}

/// An error with its causes. A cause that is part of the message above it is left out; errors of the
/// libraries name the options that help. Control characters are escaped.
pub fn explain(error: &anyhow::Error) -> String {
    explain_with(error, hints::text)
}

/// The text of [`explain`], with another text for some errors.
pub fn explain_with(
    error: &anyhow::Error,
    text: impl Fn(&(dyn error::Error + 'static)) -> Option<String>,
) -> String {
    let message = error.chain().fold(String::new(), |message, cause| {
        // Errors of the system about a file are worded as in `files`, since most messages already hold that
        // wording.
        let wording = match cause.downcast_ref::<io::Error>() {
            Some(system) => files::describe(system),
            None => cause.to_string(),
        };
        let told = text(cause).unwrap_or_else(|| wording.clone());
        match message.as_str() {
            "" => told,
            _ if message.contains(&told) => message,
            _ if message.contains(&wording) => message.replacen(&wording, &told, 1),
            _ => format!("{message}: {told}"),
        }
    });
    plain(&hinted(&message)).into_owned()
}

/// A writer that discards its input once its reader has closed the pipe, as with `| head`.
pub struct IgnoreBrokenPipe<W> {
    inner: W,
    is_closed: bool,
}

impl<W: Write> IgnoreBrokenPipe<W> {
    /// Writes to `inner` until its pipe is closed.
    pub fn new(inner: W) -> Self {
        Self { inner, is_closed: false }
    }

    fn unless_closed<T>(&mut self, written: io::Result<T>, instead: T) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(instead)
            }
            written => written,
        }
    }
}

impl<W: Write> Write for IgnoreBrokenPipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let written = self.inner.write(bytes);
        self.unless_closed(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let flushed = self.inner.flush();
        self.unless_closed(flushed, ())
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
    fn only_a_closed_pipe_is_ignored() {
        let mut out = IgnoreBrokenPipe::new(Gone(ErrorKind::BrokenPipe));
        assert!(writeln!(out, "a line").and_then(|()| out.flush()).is_ok());
        assert!(writeln!(IgnoreBrokenPipe::new(Gone(ErrorKind::StorageFull)), "a line").is_err());
    }
}
