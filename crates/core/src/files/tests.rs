//! Tests, most of them with hostile folders.

use std::fs;

use super::*;

fn text(path: &Path, text: &str) -> Result<(), Error> {
    write(path, |file| file.write_all(text.as_bytes()))
}

fn own_text(path: &Path, text: &str) -> Result<(), Error> {
    replace(path, |file| file.write_all(text.as_bytes()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_result_is_all_there_or_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    text(&path, "one").unwrap();
    text(&path, "two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    let torn = write(&path, |file| {
        file.write_all(b"half of th")?;
        Err(io::Error::other("no more"))
    });
    assert!(torn.unwrap_err().to_string().contains("report.html`: no more"));
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(names(dir.path()), ["report.html"], "nothing is left behind");
    assert!(text(dir.path(), "x").unwrap_err().to_string().contains("it is a folder"));
}

#[test]
fn what_a_killed_process_left_beside_a_result_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    let [left, held] =
        [".report.html.aB3dE6.new", ".report.html.zZ9yY8.new"].map(|name| dir.path().join(name));
    for name in
        [".report.html.aB3dE6.new", ".report.html.zZ9yY8.new", ".other.html.aB3dE6.new", ".report.html.new"]
    {
        fs::write(dir.path().join(name), "half of th").unwrap();
    }
    // Another process is writing.
    let lock = File::open(&held).unwrap();
    lock.lock().unwrap();
    text(&path, "one").unwrap();
    assert!(!left.exists() && held.exists());
    // By name: a child process that another test is starting may still hold the file open.
    lock.unlock().unwrap();
    text(&path, "two").unwrap();
    assert_eq!(names(dir.path()), [".other.html.aB3dE6.new", ".report.html.new", "report.html"]);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn links_are_followed_and_devices_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "old").unwrap();
        symlink(&target, &link).unwrap();
        text(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::remove_file(&target).unwrap();
        assert!(text(&link, "new").unwrap_err().to_string().contains("a link to nothing"));
        assert!(link.is_symlink());
        for device in ["/dev/null", "/dev/stderr"] {
            let before = fs::metadata(device).unwrap().file_type();
            text(Path::new(device), "").unwrap();
            assert_eq!(fs::metadata(device).unwrap().file_type(), before);
            assert!(is_stream(Path::new(device)));
        }
        assert!(!is_stream(&target));
    }

    #[test]
    fn a_pipe_is_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        pipe(&path);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        text(&path, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_is_planted_in_a_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (precious, run) = (dir.path().join("thesis"), dir.path().join("run"));
        fs::write(&precious, "a thesis").unwrap();
        fs::create_dir(&run).unwrap();
        for name in ["summary.json", ".summary.json.new", "journal.jsonl"] {
            symlink(&precious, run.join(name)).unwrap();
        }
        own_text(&run.join("summary.json"), "{}").unwrap();
        assert!(!run.join("summary.json").is_symlink());
        for open in [append, update] {
            let error = open(&run.join("journal.jsonl")).unwrap_err().to_string();
            assert!(error.contains("not a plain file"), "{error}");
        }
        pipe(&run.join("calls.jsonl"));
        assert!(append(&run.join("calls.jsonl")).is_err(), "and does not block");
        assert!(open(&run.join("calls.jsonl")).unwrap_err().to_string().contains("not a plain file"));
        assert!(open(Path::new("/dev/zero")).is_err());
        symlink(&precious, run.join("verdicts.jsonl")).unwrap();
        let error = open_own(&run.join("verdicts.jsonl")).unwrap_err().to_string();
        assert!(error.contains("it is a link and not a plain file"), "{error}");
        assert_eq!(read_own_to_string(&precious).unwrap(), "a thesis");
        assert!(read_own(&run.join("calls.jsonl")).is_err() && read_own(&run).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "a thesis");
    }

    #[test]
    fn a_private_folder_keeps_its_files_private() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = dir.path().join("verdicts.jsonl");
        own_text(&path, "x").unwrap();
        drop(append(&dir.path().join("journal.jsonl")).unwrap());
        let folder = make_within(dir.path(), "materials/prompts").unwrap();
        assert_eq!(
            [mode(&path), mode(&dir.path().join("journal.jsonl")), mode(&folder)],
            [0o600, 0o600, 0o700]
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        own_text(&path, "y").unwrap();
        assert_eq!(mode(&path), 0o640, "the user's mode stays");
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(open.join("by_umask"), "").unwrap();
        own_text(&open.join("ours"), "x").unwrap();
        assert_eq!(mode(&open.join("ours")), mode(&open.join("by_umask")));
    }

    #[test]
    fn a_file_is_no_private_folder() {
        let dir = tempfile::tempdir().unwrap();
        let [folder, file] = ["above/folder", "file"].map(|name| dir.path().join(name));
        make_private(&folder).unwrap();
        make_private(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(make_private(&file).unwrap_err().to_string(), "it is not a folder");
    }

    #[test]
    fn no_name_leads_out_of_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("materials")).unwrap();
        symlink("/etc", dir.path().join("etc")).unwrap();
        symlink(".", dir.path().join("materials/again")).unwrap();
        for name in ["../x", "materials/../../x", "/etc/passwd", "etc/passwd", "materials/again/x", "", "."] {
            assert!(within(dir.path(), name).is_err(), "{name}");
        }
        assert_eq!(within(dir.path(), "materials/x").unwrap(), dir.path().join("materials/x"));
        assert!(make_within(dir.path(), "etc/x").is_err());
        let error = list(&dir.path().join("materials"), 10).unwrap_err().to_string();
        assert!(error.contains("again`: it is not a plain file"), "{error}");
    }

    #[test]
    fn a_folder_has_only_so_many_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(list(dir.path(), 3).unwrap(), ["a", "b", "c"].map(PathBuf::from));
        assert!(list(dir.path(), 2).unwrap_err().to_string().contains("more than 2 files"));
    }

    #[test]
    fn what_the_process_has_open_is_written_where_it_is() {
        use std::os::fd::AsRawFd as _;

        let dir = tempfile::tempdir().unwrap();
        let (log, link) = (dir.path().join("log"), dir.path().join("link"));
        let mut open = File::create(&log).unwrap();
        open.write_all(b"before\n").unwrap();
        let names = [format!("/dev/fd/{}", open.as_raw_fd()), format!("/proc/self/fd/{}", open.as_raw_fd())];
        for name in &names {
            text(Path::new(name), "result\n").unwrap();
            assert!(is_stream(Path::new(name)));
        }
        symlink(&names[0], &link).unwrap();
        text(&link, "over a link\n").unwrap();
        open.write_all(b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "before\nresult\nresult\nover a link\nafter\n");
        assert!(link.is_symlink());
        assert!(text(Path::new("/dev/fd/999999"), "x").is_err());
    }
}

#[test]
fn only_endings_of_formats_are_no_part_of_a_name() {
    for (path, expected) in [
        ("out/Llama-3.1-8B", "Llama-3.1-8B"),
        ("Llama-3.2-1B.txt", "Llama-3.2-1B"),
        ("en-de.2020.jsonl.xz", "en-de.2020"),
        ("System.v2.TXT", "System.v2"),
        ("metric.seg.score", "metric"),
        (".txt", ".txt"),
        ("a.de", "a.de"),
        ("..", ""),
    ] {
        assert_eq!(stem(Path::new(path)), expected, "{path}");
    }
}
