//! CANN's libraries, opened at run time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use crate::bindings::acl::AclApi;
use crate::bindings::hccl::HcclApi;
use crate::home::CannHome;

/// The runtime's library.
const ACL: &str = "libascendcl.so";
/// Libraries of HCCL: versions of CANN differ in which of its functions lies where.
const HCCL: [&str; 2] = ["libhccl.so", "libhcomm.so"];

/// A library that can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{library} can't be opened ({}): is CANN installed, and ASCEND_HOME_PATH its folder?",
    because(.tried)
)]
pub struct LoadError {
    /// The library.
    pub library: &'static str,
    /// What was tried, and what the loader said to it.
    pub tried: Vec<(PathBuf, String)>,
}

fn because(tried: &[(PathBuf, String)]) -> String {
    let reasons: Vec<String> = tried
        .iter()
        .map(|(path, reason)| {
            let path = path.display().to_string();
            if reason.contains(&path) {
                reason.clone()
            } else {
                format!("{path}: {reason}")
            }
        })
        .collect();
    reasons.join("; ")
}

/// CANN's functions. Closes the libraries when dropped.
pub struct Cann {
    acl: AclApi,
    hccl: Vec<HcclApi>,
    no_hccl: Option<LoadError>,
    place: PathBuf,
}

impl std::fmt::Debug for Cann {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cann")
            .field("place", &self.place)
            .field("has_hccl", &self.no_hccl.is_none())
            .finish()
    }
}

impl Cann {
    /// Opens the libraries of the installed CANN, or those that the dynamic loader finds by name. Without HCCL it is
    /// of use for one rank.
    ///
    /// # Errors
    /// [`LoadError`] says what was looked for and where.
    pub fn load() -> Result<Arc<Self>, LoadError> {
        let home = CannHome::find().ok();
        let folder = home.as_ref().map(CannHome::libraries);
        Self::load_from(folder.as_deref())
    }

    /// The same from a folder; without one, as the dynamic loader finds them.
    ///
    /// # Errors
    /// As [`Cann::load`].
    pub fn load_from(folder: Option<&Path>) -> Result<Arc<Self>, LoadError> {
        let (library, place) = open(ACL, folder)?;
        // SAFETY: the functions of CANN's library of this name have the signatures of its headers.
        let acl = unsafe { AclApi::from_library(library) }.map_err(|error| LoadError {
            library: ACL,
            tried: vec![(place.clone(), error.to_string())],
        })?;
        let mut hccl = Vec::new();
        let mut no_hccl = None;
        for name in HCCL {
            let api = open(name, folder).and_then(|(library, place)| {
                // SAFETY: as above.
                unsafe { HcclApi::from_library(library) }.map_err(|error| LoadError {
                    library: name,
                    tried: vec![(place, error.to_string())],
                })
            });
            match api {
                Ok(api) => hccl.push(api),
                Err(error) => no_hccl = no_hccl.or(Some(error)),
            }
        }
        if !hccl.is_empty() {
            no_hccl = None;
        }
        Ok(Arc::new(Self {
            acl,
            hccl,
            no_hccl,
            place,
        }))
    }

    /// File that the runtime's functions come from.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Why there is no HCCL, if there is none.
    #[must_use]
    pub fn no_hccl(&self) -> Option<&LoadError> {
        self.no_hccl.as_ref()
    }

    pub(crate) fn acl(&self) -> &AclApi {
        &self.acl
    }

    pub(crate) fn hccl(&self) -> &[HcclApi] {
        &self.hccl
    }
}

fn open(name: &'static str, folder: Option<&Path>) -> Result<(Library, PathBuf), LoadError> {
    let in_folder = folder.map(|folder| folder.join(name));
    let mut tried = Vec::new();
    for path in in_folder.into_iter().chain([PathBuf::from(name)]) {
        // SAFETY: opening runs the library's initialisers, as linking to it would.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok((library, path)),
            Err(error) => tried.push((path, error.to_string())),
        }
    }
    Err(LoadError {
        library: name,
        tried,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_a_value_that_names_library_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = Cann::load_from(Some(folder.path())).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.library, ACL);
        for part in [
            ACL,
            &folder.path().display().to_string(),
            "ASCEND_HOME_PATH",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
