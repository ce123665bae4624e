//! Seeded blocks of quantised formats, read on the CPU.

use tribunal_model::weights::{Format, seeded::blocks, values};

#[test]
fn seeded_blocks_have_the_spread_that_was_asked_for() {
    for format in
        Format::ALL.into_iter().filter(|it| it.is_of_safetensors() || !it.is_float() && it.on_gpus() == *it)
    {
        let n = 208;
        let bytes = blocks(format, 5, n, 0.02);
        let values = values(format, &bytes);
        let spread = (values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32).sqrt();
        assert!((0.014..0.03).contains(&spread), "{format:?}: {spread}");
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.003, "{format:?}: {mean}");
        assert_ne!(bytes, blocks(format, 6, n, 0.02), "{format:?}");
    }
}
