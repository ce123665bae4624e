//! The Hugging Face hub as a source: lists a repository at one commit and reads its files from any offset.
//! `hf-hub` provides URLs and credentials; the bytes are read here, to hash them as they arrive and to time
//! out stalled connections.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use hf_hub::{
    Repo, RepoType,
    api::sync::{ApiBuilder, ApiRepo},
};
use serde::{Deserialize, de::DeserializeOwned};
use url::Url;

use super::{
    Card, Error, Pin, Result, Source,
    choice::choose,
    origin::{Access, Item, Listing, Origin, copy},
};

use crate::gguf;

/// Time limit for connecting to the hub.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// A connection that sends nothing for this long counts as broken.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Files downloaded with safetensors where a repository has them.
const COMPANIONS: [&str; 2] = ["chat_template.jinja", "generation_config.json"];

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// The most bytes of an index, which names a few hundred tensors.
pub(super) const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The hub redirects once, to the host of its large files.
const MAX_REDIRECTS: usize = 5;

/// One repository, reached with one set of credentials.
pub(super) struct Hub {
    repository: String,
    revision: Pin,
    paths: BTreeMap<String, String>,
    access: Access,
    agent: ureq::Agent,
}

/// The hub's answer about a repository, without unused fields.
#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Clone, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Hub {
    /// The repository of a hub source.
    ///
    /// # Panics
    /// When the source is of another kind.
    pub(super) fn new(source: Source, access: Access) -> Self {
        let Source::Hub { repository, revision, paths } = source else {
            unreachable!("only hub sources are made into a hub");
        };
        let agent = ureq::builder()
            .try_proxy_from_env(true)
            .timeout_connect(CONNECT_TIMEOUT)
            .timeout_read(READ_TIMEOUT)
            // Redirects are followed here: the token must not go along, and only web addresses are followed.
            .redirects(0)
            .build();
        Self { repository, revision, paths, access, agent }
    }

    /// Another repository, at its newest revision.
    fn other(&self, repository: &str) -> Self {
        let (repository, paths) = (repository.to_owned(), BTreeMap::new());
        Self {
            repository,
            revision: Pin::Unpinned,
            paths,
            access: self.access.clone(),
            agent: self.agent.clone(),
        }
    }

    /// The other repository that has a file, and the file's name in it.
    fn elsewhere(&self, path: &str) -> Option<(Self, &str)> {
        let (repository, remote) = self.paths.get(path)?.split_once(':')?;
        Some((self.other(repository), remote))
    }

    fn at(&self, revision: &str) -> Result<ApiRepo> {
        let builder = ApiBuilder::new()
            .with_endpoint(self.access.endpoint.clone())
            .with_token(self.access.token.clone())
            .with_progress(false);
        let api = builder.build().map_err(|e| Error::origin(&self.name(), e.to_string()))?;
        Ok(api.repo(Repo::with_revision(self.repository.clone(), RepoType::Model, revision.into())))
    }

    /// Requests an address and follows redirects. The token goes only to the hub itself: same scheme, host
    /// and port.
    fn get(&self, url: &str, from: u64) -> Result<ureq::Response> {
        let wrong = |reason: String| Error::origin(&self.name(), reason);
        let parsed =
            |url: &str| Url::parse(url).map_err(|e| wrong(format!("`{url}` is not an address: {e}")));
        let home = parsed(url)?.origin();
        let mut at = parsed(url)?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.agent.get(at.as_str()).set("Accept-Encoding", "identity");
            if let Some(token) = self.access.token.as_ref().filter(|_| at.origin() == home) {
                request = request.set("Authorization", &format!("Bearer {token}"));
            }
            if from > 0 {
                request = request.set("Range", &format!("bytes={from}-"));
            }
            let response = request.call().map_err(|error| self.refusal(&error))?;
            if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let to = response.header("Location").unwrap_or_default();
            let next = at.join(to).map_err(|e| wrong(format!("it redirects to `{to}`: {e}")))?;
            let is_web = next.scheme() == at.scheme() || next.scheme() == "https";
            if !is_web || !matches!(next.scheme(), "http" | "https") {
                return Err(wrong(format!("it redirects to `{next}`, which is not followed")));
            }
            at = next;
        }
        Err(wrong(format!("it redirects more than {MAX_REDIRECTS} times")))
    }

    fn refusal(&self, error: &ureq::Error) -> Error {
        let (repository, endpoint) = (&self.repository, &self.access.endpoint);
        let reason = match error {
            ureq::Error::Status(401 | 403, _) => format!(
                "access is refused; hint: accept the licence at {endpoint}/{repository} and set HF_TOKEN to a token \
                 of that account"
            ),
            ureq::Error::Status(404, _) => "there is no such repository, revision or file".into(),
            ureq::Error::Status(status, _) => format!("the hub answered with status {status}"),
            ureq::Error::Transport(transport) => format!("the hub cannot be reached ({})", transport.kind()),
        };
        Error::origin(&self.name(), reason)
    }

    /// The contents of the repository at the source's revision, and its commit.
    fn contents(&self) -> Result<Answer> {
        let repo = self.at(self.revision.digits().unwrap_or("main"))?;
        // The address is hf-hub's; the request is made here, for the sake of its time limits.
        let url = repo.info_request().query("blobs", "true").url().to_owned();
        let unreadable = "the hub's answer cannot be read";
        let answer: Answer = self.json(&url, unreadable)?;
        // Both become part of paths and of the record.
        if !is_hex(&answer.sha) || answer.sha.len() > 64 {
            return Err(Error::origin(&self.name(), format!("{unreadable}: its commit is not a commit")));
        }
        Ok(answer)
    }

    /// The JSON at an address; `failure` begins the message where it is none.
    fn json<T: DeserializeOwned>(&self, url: &str, failure: &str) -> Result<T> {
        let unreadable = |e: &dyn std::fmt::Display| Error::origin(&self.name(), format!("{failure}: {e}"));
        let mut text = String::new();
        let body = self.get(url, 0)?.into_reader();
        body.take(MAX_INDEX_BYTES).read_to_string(&mut text).map_err(|e| unreadable(&e))?;
        serde_json::from_str(&text).map_err(|e| unreadable(&e))
    }

    /// Names of the safetensors files, from the index or the single file.
    fn weights(&self, answer: &Answer) -> Result<BTreeSet<String>> {
        let has = |name: &str| answer.siblings.iter().any(|s| s.rfilename == name);
        if !has(INDEX) {
            return Ok(BTreeSet::from([SINGLE.to_owned()]));
        }
        let url = self.at(&answer.sha)?.url(INDEX);
        let index: Index = self.json(&url, &format!("cannot read `{INDEX}`"))?;
        let shards = index.weight_map.into_values();
        Ok(shards.chain([INDEX.to_owned()]).collect())
    }

    /// The files of the GGUF model meant. Files that are not models are recognized by their names alone.
    fn parts(&self, quant: &str, answer: &Answer) -> Result<Vec<String>> {
        let is_model = |name: &str| {
            let name = name.to_lowercase();
            let is_gguf = Path::new(&name).extension().is_some_and(|ending| ending == "gguf");
            is_gguf && !name.contains("mmproj") && !name.contains("imatrix")
        };
        let parts = |name: &str| {
            let parts = gguf::siblings(Path::new(name)).into_iter();
            parts.map(|part| part.to_string_lossy().into_owned()).collect::<Vec<String>>()
        };
        let names = answer.siblings.iter().map(|sibling| &*sibling.rfilename).filter(|name| is_model(name));
        let models: BTreeSet<String> = names.filter_map(|name| parts(name).into_iter().next()).collect();
        let models: Vec<String> = models.into_iter().collect();
        let model = choose(&models, Some(quant));
        model.map(parts).map_err(|reason| Error::origin(&self.name(), format!("`{quant}` {reason}")))
    }

    fn item(&self, path: &str, pin: &Pin, size: Option<u64>, answer: &Answer) -> Result<Item> {
        let remote = self.paths.get(path).map_or(path, String::as_str);
        let Some(sibling) = answer.siblings.iter().find(|s| s.rfilename == remote) else {
            return Err(Error::origin(&self.name(), format!("the repository has no file `{remote}`")));
        };
        let (stated_sha256, stated_size) = match &sibling.lfs {
            Some(lfs) => (lfs.sha256.clone(), lfs.size.or(sibling.size)),
            None => (None, sibling.size),
        };
        if let Some(stated) = stated_sha256.as_ref().filter(|stated| !is_hex(stated) || stated.len() != 64) {
            let stated: String = stated.chars().take(80).collect();
            let reason = format!("`{stated}`, which it gives as the sha256 of `{remote}`, is none");
            return Err(Error::origin(&self.name(), reason));
        }
        if let (Some(expected), Some(actual)) = (pin.digits(), &stated_sha256)
            && expected != actual
        {
            let (path, origin) = (path.to_owned(), self.name());
            return Err(Error::Mismatch { path, origin, expected: expected.into(), actual: actual.clone() });
        }
        Ok(Item {
            path: path.into(),
            remote: format!("{}/{remote}", answer.sha),
            size: size.or(stated_size),
            sha256: pin.digits().map(str::to_owned).or(stated_sha256),
        })
    }
}

/// Returns true if the text consists of lower-case hexadecimal digits.
fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl Origin for Hub {
    fn name(&self) -> String {
        format!("hub repository {}", self.repository)
    }

    fn list(&self, card: &Card) -> Result<Listing> {
        let answer = self.contents()?;
        let mut items = Vec::new();
        if let Some(quant) = &card.quant {
            for path in self.parts(quant, &answer)? {
                items.push(self.item(&path, &Pin::Unpinned, None, &answer)?);
            }
        }
        for file in &card.files {
            let item = match self.elsewhere(&file.path) {
                Some((other, remote)) => {
                    let item = other.item(remote, &file.sha256, file.size, &other.contents()?)?;
                    Item {
                        path: file.path.clone(),
                        remote: format!("{}:{}", other.repository, item.remote),
                        ..item
                    }
                }
                None => self.item(&file.path, &file.sha256, file.size, &answer)?,
            };
            items.push(item);
        }
        if card.is_safetensors() {
            let has = |name: &&str| answer.siblings.iter().any(|s| s.rfilename == *name);
            let companions = COMPANIONS.into_iter().filter(has).map(str::to_owned);
            for path in self.weights(&answer)?.into_iter().chain(companions) {
                items.push(self.item(&path, &Pin::Unpinned, None, &answer)?);
            }
        }
        Ok(Listing { revision: Some(answer.sha), items })
    }

    fn send(&self, item: &Item, from: u64, to: &mut dyn Write) -> Result<()> {
        if let Some((repository, remote)) = item.remote.split_once(':') {
            let item = Item { remote: remote.to_owned(), ..item.clone() };
            return self.other(repository).send(&item, from, to);
        }
        let Some((commit, remote)) = item.remote.split_once('/') else {
            return Err(Error::origin(&self.name(), format!("`{}` names no commit", item.remote)));
        };
        let url = self.at(commit)?.url(remote);
        let response = self.get(&url, from)?;
        let skipped = if response.status() == 206 { 0 } else { from };
        let mut body = response.into_reader();
        let broken = |e: io::Error| Error::origin(&self.name(), format!("the connection broke: {e}"));
        io::copy(&mut body.by_ref().take(skipped), &mut io::sink()).map_err(broken)?;
        copy(&mut body, to, &item.path, &self.name())
    }
}
