//! What tests say to the library, and what it tells them: through functions of a C ABI too, because the copy that is
//! opened in CANN's place is not the one that a test links.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};

use libloading::Library;
use serde::{Deserialize, Serialize};

use crate::state;

/// A call that is to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The function.
    pub function: String,
    /// Which call of it in this process, from 1.
    pub nth: u64,
    /// What it returns.
    pub code: i64,
}

impl Fault {
    /// `function:nth:code`.
    fn parse(text: &str) -> Option<Self> {
        let [function, nth, code] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            function: function.to_owned(),
            nth: nth.parse().ok()?,
            code: code.parse().ok()?,
        })
    }

    pub(crate) fn from_env() -> Vec<Self> {
        let text = std::env::var("CANN_STAND_IN_FAIL").unwrap_or_default();
        text.split(',').filter_map(Self::parse).collect()
    }
}

/// What the library knows of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What is alive, by kind.
    pub live: BTreeMap<String, u64>,
    /// Calls of each function.
    pub calls: BTreeMap<String, u64>,
}

impl Report {
    pub(crate) fn of(state: &state::State) -> Self {
        let owned = |(name, count): (&str, u64)| (name.to_owned(), count);
        Self {
            live: state.live().into_iter().map(owned).collect(),
            calls: state
                .calls
                .iter()
                .map(|(name, count)| owned((name, *count)))
                .collect(),
        }
    }

    /// Whether nothing is alive.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.live.values().all(|&count| count == 0)
    }

    pub(crate) fn write(&self, folder: &Path) {
        let path = folder.join(format!("{}.json", std::process::id()));
        let text = serde_json::to_string(self).unwrap_or_default();
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("cann-stand-in: {}: {error}", path.display());
        }
    }

    /// Those that the processes of a run wrote to a folder.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn read_all(folder: &Path) -> std::io::Result<Vec<Self>> {
        let files = std::fs::read_dir(folder)?;
        files
            .map(|file| Ok(serde_json::from_slice(&std::fs::read(file?.path())?)?))
            .collect()
    }
}

/// Forgets counts of calls and sets the call that is to fail; none for an empty name.
///
/// # Safety
/// `function` is a string that ends with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn cann_stand_in_fail(function: *const c_char, nth: u64, code: i64) {
    // SAFETY: as the caller promises.
    let function = unsafe { CStr::from_ptr(function) }
        .to_string_lossy()
        .into_owned();
    let mut state = state::lock();
    state.calls.clear();
    state.faults.clear();
    if !function.is_empty() {
        state.faults.push(Fault {
            function,
            nth,
            code,
        });
    }
}

/// Writes the report as JSON, as much as fits; its length.
///
/// # Safety
/// `text` has room for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cann_stand_in_report(text: *mut u8, len: usize) -> usize {
    let report = serde_json::to_vec(&Report::of(&state::lock())).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { text.copy_from_nonoverlapping(report.as_ptr(), report.len().min(len)) };
    report.len()
}

/// The file of the library that a test opens in CANN's place: cargo puts it beside the test.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a process has a file");
    let mut folders = test.ancestors().skip(1);
    let found = folders.find_map(|folder| {
        let places = [folder.join("deps"), folder.to_owned()];
        let files = places.map(|place| place.join("libcann_stand_in.so"));
        files.into_iter().find(|file| file.is_file())
    });
    found.unwrap_or_else(|| panic!("no libcann_stand_in.so beside {}", test.display()))
}

/// Makes a folder look like that of an installed CANN: names of its libraries, all for the stand-in.
///
/// # Errors
/// When a file can't be made.
pub fn install(home: &Path) -> std::io::Result<()> {
    let folder = home.join("lib64");
    std::fs::create_dir_all(&folder)?;
    for name in ["libascendcl.so", "libhccl.so", "libhcomm.so"] {
        std::os::unix::fs::symlink(library(), folder.join(name))?;
    }
    Ok(())
}

/// The library that was opened in this process in CANN's place.
#[derive(Debug)]
pub struct Opened(Library);

impl Opened {
    /// Opens it once more.
    ///
    /// # Panics
    /// When it is not there.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: it has no initialisers of its own.
        Self(unsafe { Library::new(library()) }.expect("the stand-in can be opened"))
    }

    /// Lets a call of a function fail from now on; counts start anew.
    ///
    /// # Panics
    /// When the library is another version.
    pub fn fail(&self, fault: Option<&Fault>) {
        type Fail = unsafe extern "C" fn(*const c_char, u64, i64);
        let (name, nth, code) = fault.map_or(("", 0, 0), |f| (f.function.as_str(), f.nth, f.code));
        let name = std::ffi::CString::new(name).expect("names of functions have no 0");
        // SAFETY: the function is declared above, with this type; a string that ends with 0.
        unsafe {
            let fail = self
                .0
                .get::<Fail>(b"cann_stand_in_fail")
                .expect("it has it");
            fail(name.as_ptr(), nth, code);
        }
    }

    /// What it knows.
    ///
    /// # Panics
    /// When the library is another version.
    #[must_use]
    pub fn report(&self) -> Report {
        type Write = unsafe extern "C" fn(*mut u8, usize) -> usize;
        let mut text = vec![0; 1 << 16];
        // SAFETY: the function is declared above, with this type; it writes as many bytes as there are.
        let len = unsafe {
            let write = self
                .0
                .get::<Write>(b"cann_stand_in_report")
                .expect("it has it");
            write(text.as_mut_ptr(), text.len())
        };
        serde_json::from_slice(&text[..len]).expect("the report is JSON")
    }
}

impl Default for Opened {
    fn default() -> Self {
        Self::new()
    }
}
