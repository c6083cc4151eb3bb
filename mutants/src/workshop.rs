//! Makes mutants: a copy of all kernels with one change, compiled for checked mode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bisheng_build::{BuildError, FusedKernel, checked_library};

use crate::sites::{Site, find};

/// What can't be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkshopError {
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The mutant does not compile.
    #[error(transparent)]
    Build(#[from] BuildError),
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> WorkshopError {
    let path = path.to_owned();
    move |source| WorkshopError::Io { path, source }
}

/// All kernels, by file; and the headers that are not changed.
#[derive(Debug)]
pub(crate) struct Workshop {
    /// Text of each file, by its path below its kernel folder.
    files: BTreeMap<String, String>,
    includes: Vec<PathBuf>,
}

impl Workshop {
    /// The kernels that this crate was built with.
    pub(crate) fn open() -> Result<Self, WorkshopError> {
        let mut workshop = Self {
            files: BTreeMap::new(),
            includes: Vec::new(),
        };
        for folder in std::env::split_paths(env!("MEGAMOE_KERNEL_FOLDERS")) {
            if folder.ends_with("kernel") {
                workshop.take(&folder, &folder)?;
            } else {
                workshop.includes.push(folder);
            }
        }
        Ok(workshop)
    }

    fn take(&mut self, root: &Path, folder: &Path) -> Result<(), WorkshopError> {
        for entry in std::fs::read_dir(folder).map_err(io(folder))? {
            let path = entry.map_err(io(folder))?.path();
            if path.is_dir() {
                self.take(root, &path)?;
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(io(&path))?;
            let name = path.strip_prefix(root).unwrap_or(&path);
            self.files.insert(name.to_string_lossy().into_owned(), text);
        }
        Ok(())
    }

    /// Every place where the kernels synchronise.
    pub(crate) fn sites(&self) -> Vec<Site> {
        let headers = self.files.iter().filter(|(name, _)| name.ends_with(".h"));
        headers.flat_map(|(name, text)| find(name, text)).collect()
    }

    /// Builds the kernels with a change, or as they are, in a folder; the library.
    pub(crate) fn build(
        &self,
        site: Option<&Site>,
        folder: &Path,
    ) -> Result<PathBuf, WorkshopError> {
        let kernels = folder.join("kernel");
        for (name, text) in &self.files {
            let path = kernels.join(name);
            let changed = site
                .filter(|site| site.file == *name)
                .map(|site| site.apply(text));
            std::fs::create_dir_all(path.parent().unwrap_or(&kernels)).map_err(io(&path))?;
            std::fs::write(&path, changed.as_deref().unwrap_or(text)).map_err(io(&path))?;
        }
        let fused = kernels.join("fused.cpp");
        let source = FusedKernel::new("megamoe_fused_silu").translation_unit();
        std::fs::write(&fused, source).map_err(io(&fused))?;
        let mut sources = vec![fused];
        sources.extend(
            self.units_of(site)
                .into_iter()
                .map(|name| kernels.join(name)),
        );
        let mut includes = vec![kernels];
        includes.extend(self.includes.iter().cloned());
        Ok(checked_library(&sources, &includes, folder)?)
    }

    /// Stand-alone kernels that a change concerns: those that include the file, directly or not.
    fn units_of(&self, site: Option<&Site>) -> Vec<String> {
        let units = self.files.keys().filter(|name| name.ends_with(".cpp"));
        units
            .filter(|unit| site.is_none_or(|site| self.includes_file(unit, &site.file)))
            .cloned()
            .collect()
    }

    fn includes_file(&self, name: &str, wanted: &str) -> bool {
        let Some(text) = self.files.get(name) else {
            return false;
        };
        let included = text
            .lines()
            .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        let mut included = included.filter(|other| *other != name);
        included.any(|other| other == wanted || self.includes_file(other, wanted))
    }
}
