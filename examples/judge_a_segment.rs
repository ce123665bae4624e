//! Judges one translation: `cargo run --release --example judge_a_segment -- MODEL`
#![expect(clippy::print_stdout, reason = "an example")]

use tribunal::{
    eval::{DEFAULT_MODEL, Evaluation, JudgeSpec, ModelSpec, Spec},
    segment::Segment,
};

fn main() -> anyhow::Result<()> {
    let model = std::env::args().nth(1).unwrap_or_else(|| DEFAULT_MODEL.into());
    let spec =
        Spec { judge: JudgeSpec::method("gemba-mqm"), models: ModelSpec::named(model), ..Spec::default() };
    let pair = ("en".parse()?, "de".parse()?);
    let segment = Segment::new(pair, "The meeting is on Tuesday.", "Das Treffen ist am Donnerstag.");
    let evaluation = Evaluation::on(spec, [segment])?;
    let models = evaluation.load()?;
    for verdict in evaluation.verdicts(&models)? {
        println!("{:#?}", verdict?);
    }
    Ok(())
}
