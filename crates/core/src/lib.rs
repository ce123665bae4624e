//! The types that every part of `tribunal` shares: a [`segment::Segment`] and its readers, [`mqm`] errors and what they
//! weigh, the question and answer of [`llm`], [`jinja`] templates within bounds, and the [`signature`] of a run;
//! below them [`files`], through which results are written and untrusted folders opened, [`digest`]s, seeded numbers
//! ([`random`]), work in [`parallel`] and [`panics`]. It knows no judge and no model.

pub mod files;

pub mod panics;

pub mod segment;

pub mod mqm;

pub mod llm;

pub mod jinja;

pub mod signature;

pub mod digest;

pub mod random;

pub mod parallel;
