//! The provenance of a run, for `run.json`: program, machine, models, and hashes and copies of the files that
//! a specification names.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    KernelSet,
    engine::Device,
    error::{Error, Result},
    hub,
    judges::{
        Built,
        method_file::{self, MethodFile},
        prompt::InForce,
    },
    models::{self, Models},
    run::{
        Copy, Origin,
        description::{Build, Machine, Material, NamedHash},
        lock::host,
        materials::{self, MATERIALS, MOST_FILES},
    },
    spec::Spec,
};

/// Larger files and folders are hashed and not copied. Unit: bytes.
const MOST_COPIED: u64 = 32 << 20;

/// The provenance of a run, and the copies that its folder keeps.
///
/// # Errors
/// A file that the specification names and that cannot be read.
pub fn of(spec: &Spec, built: &Built, models: &Models, build: Build) -> Result<(Origin, Vec<Copy>)> {
    let mut copies = Vec::new();
    let mut materials = Vec::new();
    if let (Some((path, _)), Some(method)) = (method_file::request(&spec.judge.method), built.method_file()) {
        let (material, kept) = of_method(path, method);
        materials.push(material);
        copies.extend(kept);
    }
    for (flag, path) in named(spec, built) {
        let (material, kept) = material(&flag, &path)?;
        materials.push(material);
        copies.extend(kept);
    }
    let prompts = &built.judge.provenance.files;
    let origin = Origin {
        build,
        machine: machine(spec)?,
        models: models.files.clone(),
        prompts: prompts
            .iter()
            .map(|file| NamedHash { name: file.name.to_string(), sha256: file.sha256() })
            .collect(),
        materials,
    };
    Ok((origin, copies))
}

fn machine(spec: &Spec) -> Result<Machine> {
    let options = models::options(&spec.resources)?;
    let which = match spec.resources.gpu_kernels {
        KernelSet::Auto => String::new(),
        other => format!(", {other} kernels"),
    };
    let kernels = match &options.device {
        Device::Cpu => options.compute.tier.name().to_owned(),
        Device::Cuda(gpu) => format!("{gpu:?}{which}"),
        Device::Group(group) => format!("{group:?}{which}"),
    };
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Ok(Machine {
        host: host(),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        processor: processor.map(|(_, name)| name.trim().to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernels,
    })
}

/// The files and folders that the specification names, other than the input and the models, by flag or
/// option.
fn named(spec: &Spec, built: &Built) -> Vec<(String, PathBuf)> {
    let mut named: Vec<(String, PathBuf)> =
        files(spec).into_iter().filter_map(|(option, path)| Some((option, path.clone()?))).collect();
    for (option, value) in options(&spec.judge.method) {
        let choice = built.method().options.iter().find(|choice| choice.name == option.replace('_', "-"));
        let takes_file =
            choice.is_some_and(|choice| choice.values.contains(&"<file>") && !choice.values.contains(&value));
        if takes_file && Path::new(value).exists() {
            named.push((option.to_owned(), value.into()));
        }
    }
    named
}

/// The files that a specification names, by what `run.json` calls their options.
pub fn files(spec: &Spec) -> [(String, &Option<PathBuf>); 3] {
    let files = [
        ("prompts", &spec.judge.prompts),
        ("shots", &spec.judge.shots),
        ("chat-template", &spec.models.chat_template),
    ];
    files.map(|(name, path)| (flag(name), path))
}

/// The options of `NAME:option=value,...`, or of a method's file.
pub fn options(request: &str) -> impl Iterator<Item = (&str, &str)> {
    let of_name = || request.split_once(':').map_or("", |(_, options)| options);
    let options = method_file::request(request).map_or_else(of_name, |(_, options)| options);
    options
        .split(',')
        .filter_map(|part| part.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
}

/// The name of the option for a method in a file, as in `run.json`.
pub fn method_flag() -> String {
    flag("method")
}

fn flag(name: &str) -> String {
    format!("--{name}")
}

/// A method in a file, of whose folder only the files that it names are hashed and copied.
pub fn of_method(path: &Path, method: &MethodFile) -> (Material, Vec<Copy>) {
    let kept = kept_as(&method_flag());
    // In the order in which the files of the copy are listed: by the parts of their paths.
    let files: BTreeMap<PathBuf, &InForce> =
        method.files().iter().map(|file| (PathBuf::from(&*file.name), file)).collect();
    let copy = |file: &&InForce| Copy {
        name: format!("{kept}/{}", file.name),
        bytes: file.text.clone().into_bytes(),
    };
    let copies = files.values().map(copy).collect();
    let hashed: Vec<_> = files.into_iter().map(|(name, file)| (name, file.sha256())).collect();
    let (given, sha256) = (path.display().to_string(), materials::sha256(&hashed));
    (Material { flag: method_flag(), given, kept: Some(kept), sha256 }, copies)
}

/// A file or folder with its hash, and its copies where it is small enough.
fn material(flag: &str, path: &Path) -> Result<(Material, Vec<Copy>)> {
    let stem = kept_as(flag);
    let given = path.display().to_string();
    let mut files = BTreeMap::new();
    let mut size = 0;
    if path.is_dir() {
        list(path, Path::new(""), &mut files, &mut size)?;
    } else {
        size = fs::metadata(path).map_err(Error::file(path))?.len();
        files.insert(PathBuf::new(), path.to_owned());
    }
    let extension = path.extension().filter(|_| path.is_file()).map(|e| format!(".{}", e.to_string_lossy()));
    let kept = stem + &extension.unwrap_or_default();
    let is_small = size <= MOST_COPIED && files.len() <= MOST_FILES;
    let (mut hashed, mut copies) = (Vec::new(), Vec::new());
    for (name, file) in &files {
        hashed.push((name.clone(), hub::hashes::Hashes::forgotten().sha256(file)?));
        if is_small {
            let bytes = fs::read(file).map_err(Error::file(file))?;
            let in_folder = format!("{kept}/{}", name.display());
            copies.push(Copy { name: if path.is_dir() { in_folder } else { kept.clone() }, bytes });
        }
    }
    let sha256 = materials::sha256(&hashed);
    Ok((Material { flag: flag.into(), given, kept: is_small.then_some(kept), sha256 }, copies))
}

/// Name of a material's copy in the run folder; that of a file has the file's ending behind it.
pub fn kept_as(flag: &str) -> String {
    format!("{MATERIALS}/{}", flag.trim_start_matches('-'))
}

/// The plain files below a folder, by their path in it. Links to folders are not followed, so that none leads
/// back.
fn list(root: &Path, at: &Path, files: &mut BTreeMap<PathBuf, PathBuf>, size: &mut u64) -> Result<()> {
    let folder = root.join(at);
    for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
        let entry = entry.map_err(Error::file(&folder))?;
        let name = at.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(root, &name, files, size)?;
        } else if let Ok(meta) = fs::metadata(entry.path())
            && meta.is_file()
        {
            *size += meta.len();
            files.insert(name, entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_of_a_method_has_the_hash_of_the_method() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/methods/five-criteria");
        let read = |name: &str| fs::read_to_string(example.join(name)).unwrap();
        let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |folder: &Path, name: &str, bytes: &[u8]| {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), bytes).unwrap();
        };
        // As texts, `q-answer.json` is before `q/question.j2`; as paths, behind it.
        let method = read("method.toml").replace("question.j2", "q/question.j2");
        write(dir.path(), "method.toml", method.replace("answer.json", "q-answer.json").as_bytes());
        write(dir.path(), "q/question.j2", read("question.j2").as_bytes());
        write(dir.path(), "q-answer.json", read("answer.json").as_bytes());
        let (material, copies) = of_method(dir.path(), &MethodFile::read(dir.path()).unwrap());
        for Copy { name, bytes } in &copies {
            write(copied.path(), name, bytes);
        }
        let copy = copied.path().join(material.kept.unwrap());
        assert_eq!(materials::sha256_now(&copy).unwrap(), material.sha256);
    }
}
