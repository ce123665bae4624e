//! The parts of `tribunal meta` that are asked for one by one.

use anyhow::Result;
use serde::Serialize;

use super::MetaArgs;
use crate::meta::direction::Direction;

/// Flags of the parts.
#[derive(Clone, Debug, clap::Args)]
pub struct ExtraArgs {}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Extras {}

pub fn compute(_args: &MetaArgs, _directions: &[Direction]) -> Result<Extras> {
    Ok(Extras {})
}

pub fn print(_args: &MetaArgs, _extras: &Extras) {}
