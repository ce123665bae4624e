//! Comparison of the sources in `run.json` with the present ones: prompts, materials, models and their files,
//! and the judge's training data. It derives no verdict.

use std::path::{Path, PathBuf};

use crate::{
    error::Result,
    hub::Identity,
    judges::{
        Built,
        method_file::{self, MethodFile},
        prompt::InForce,
    },
    provenance,
    run::{
        RunFile,
        description::{Material, ModelFiles, NamedHash, RUN},
        materials as copies,
        verify::Difference,
    },
    segment::trained::Overlap,
    spec::Spec,
};

const NOTHING: &str = "no such file";

/// A recorded text that is not the derived one.
pub fn unlike(subject: &str, recorded: &str, derived: &str) -> Option<Difference> {
    (recorded != derived).then(|| Difference::new(RUN, subject, recorded, derived))
}

/// The prompt files that are not those of the run.
pub fn prompts(run: &RunFile, built: &Built) -> Vec<Difference> {
    let derived: Vec<NamedHash> = built.judge.provenance.files.iter().map(hashed).collect();
    hashes("the prompt file", &run.origin.prompts, &derived)
}

fn hashed(file: &InForce) -> NamedHash {
    NamedHash { name: file.name.to_string(), sha256: file.sha256() }
}

/// The files of one list that are not those of another, in either.
fn hashes(of: &str, recorded: &[NamedHash], derived: &[NamedHash]) -> Vec<Difference> {
    let of_name = |list: &[NamedHash], name: &str| {
        let file = list.iter().find(|file| file.name == name);
        file.map_or_else(|| NOTHING.to_owned(), |file| file.sha256.clone())
    };
    let more = derived.iter().filter(|file| !recorded.iter().any(|other| other.name == file.name));
    let difference = |file: &NamedHash| {
        let subject = format!("the sha256 of {of} `{}`", file.name);
        unlike(&subject, &of_name(recorded, &file.name), &of_name(derived, &file.name))
    };
    recorded.iter().chain(more).filter_map(difference).collect()
}

/// The files that the command names: whether all and no others are listed, and their copies.
///
/// # Errors
/// A copy that cannot be read.
pub fn materials(dir: &Path, run: &RunFile, original: &Spec, allow_files: bool) -> Result<Vec<Difference>> {
    let shown =
        |(flag, path): (String, &Option<PathBuf>)| (flag, path.as_ref().map(|p| p.display().to_string()));
    let method = method_file::request(&original.judge.method);
    let method = (provenance::method_flag(), &method.map(|(path, _)| path.to_owned()));
    let flags: Vec<_> = provenance::files(original).into_iter().chain([method]).map(shown).collect();
    let is_named = |flag: &str| {
        flags.iter().any(|(known, path)| *known == flag && path.is_some())
            || provenance::options(&original.judge.method).any(|(name, _)| name == flag)
    };
    let mut found = Vec::new();
    for (flag, path) in flags.iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?))) {
        if !run.origin.materials.iter().any(|material| material.flag == *flag) {
            found.push(Difference::new(RUN, &format!("what `{flag}` names"), "no such material", path));
        }
    }
    for material in &run.origin.materials {
        if !is_named(&material.flag) {
            let recorded = format!("a material of `{}`", material.flag);
            found.push(Difference::new(RUN, "the materials of the command", &recorded, "no such option"));
        }
        found.extend(copied(dir, run, material, allow_files)?);
    }
    Ok(found)
}

/// The copy of a material: its name and its hash. Materials without a copy are read only where files outside
/// are allowed.
fn copied(dir: &Path, run: &RunFile, material: &Material, files_allowed: bool) -> Result<Vec<Difference>> {
    let Material { flag, given, kept: name, sha256 } = material;
    let stem = provenance::kept_as(flag);
    let ending = Path::new(given).extension().map(|ending| format!("{stem}.{}", ending.to_string_lossy()));
    let names: Vec<String> = [Some(stem), ending].into_iter().flatten().collect();
    let recorded = names.iter().find(|name| dir.join(name).exists());
    let subject = format!("the copy of what `{flag}` names");
    let is_elsewhere = name.as_ref().is_some_and(|name| !names.contains(name));
    if is_elsewhere || name.is_none() && recorded.is_some() {
        let derived = recorded.unwrap_or(&names[0]);
        return Ok(vec![Difference::new(RUN, &subject, name.as_deref().unwrap_or("no copy"), derived)]);
    }
    let copy = copies::place(dir, material)?;
    let outside =
        || Some(run.resolve(Path::new(given))).filter(|recorded| files_allowed && recorded.exists());
    let Some(at) = copy.or_else(outside) else {
        // Only the first shard keeps copies.
        let is_kept = run.shard == "1/1" && run.merged.is_empty();
        let missing = name.as_ref().filter(|_| is_kept).map(|name| dir.join(name).display().to_string());
        return Ok(missing.map(|at| Difference::new(&at, &subject, NOTHING, "a copy")).into_iter().collect());
    };
    // Of the folder of a method, other files than those that it names do not count.
    let derived = if *flag == provenance::method_flag() && !at.starts_with(dir) {
        provenance::of_method(&at, &MethodFile::read(&at)?).0.sha256
    } else {
        match copies::sha256_now(&at) {
            // A material that was too large for a copy belongs to the user, who may have links and anything
            // else there.
            Err(_) if name.is_none() => return Ok(Vec::new()),
            derived => derived?,
        }
    };
    Ok(unlike(&format!("the sha256 of what `{flag}` names"), sha256, &derived).into_iter().collect())
}

/// Compares the models of `run.json` with its own signature, which names them too.
pub fn names(run: &RunFile) -> Vec<Difference> {
    let mut found = Vec::new();
    if run.origin.models.is_empty() && run.signature.get("sha256").is_some_and(|sha256| sha256.len() == 8) {
        let signed = run.signature.get("model").unwrap_or_default();
        found.extend(unlike("the model", "none", signed));
    }
    for model in &run.origin.models {
        let role = model.roles.first().map_or_else(String::new, |role| format!("{role}."));
        let signed = |field: &str| run.signature.get(&format!("{role}{field}")).unwrap_or("no such field");
        let of = |subject: &str| format!("{subject} of the model `{}`, by the signature", model.name);
        found.extend(unlike(&of("the name"), &model.name, signed("model")));
        found.extend(short(&of("the sha256"), &model.sha256, signed("sha256")));
        let files = |files: &[NamedHash]| {
            let files: Vec<_> = files.iter().map(|f| (f.name.clone(), f.sha256.clone())).collect();
            match &files[..] {
                [(_, sha256)] => sha256.clone(),
                files => Identity::list_hash(files),
            }
        };
        let of_files = format!("the sha256 of the model `{}`, by its files", model.name);
        found.extend(unlike(&of_files, &model.sha256, &files(&model.files)));
        let adapter = model.adapter.as_ref();
        let name = adapter.map_or("no such field", |adapter| adapter.name.as_str());
        found.extend(unlike(&of("the adapter"), name, signed("adapter")));
        if let Some(adapter) = adapter {
            found.extend(short(&of("the adapter's sha256"), &adapter.sha256, signed("adapter_sha256")));
            let listed: Vec<_> = adapter.files.iter().map(|f| (f.name.clone(), f.sha256.clone())).collect();
            let subject = format!("the sha256 of the adapter `{}`, by its files", adapter.name);
            found.extend(unlike(&subject, &adapter.sha256, &Identity::list_hash(&listed)));
        }
    }
    found
}

/// A hash of which the signature has the first digits.
fn short(subject: &str, recorded: &str, signed: &str) -> Option<Difference> {
    let is_whole = recorded.len() == 64 && recorded.starts_with(signed);
    (!is_whole).then(|| Difference::new(RUN, subject, recorded, signed))
}

/// The models and their files that are not those of the run.
pub fn models(recorded: &[ModelFiles], derived: &[ModelFiles]) -> Vec<Difference> {
    let mut found = Vec::new();
    let count = |models: &[ModelFiles]| models.len().to_string();
    found.extend(unlike("the number of models", &count(recorded), &count(derived)));
    for (recorded, derived) in recorded.iter().zip(derived) {
        let of = |subject: &str| format!("{subject} of the model `{}`", recorded.name);
        found.extend(unlike(&of("the roles"), &recorded.roles.join(", "), &derived.roles.join(", ")));
        found.extend(adapters(recorded, derived));
        if let ([file], [now]) = (&recorded.files[..], &derived.files[..]) {
            // A single file may be called otherwise here.
            found.extend(unlike(&of(&format!("the sha256 of `{}`", file.name)), &file.sha256, &now.sha256));
        } else {
            let files = hashes("the file", &recorded.files, &derived.files);
            let renamed = |found: Difference| {
                let subject = of(&found.subject.replace("the file ", ""));
                found.on(subject)
            };
            found.extend(files.into_iter().map(renamed));
        }
        found.extend(unlike(&of("the sha256"), &recorded.sha256, &derived.sha256));
        let template =
            |model: &ModelFiles| model.template_sha256.clone().unwrap_or_else(|| "the model's own".into());
        found.extend(unlike(&of("the sha256 of the chat template"), &template(recorded), &template(derived)));
    }
    found
}

/// The files of a model's adapter that are not those of the run.
fn adapters(recorded: &ModelFiles, derived: &ModelFiles) -> Vec<Difference> {
    let Some(adapter) = &recorded.adapter else { return Vec::new() };
    let now = derived.adapter.as_ref().map(|now| &now.files[..]).unwrap_or_default();
    let files = hashes("the file", &adapter.files, now).into_iter();
    let renamed = |found: Difference| {
        let subject = format!("{} of the adapter `{}`", found.subject.replace("the file ", ""), adapter.name);
        found.on(subject)
    };
    files.map(renamed).collect()
}

/// Compares the overlap of the judge's training data with the input.
pub fn training(recorded: &[Overlap], derived: &[Overlap]) -> Option<Difference> {
    let text = |overlaps: &[Overlap]| match overlaps {
        [] => "nothing of it".into(),
        overlaps => overlaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    };
    unlike("what the judge was trained on of the input", &text(recorded), &text(derived))
}

/// The difference between the recorded cautions about the judge on its input and those of the present judge.
pub fn cautions(recorded: &[String], derived: &[String]) -> Option<Difference> {
    let text = |cautions: &[String]| if cautions.is_empty() { "none".into() } else { cautions.join("; ") };
    unlike("cautions about the judge on this input", &text(recorded), &text(derived))
}
