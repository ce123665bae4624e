//! What answers a search: an index folder, a program, or a service on this machine. It does not interpret the
//! passages.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tribunal_core::digest;
use url::{Host, Url};

#[cfg(feature = "search")]
use super::Index;
use super::{Error, Passage};

/// How long a program or a service may take to answer.
const TIMEOUT: Duration = Duration::from_mins(1);

/// How long to wait between checks whether a program that has closed its output has ended.
const POLL: Duration = Duration::from_millis(5);

/// Where evidence comes from.
pub enum Backend {
    /// A folder that `tribunal search build` made.
    #[cfg(feature = "search")]
    Index(Index),
    /// A program that reads `{"query", "limit"}` as one JSON line and writes passages as JSON: a list, or
    /// `{"snippets": [...]}`, or one object a line.
    Program { path: PathBuf, sha256: String },
    /// An address on this machine that takes the same object by POST and answers the same way.
    Service { url: String },
}

impl Backend {
    /// Whether a name stands for something that acts by itself, a program or a service, and not for an index.
    #[must_use]
    pub fn is_outside(name: &str) -> bool {
        name.contains("://") || !Path::new(name).is_dir()
    }

    /// Opens what a name stands for: `http://...` is a service, a folder an index, a file a program.
    ///
    /// # Errors
    /// [`Error::Address`] and [`Error::Remote`] for an address that is not plain HTTP on this machine,
    /// [`Error::NoIndex`], [`Error::Io`], [`Error::NotBuilt`].
    pub fn open(name: &str) -> Result<Self, Error> {
        if name.contains("://") {
            return local(name).map(|()| Self::Service { url: name.into() });
        }
        let path = Path::new(name);
        if path.is_file() {
            let bytes = std::fs::read(path).map_err(|source| Error::Io {
                action: "read",
                path: path.into(),
                source,
            })?;
            return Ok(Self::Program { path: path.into(), sha256: digest::sha256(bytes) });
        }
        #[cfg(feature = "search")]
        return Index::open(path).map(Self::Index);
        #[cfg(not(feature = "search"))]
        Err(Error::NotBuilt(path.into()))
    }

    /// Its name in a signature: an index by its fingerprint, a program by its hash, a service by its address. What a
    /// program or a service answers is not covered.
    #[must_use]
    pub fn signature(&self) -> String {
        match self {
            #[cfg(feature = "search")]
            Self::Index(index) => index.manifest().sha256[..8].to_owned(),
            Self::Program { sha256, .. } => format!("program-{}", &sha256[..8]),
            Self::Service { url } => url.clone(),
        }
    }

    /// The best passages for a few words, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Backend`] if the program or service fails, answers with something else or takes longer than a minute;
    /// what an index's search returns.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Passage>, Error> {
        let (name, answer) = match self {
            #[cfg(feature = "search")]
            Self::Index(index) => {
                return Ok(index.search(query, limit)?.into_iter().map(|hit| hit.passage).collect());
            }
            Self::Program { path, .. } => {
                (path.display().to_string(), ask_program(path, query, limit, TIMEOUT))
            }
            Self::Service { url } => (url.clone(), ask_service(url, query, limit)),
        };
        let read = answer.and_then(|text| passages(&text));
        let mut found = read.map_err(|reason| Error::Backend { backend: name, reason })?;
        found.truncate(limit);
        Ok(found)
    }
}

/// Checks that an address is plain HTTP on this machine, by the parser that the HTTP client uses. Characters that this
/// parser drops or rewrites are refused, so that the address is what it looks like.
fn local(text: &str) -> Result<(), Error> {
    let bad = |reason: &str| Error::Address(reason.into());
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(bad("it has a space, a control character or a backslash"));
    }
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    // The parser drops user information that is empty.
    let authority = text.split_once("://").map_or("", |(_, rest)| rest).split(['/', '?', '#']).next();
    if authority.is_some_and(|authority| authority.contains('@')) || url.authority().contains('@') {
        return Err(bad("it has a user name or a password before `@`"));
    }
    let is_local = match url.host() {
        Some(Host::Domain(name)) => matches!(name, "localhost" | "localhost."),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        None => false,
    };
    if url.scheme() == "http" && is_local { Ok(()) } else { Err(Error::Remote(text.into())) }
}

/// The loopback addresses of a host and port: whatever the system's resolver says, no other is connected to.
fn loopback(host_and_port: &str) -> io::Result<Vec<SocketAddr>> {
    let found = host_and_port.to_socket_addrs()?.filter(|at| at.ip().to_canonical().is_loopback());
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() {
        return Err(io::Error::other(format!("`{host_and_port}` is not a loopback address here")));
    }
    Ok(found)
}

fn ask_program(path: &Path, query: &str, limit: usize, timeout: Duration) -> Result<String, String> {
    // A bare name would be looked up in PATH instead of in this folder.
    let program = path.canonicalize().map_err(|e| e.to_string())?;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| format!("it cannot be started: {e}"))?;
    let question = json!({ "query": query, "limit": limit }).to_string();
    match converse(&mut child, question, timeout) {
        Some(Ok((status, output))) if status.success() => {
            String::from_utf8(output).map_err(|_| "its answer is not UTF-8".into())
        }
        Some(Ok((status, _))) => Err(format!("it ended with {status}")),
        Some(Err(error)) => Err(error.to_string()),
        None => {
            // It may have ended just now; then there is nothing left to kill.
            let _ = child.kill();
            let _ = child.wait();
            Err(format!("it did not answer within {} seconds", timeout.as_secs_f64()))
        }
    }
}

/// What a program writes until it ends; `None` if that takes too long. Writing and reading have threads of their own:
/// a program that leaves its pipes open to a child can keep them waiting, but not us.
fn converse(
    child: &mut Child,
    question: String,
    timeout: Duration,
) -> Option<std::io::Result<(ExitStatus, Vec<u8>)>> {
    let start = Instant::now();
    let left = || timeout.saturating_sub(start.elapsed());
    let stdin = child.stdin.take();
    thread::spawn(move || put(stdin, &question));
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut output));
        // The receiver is gone after a timeout.
        let _ = sender.send(read.map(|_| output));
    });
    let output = match receiver.recv_timeout(left()).ok()? {
        Ok(output) => output,
        Err(error) => return Some(Err(error)),
    };
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(Ok((status, output))),
            Ok(None) if left().is_zero() => return None,
            Ok(None) => thread::sleep(POLL),
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Writes the question and closes the pipe. A program may answer without having read it.
fn put(stdin: Option<ChildStdin>, question: &str) {
    if let Some(mut stdin) = stdin {
        let _ = writeln!(stdin, "{question}");
    }
}

fn ask_service(url: &str, query: &str, limit: usize) -> Result<String, String> {
    // Redirects and proxies could lead away from this machine.
    let agent = ureq::AgentBuilder::new()
        .timeout(TIMEOUT)
        .redirects(0)
        .try_proxy_from_env(false)
        .resolver(loopback)
        .build();
    let asked = json!({ "query": query, "limit": limit, "recency": null });
    match agent.post(url).send_json(asked) {
        Ok(response) if response.status() == 200 => response.into_string().map_err(|e| e.to_string()),
        Ok(response) => Err(format!("status {}", response.status())),
        Err(error) => Err(error.to_string()),
    }
}

/// The passages in an answer: a list, an object with `snippets`, or one object per line; a string is a passage too.
fn passages(text: &str) -> Result<Vec<Passage>, String> {
    let wrong = |e: serde_json::Error| format!("its answer is not a list of passages, {e}");
    let values: Vec<Value> = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(values)) => values,
        Ok(Value::Object(mut object)) if object.contains_key("snippets") => {
            serde_json::from_value(object["snippets"].take()).map_err(wrong)?
        }
        Ok(value) => vec![value],
        Err(_) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines.map(serde_json::from_str).collect::<Result<_, _>>().map_err(wrong)?
        }
    };
    values.into_iter().map(|value| passage(value).map_err(wrong)).collect()
}

fn passage(value: Value) -> Result<Passage, serde_json::Error> {
    /// A passage with the names that search services use.
    #[derive(Deserialize)]
    struct Snippet {
        #[serde(default, alias = "name")]
        title: String,
        #[serde(alias = "snippet", alias = "content")]
        text: String,
        #[serde(default, alias = "url", alias = "link")]
        origin: String,
    }
    if let Value::String(text) = value {
        return Ok(Passage { text, ..Passage::default() });
    }
    let Snippet { title, text, origin } = serde_json::from_value(value)?;
    Ok(Passage { title, text, origin })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &[&str] = &[
        "http://localhost:8080/search",
        "HTTP://LocalHost/",
        "http://localhost.:9/",
        "http://localhost?q=user@example.org",
        "http://localhost/@example.org/",
        "http://loc%61lhost/",
        "http://127.0.0.1/x",
        "http://127.8.8.8",
        "http://127.0.0.1./",
        "http://127.1/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://2130706433/",
        "http://[::1]:9/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:127.0.0.1]/",
    ];

    const ELSEWHERE: &[&str] = &[
        "https://localhost/",
        "ftp://127.0.0.1/",
        "http://example.org/localhost",
        "http://localhost.example.org/",
        "http://127.0.0.1.example.org/",
        "http://example.org#@localhost/",
        "http://example.org?@localhost/",
        "http://localhost%2eexample.org/",
        "http://10.0.0.1/",
        "http://0x0a.0.0.1/",
        "http://012.0.0.1/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[::2]/",
        "http://[::ffff:10.0.0.1]/",
    ];

    const ODD: &[&str] = &[
        "http://localhost:9@example.org/",
        "http://127.0.0.1@example.org/",
        "http://[::1]@example.org/",
        "http://user@localhost/",
        "http://user:secret@localhost/",
        "http://:@localhost/",
        "http://@localhost/",
        "http://localhost\\@example.org/",
        "http:\\\\localhost/://",
        "http://local\thost/",
        "http://local\nhost/",
        "http://example.org\r\n@localhost/",
        " http://localhost/",
        "http://localhost/\u{a0}",
        "http://",
        "http://localhost:99999/",
        "http://[::1/",
        "http://local%00host/",
    ];

    #[test]
    fn only_this_machine_is_asked() {
        for url in HERE {
            assert!(matches!(Backend::open(url), Ok(Backend::Service { .. })), "{url}");
        }
        for url in ELSEWHERE {
            assert!(matches!(Backend::open(url), Err(Error::Remote(_))), "{url}");
        }
        for url in ODD {
            let refused = Backend::open(url).err().unwrap_or_else(|| panic!("{url:?} is refused"));
            assert!(matches!(refused, Error::Address(_)), "{url:?}: {refused}");
            assert!(!refused.to_string().contains("secret"), "no password is printed");
        }
    }

    #[test]
    fn only_loopback_addresses_are_connected_to() {
        assert!(loopback("localhost:9").unwrap().iter().all(|at| at.ip().is_loopback()));
        assert_eq!(loopback("127.0.0.1:80").unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        let refused = loopback("192.0.2.1:80").unwrap_err().to_string();
        assert_eq!(refused, "`192.0.2.1:80` is not a loopback address here");
    }

    #[test]
    fn redirects_are_not_followed() {
        let (service, other) = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).into();
        other.set_nonblocking(true).unwrap();
        let url = format!("http://{}/search", service.local_addr().unwrap());
        let to = format!("http://{}/", other.local_addr().unwrap());
        let answers = thread::spawn(move || {
            let (mut stream, _) = service.accept().unwrap();
            let mut request = [0; 4096];
            let n = stream.read(&mut request).unwrap();
            let head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close";
            write!(stream, "{head}\r\nLocation: {to}\r\n\r\n").unwrap();
            String::from_utf8_lossy(&request[..n]).to_lowercase()
        });
        assert_eq!(ask_service(&url, "x", 1).unwrap_err(), "status 302");
        assert!(!answers.join().unwrap().contains("authorization"));
        assert_eq!(other.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "no connection was made");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_must_answer_in_time() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("find");
        let ask = |script: &str, timeout| {
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            ask_program(&path, "x", 1, timeout)
        };
        let short = Duration::from_millis(200);
        let late = "it did not answer within 0.2 seconds";
        assert_eq!(ask("sleep 60", short).unwrap_err(), late);
        assert_eq!(ask("exec >&-; sleep 60", short).unwrap_err(), late, "silent, but still running");
        assert_eq!(ask("sleep 60 &", short).unwrap_err(), late, "its child holds the output open");
        assert_eq!(ask("cat", TIMEOUT).unwrap(), "{\"query\":\"x\",\"limit\":1}\n");
        assert_eq!(ask("exit 3", TIMEOUT).unwrap_err(), "it ended with exit status: 3");
    }

    #[test]
    fn answers_from_programs_and_services_are_read() {
        let full = Passage { title: "t".into(), text: "x".into(), origin: "o".into() };
        let bare = Passage { text: "y".into(), ..Passage::default() };
        for answer in [
            r#"[{"title":"t","text":"x","origin":"o"}, "y"]"#,
            r#"{"snippets":[{"name":"t","snippet":"x","url":"o"},"y"],"count":2}"#,
            "{\"title\":\"t\",\"content\":\"x\",\"link\":\"o\"}\n\n\"y\"\n",
        ] {
            assert_eq!(passages(answer), Ok(vec![full.clone(), bare.clone()]), "{answer}");
        }
        assert_eq!(passages(""), Ok(Vec::new()));
        assert!(passages("nothing found").unwrap_err().starts_with("its answer is not a list of passages"));
        assert!(passages(r#"[{"title":"t"}]"#).is_err());
    }
}
