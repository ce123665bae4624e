//! Prints the optional parts of `tribunal meta`. It computes nothing.

use std::io::{self, Write};

use super::Args;
use super::answers;
use super::extra::Extras;
use super::notes::message;
use crate::{meta::spans::counts::Definition, report::meta::parts};

/// Prints every part that was computed.
///
/// # Errors
/// An output that cannot be written.
pub fn print(args: &Args, extras: &Extras, out: &mut dyn Write) -> io::Result<()> {
    let (shown, number) = (definitions(args), |value: f64| format!("{value:.3}"));
    let answers = (!extras.answers.is_empty()).then(|| answers::table(&extras.answers, &number));
    for (title, table) in parts::tables(&extras.parts, answers, &shown, &number) {
        write!(out, "\n{title}\n\n{}", table.fitted(args.width))?;
    }
    if let Some(findings) = &extras.parts.lint {
        writeln!(
            out,
            "\nlint: {}",
            if findings.is_empty() { "nothing found" } else { "known mistakes found" }
        )?;
        for finding in findings {
            writeln!(out, "{} {}: {}: {}", finding.lp, finding.metric, finding.kind, message(finding))?;
        }
    }
    extras.plots.iter().try_for_each(|path| writeln!(out, "wrote {}", path.display()))
}

/// The definitions of span F1 that are shown.
fn definitions(args: &Args) -> Vec<Definition> {
    match (&args.extra.span_f1[..], args.task.as_deref()) {
        ([], Some("fsp")) => vec![Definition::Offsets, Definition::Fsp],
        ([], _) => vec![Definition::Offsets],
        (named, _) => Definition::ALL.into_iter().filter(|one| named.contains(one)).collect(),
    }
}
