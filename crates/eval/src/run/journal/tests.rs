//! Lines of a journal that were changed, and what mends them.

use super::*;

#[test]
fn what_mends_a_line_depends_on_the_file() {
    let root = tempfile::tempdir().unwrap();
    let hint = |name: &str, line: &str, kind: Line| {
        let path = root.path().join(name);
        std::fs::write(&path, format!("{line}\n")).unwrap();
        match lines(&path, kind) {
            Err(Error::Damaged { line: 1, hint, .. }) => hint,
            other => panic!("{other:?}"),
        }
    };
    let again = hint(JOURNAL, &sealed("{\"system\":1}"), Line::Sealed);
    assert_eq!(again, "delete the line; its segment will then be judged again");
    let anew = hint("verdicts.jsonl", "{\"system\":1}", Line::Plain);
    assert_eq!(anew, "the run's command, given again, writes the file anew from the journal");
}

#[test]
fn any_change_of_a_line_shows() {
    let json = r#"{"system":"a","score":-5.0,"reason":null}"#;
    let line = sealed(json);
    assert_eq!(unsealed(&line).as_deref(), Ok(json));
    for at in 0..line.len() {
        for other in [b'0', b'1', b' ', b'"', b'}'] {
            let mut bytes = line.clone().into_bytes();
            if std::mem::replace(&mut bytes[at], other) != other {
                assert!(unsealed(&String::from_utf8(bytes).unwrap()).is_err(), "{at}");
            }
        }
        assert!(unsealed(&line[..at]).is_err());
    }
}
