//! The head against that of the trainer, and files that are refused.

use super::*;

const GOLDEN: &[u8] = include_bytes!("../../../../tests/golden/estimator.safetensors");

fn values(name: &str) -> Vec<f32> {
    let tensors = SafeTensors::deserialize(GOLDEN).unwrap();
    weights::floats(Format::F32, tensors.tensor(name).unwrap().data()).unwrap()
}

#[test]
fn predictions_are_the_trainers() {
    let estimator = Estimator::read("golden", GOLDEN).unwrap();
    assert_eq!(estimator.depths(), [1, 3]);
    let states =
        ["translation", "source"].map(|side| [0, 1].map(|i| values(&format!("states.{side}.{i}"))).to_vec());
    let [translation, source] = &states;
    let found = estimator.predict([translation, source]);
    let expected = f64::from(values("expected.score")[0]);
    assert!((found.score - expected).abs() < 1e-5, "{}, expected {expected}", found.score);
    let tags = values("expected.tags");
    assert_eq!(found.tags.len(), tags.len() / 2);
    for (found, expected) in found.tags.iter().flatten().zip(&tags) {
        assert!((found - f64::from(*expected)).abs() < 1e-6, "{found}, expected {expected}");
    }
    // Less text on either side gives another score.
    let cut: Vec<_> = source.iter().map(|layer| layer[..4 * 48].to_vec()).collect();
    assert!((estimator.predict([translation, &cut]).score - expected).abs() > 1e-4);
}

#[test]
fn inputs_are_cut_at_the_context() {
    let tokens = |n: u32| Tokens { ids: (10..10 + n).collect(), ranges: vec![0..1; n as usize] };
    let delimiters = Delimiters { first: 0, last: 2 };
    let inputs = Estimator::inputs(&tokens(2), &tokens(4), delimiters, 5);
    assert_eq!(inputs, ([vec![0, 10, 11, 2], vec![0, 10, 11, 12, 2]], true));
    assert!(!Estimator::inputs(&tokens(2), &tokens(3), delimiters, 5).1);
}

#[test]
fn another_file_is_refused() {
    let said = |bytes: &[u8]| Estimator::read("a file", bytes).unwrap_err().to_string();
    assert!(said(b"no file").contains("`a file`: is damaged"), "{}", said(b"no file"));
    assert!(said(&GOLDEN[..GOLDEN.len() - 4]).contains("is damaged"));
    let tensors = SafeTensors::deserialize(GOLDEN).unwrap();
    let without = |left_out: &str, format: &str| {
        let kept = tensors.tensors().into_iter().filter(|(name, _)| name != left_out);
        let about = [("format", format), (DEPTHS, "1,3")].map(|(name, value)| (name.into(), value.into()));
        said(&safetensors::serialize(kept, Some(about.into())).unwrap())
    };
    let other = without("", "tribunal-qe/0");
    assert!(other.contains("is not of the format `tribunal-qe/1`"), "{other}");
    let lacking = without("head.tags.bias", FORMAT);
    assert!(lacking.contains("`head.tags.bias` is missing"), "{lacking}");
}

#[test]
fn low_rank_matrices_are_added() {
    let config: Config = crate::families::from_json(
        "config.json",
        &serde_json::json!({
            "model_type": "bert", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3,
            "intermediate_size": 64, "vocab_size": 32, "max_position_embeddings": 16, "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
        }),
    )
    .unwrap();
    let estimator = Estimator::read("golden", GOLDEN).unwrap();
    estimator.check("golden", &config).unwrap();
    let shallow = Config { n_layers: 2, ..config.clone() };
    assert!(estimator.check("golden", &shallow).unwrap_err().to_string().contains("48 numbers and 3 layers"));
    // Seeded weights have no files, so that nothing can be added to them.
    let seeded = crate::Weights::seeded(config, 0);
    assert!(seeded.with_added(estimator.factors()).err().unwrap().to_string().contains("q_proj"));
}
