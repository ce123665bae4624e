//! The programs that authors of judges have published, as the judges of preset `code`: their messages, their
//! parsing and their scores, faults included. They are evidence for the papers' figures; a method is to be
//! understood from `tribunal-judges`, which knows nothing of them.
//!
//! [`build`] makes the judge of any method in any preset. [`promptcue`] has the statistics of RUBRIC-MQM's
//! paper.

mod eaprompt;
mod gemba_esa;
mod gemba_mqm;
mod himate;
mod m_mad;
mod mqm_ape;
mod rate;
pub mod rubric_mqm;

mod gemba_api;
mod gemba_ratings;
mod python;

pub mod promptcue;

use tribunal_judges::{
    Built, Settings,
    registry::{self, Program},
    setup,
};

/// The published programs, one a method.
pub const PROGRAMS: &[Program] = &[
    Program { method: "gemba-mqm", build: gemba_mqm::build },
    Program { method: "mqm-ape", build: mqm_ape::build },
    Program { method: "gemba-da", build: gemba_ratings::build_da },
    Program { method: "gemba-sqm", build: gemba_ratings::build_sqm },
    Program { method: "gemba-stars", build: gemba_ratings::build_stars },
    Program { method: "gemba-classes", build: gemba_ratings::build_classes },
    Program { method: "gemba-esa", build: gemba_esa::build },
    Program { method: "eaprompt", build: eaprompt::build },
    Program { method: "rubric-mqm", build: rubric_mqm::build },
    Program { method: "m-mad", build: m_mad::build },
    Program { method: "himate", build: himate::build },
    Program { method: "rate", build: rate::build },
];

/// The judge of a request `NAME[:option=value,...]`, in preset `code` the authors' program.
///
/// # Errors
/// Those of [`registry::build`].
pub fn build(request: &str, settings: &Settings) -> setup::Result<Built> {
    registry::build(request, settings, PROGRAMS)
}

#[cfg(test)]
mod tests;
