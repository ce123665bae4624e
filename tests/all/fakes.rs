//! Test doubles of the program's tests, beside those shared with other crates.

mod cached_encoder;
mod gguf;
mod metric;
mod noise;
mod program;
mod random_answer;
mod score_head;
mod shortest;
mod small_run;
mod tiny_judge;

use tribunal::{
    engine::{grammar::Grammar, tokenizer::Tokenizer},
    random::SplitMix,
};
pub use tribunal_testing::*;

pub use self::{
    cached_encoder::cached_encoder,
    gguf::{gguf, gguf_of_heads, gguf_of_sizes},
    metric::write_metric,
    noise::{Babble, Collector, Noise, Scores, Within, tiny, tiny_engine},
    program::{program, program_with},
    random_answer::random_answer,
    score_head::{write_bos, write_with_head},
    shortest::WithShortest,
    small_run::{SmallRun, copy_folder, said},
    tiny_judge::{Numbers, TinyJudge, models, options, panel, verdicts},
};
