//! Judges a table into a run folder: `cargo run --release --example judge_a_file -- TABLE.jsonl FOLDER MODEL`
#![expect(clippy::print_stdout, reason = "an example")]

use tribunal::eval::{Evaluation, Invocation, JudgeSpec, ModelSpec, Spec};

fn main() -> anyhow::Result<()> {
    let [table, folder, model]: [String; 3] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().expect("TABLE.jsonl FOLDER MODEL");
    let mut spec =
        Spec { judge: JudgeSpec::method("gemba-da"), models: ModelSpec::named(model), ..Spec::default() };
    spec.input.table = Some(table.into());
    spec.output.folder = Some(folder.into());
    let evaluation = Evaluation::new(spec)?;
    let models = evaluation.load()?;
    let outcome = evaluation.run(&models, &Invocation::default())?;
    for record in outcome.each_record()? {
        let record = record?;
        println!("{}\t{}\t{:?}", record.system, record.seg.unwrap_or_default(), record.score);
    }
    println!("{}", outcome.summary.signature);
    Ok(())
}
