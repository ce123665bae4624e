//! Code shared by the programs `tribunal` and `tribunal-bench`: argument groups and the specification that
//! each stands for, tables, and messages on a terminal. It has no commands.

use tribunal_core::{files, llm, segment};
use tribunal_engine as engine;
use tribunal_eval as eval;
use tribunal_judges as judges;
use tribunal_run as run;

pub mod args;
pub mod hints;
pub mod loading;
pub mod start;
pub mod stream;
pub mod wrap;

pub use tribunal_core::{
    plain::{EscapeControls, plain},
    table,
};
