//! Published programs and tables against what their authors have recorded.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod promptcue;
