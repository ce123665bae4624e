//! Types shared by every part of `tribunal`: a [`segment::Segment`] and its readers, [`mqm`] errors and their
//! weights, requests and replies of an [`llm`], [`jinja`] templates within bounds, and the [`signature`] of a
//! run; below them [`files`], through which results are written and untrusted folders opened, [`digest`]s,
//! seeded numbers ([`random`]), work in [`parallel`], [`panics`], text that is safe on a terminal ([`plain`])
//! and its [`table`]s. It contains no judge and no model.

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

pub mod plain;

pub mod table;
