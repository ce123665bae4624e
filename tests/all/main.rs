//! The program as a whole: modules are named after the room, or the method, that they test. What a single crate can be
//! tested with is in its own folder `tests`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod cli_adapter;
mod cli_compare;
mod cli_folder;
mod cli_foreign;
mod cli_keep;
mod cli_promptcue;
mod cli_rerun;
mod cli_score;
mod cli_show;
mod cli_users;
mod cli_verify;
mod cli_verify_fields;
mod cuda_program;
mod export;
mod fakes;
mod forms_hold;
mod fuzzed;
mod himate;
mod hostile;
mod judges_forms;
mod judges_rubric;
mod judges_rubric_code;
mod judges_wmt23;
mod likelihood;
mod meta_cli;
mod meta_documents;
mod meta_fsp;
mod meta_standards;
mod no_signal;
mod probe;
mod reports;
mod run;
mod run_binary;
mod run_damage;
mod run_growth;
mod run_killed;
mod run_plan;
mod run_selection;
mod segment_read;
mod session;
mod shipped_fit;
mod tune;
mod unranked;
