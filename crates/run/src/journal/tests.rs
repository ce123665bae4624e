//! Damaged journal lines, and the hints to repair them.

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
    let again = hint(JOURNAL, &with_checksum("{\"system\":1}"), Line::Journal);
    assert_eq!(again, "delete the line; its segment will then be judged again");
    let anew = hint("verdicts.jsonl", "{\"system\":1}", Line::Plain);
    assert_eq!(anew, "the run's command, given again, writes the file anew from the journal");
}

#[test]
fn any_change_of_a_line_shows() {
    let json = r#"{"system":"a","score":-5.0,"reason":null}"#;
    let line = with_checksum(json);
    assert_eq!(verify_checksum(&line).as_deref(), Ok(json));
    for at in 0..line.len() {
        for other in [b'0', b'1', b' ', b'"', b'}'] {
            let mut bytes = line.clone().into_bytes();
            if std::mem::replace(&mut bytes[at], other) != other {
                assert!(verify_checksum(&String::from_utf8(bytes).unwrap()).is_err(), "{at}");
            }
        }
        assert!(verify_checksum(&line[..at]).is_err());
    }
}
