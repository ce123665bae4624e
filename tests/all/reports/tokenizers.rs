//! Tokenizers that depend on a piece's place in the text.

use std::fs;

use tribunal::engine::tokenizer::Tokenizer;
use tribunal_testing::report;

/// Source: `AutoTokenizer` of transformers 5.24 on the same folder.
#[test]
fn a_mark_stands_before_the_first_text_alone() {
    let Some(folder) = report("metaspace-first") else { return };
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let (json, config) = (read("tokenizer.json"), read("tokenizer_config.json"));
    let tokenizer = Tokenizer::from_json(&json, Some(&config), None).unwrap();
    let prompt = fs::read_to_string(folder.join("prompt.txt")).unwrap();
    assert_eq!(tokenizer.encode_raw(&prompt).unwrap(), [1, 3, 277, 4, 277, 2]);
    assert_eq!(tokenizer.encode_template("Hello[INST]Hello").unwrap(), [276, 3, 277]);
    // As it continues a prompt, and as it begins one.
    assert_eq!(tokenizer.encode_continuation("Hello").unwrap(), [277]);
    assert_eq!(tokenizer.encode_data("Hello").unwrap(), [276]);
    // The name of a control token in data is text in its place: no mark stands behind it.
    let ids = tokenizer.encode_rendered("[INST][INST]Hello", &[7]).unwrap();
    assert_eq!(ids[0], 3);
    assert!(ids[1..].iter().all(|&id| !tokenizer.is_control(id)));
    assert_eq!(ids.last(), Some(&277));
}
