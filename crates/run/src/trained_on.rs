//! Training data of a judge as recorded in run folders and in scores exported from them, for every command
//! that sets a judge beside human scores. It compares no texts: `tribunal score` has done that.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{description::RunFile, finish::VERDICTS, segment::trained::Overlap};

/// Replaces `.LEVEL.score` in the name of the file with the overlap with training data.
const BESIDE: &str = ".trained-on.json";

/// Warnings about judges that were trained on what they judged, of runs and score files by the judge's name:
/// agreement with raters means nothing there.
pub fn warnings<'a>(judges: impl IntoIterator<Item = (&'a str, PathBuf)>) -> BTreeSet<String> {
    let overlaps = judges
        .into_iter()
        .flat_map(|(name, path)| of(&path).into_iter().map(move |overlap| format!("{name}: {overlap}")));
    overlaps.collect()
}

/// The overlaps recorded for a run folder, its verdicts, or a score file; empty otherwise, and for damaged
/// files, which are reported elsewhere.
pub fn of(path: &Path) -> Vec<Overlap> {
    let folder = match path.parent() {
        Some(folder) if path.ends_with(VERDICTS) => folder,
        _ => path,
    };
    if let Ok(run) = RunFile::read(folder) {
        return run.trained_on;
    }
    let text = beside(path).and_then(|file| fs::read_to_string(file).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The file with the overlap of training data beside `NAME-REF.LEVEL.score`; `export --as mtme` writes it.
pub fn beside(scores: &Path) -> Option<PathBuf> {
    let name = scores.file_name()?.to_str()?.strip_suffix(".score")?;
    let (name, _level) = name.rsplit_once('.')?;
    Some(scores.with_file_name(format!("{name}{BESIDE}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_known_by_the_file_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let overlap = Overlap { what: "the fit 1".into(), segments: 2, of: 3 };
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a-b-src.trained-on.json"), serde_json::to_vec(&[&overlap]).unwrap()).unwrap();
        assert_eq!(of(&at("a-b-src.seg.score")), std::slice::from_ref(&overlap));
        assert_eq!(of(&at("a-b-src.sys.score")), [overlap]);
        for other in ["a-b-refA.seg.score", "a.seg.score", "a-b-src.txt", ".score"] {
            assert_eq!(of(&at(other)), [], "{other}");
        }
        assert_eq!(warnings([("a", at("a-b-src.seg.score"))]).len(), 1);
    }
}
