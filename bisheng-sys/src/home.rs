//! Where CANN is installed.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Variables that name CANN's folder; its `set_env.sh` sets them.
pub const VARIABLES: [&str; 2] = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"];

/// Folders of an installation, below `/usr/local` or a user's home.
const USUAL: [&str; 3] = [
    "Ascend/ascend-toolkit/latest",
    "Ascend/cann",
    "Ascend/latest",
];

/// No CANN, and where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCann {
    /// A variable names a folder that is none.
    #[error("{variable} is {value:?}, which is no folder")]
    NoFolder {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: PathBuf,
    },
    /// Nothing names one, and the usual folders are not there.
    #[error(
        "CANN is not installed: {} is not set, and there is none of {}",
        VARIABLES.join(" or "),
        list(.tried)
    )]
    NotInstalled {
        /// Folders that were looked for.
        tried: Vec<PathBuf>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    texts.join(", ")
}

/// The folder of an installed CANN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannHome {
    path: PathBuf,
    found_by: String,
}

impl CannHome {
    /// The one that the environment names, or else the first of the usual folders.
    ///
    /// # Errors
    /// [`NoCann`] says what was looked for.
    pub fn find() -> Result<Self, NoCann> {
        Self::find_in(
            |variable| std::env::var_os(variable),
            Path::new("/usr/local"),
        )
    }

    /// The same with another environment, and another place than `/usr/local`.
    ///
    /// # Errors
    /// As [`CannHome::find`].
    pub fn find_in(
        environment: impl Fn(&str) -> Option<OsString>,
        system: &Path,
    ) -> Result<Self, NoCann> {
        for variable in VARIABLES {
            let Some(value) = environment(variable).map(PathBuf::from) else {
                continue;
            };
            if !value.is_dir() {
                return Err(NoCann::NoFolder { variable, value });
            }
            return Ok(Self {
                path: value,
                found_by: variable.to_owned(),
            });
        }
        let user = environment("HOME").map(PathBuf::from);
        let places = std::iter::once(system.to_owned()).chain(user);
        let tried: Vec<PathBuf> = places
            .flat_map(|place| USUAL.map(|folder| place.join(folder)))
            .collect();
        match tried.iter().find(|path| path.is_dir()) {
            Some(path) => Ok(Self {
                path: path.clone(),
                found_by: "the usual folder".to_owned(),
            }),
            None => Err(NoCann::NotInstalled { tried }),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its libraries are.
    #[must_use]
    pub fn libraries(&self) -> PathBuf {
        self.path.join("lib64")
    }
}

impl fmt::Display for CannHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.found_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    #[test]
    fn a_variable_goes_before_the_usual_folders() {
        let place = tempfile::tempdir().unwrap();
        let usual = place.path().join(USUAL[1]);
        std::fs::create_dir_all(&usual).unwrap();
        let found = CannHome::find_in(nothing, place.path()).unwrap();
        assert_eq!(found.path(), usual);
        let named = |variable: &str| (variable == VARIABLES[1]).then(|| place.path().into());
        let found = CannHome::find_in(named, place.path()).unwrap();
        assert_eq!(found.path(), place.path());
        assert!(found.to_string().contains(VARIABLES[1]));
    }

    #[test]
    fn absence_says_what_was_looked_for() {
        let place = tempfile::tempdir().unwrap();
        let error = CannHome::find_in(nothing, place.path())
            .unwrap_err()
            .to_string();
        for part in [
            "ASCEND_HOME_PATH",
            "ASCEND_TOOLKIT_HOME",
            USUAL[0],
            USUAL[1],
        ] {
            assert!(error.contains(part), "{error}");
        }
        let wrong = |variable: &str| (variable == VARIABLES[0]).then(|| "/no/such".into());
        let error = CannHome::find_in(wrong, place.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("ASCEND_HOME_PATH") && error.contains("/no/such"),
            "{error}"
        );
    }
}
