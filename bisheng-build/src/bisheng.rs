//! Kernels for the NPU: the same sources, compiled by CANN's `bisheng` into one shared library.
//!
//! Flags and include folders are those with which the published kernel is built for A2/A3. None of this has met the
//! genuine compiler yet: tests compare what is asked of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bisheng_sys::{CannHome, NoCann};

use crate::compile::{BuildError, cpp_files, crate_folders, exported_for_npu, out_dir};
use crate::fused::FusedKernel;

/// Folder of the PTO headers, where CANN's own are not wanted: it has `include/pto`.
const PTO_VARIABLE: &str = "PTO_ISA_PATH";
/// The compiler, below CANN's folder.
const COMPILERS: [&str; 2] = ["bin/bisheng", "compiler/ccec_compiler/bin/bisheng"];
/// The header by which PTO's folder is known.
const PTO_HEADER: &str = "pto/pto-inst.hpp";
const DRIVER: &str = "/usr/local/Ascend/driver";

/// Arguments of every compilation.
const COMPILE: [&str; 23] = [
    "-D_FORTIFY_SOURCE=2",
    "-O2",
    "-std=c++17",
    "-Wno-macro-redefined",
    "-Wno-ignored-attributes",
    "-fstack-protector-strong",
    "-fPIC",
    "-xcce",
    "-Xhost-start",
    "-Xhost-end",
    "-mllvm",
    "-cce-aicore-stack-size=0x8000",
    "-mllvm",
    "-cce-aicore-function-stack-size=0x8000",
    "-mllvm",
    "-cce-aicore-record-overflow=true",
    "-mllvm",
    "-cce-aicore-addr-transform",
    "-mllvm",
    "-cce-aicore-dcci-insert-for-scalar=false",
    "--cce-aicore-arch=dav-c220",
    "-DPTO_NPU_ARCH_A2A3",
    "-DMEGAMOE_NPU",
];

/// Arguments of the link; `-lruntime` has what registers the kernels when the library is opened.
const LINK: [&str; 6] = [
    "-shared",
    "--cce-fatobj-link",
    "-s",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-lruntime",
];

/// Folders of AscendC's headers, of which each version of CANN has some.
const ASCENDC: [&str; 10] = [
    "asc",
    "asc/include",
    "asc/include/basic_api",
    "asc/include/interface",
    "asc/include/utils",
    "asc/impl/basic_api",
    "include/ascendc/basic_api",
    "include/ascendc/basic_api/interface",
    "include/ascendc/basic_api/impl",
    "include/ascendc/highlevel_api",
];

/// CANN's other headers.
const CANN: [&str; 6] = [
    "include",
    "pkg_inc",
    "pkg_inc/runtime",
    "pkg_inc/profiling",
    "include/experiment/runtime",
    "include/experiment/msprof",
];

/// What is missing to build kernels for the NPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBisheng {
    /// No CANN.
    #[error(transparent)]
    NoCann(#[from] NoCann),
    /// CANN is there, but not its compiler.
    #[error("there is no bisheng: neither on PATH nor as {}", list(.tried))]
    NoCompiler {
        /// Files that were looked for.
        tried: Vec<PathBuf>,
    },
    /// No PTO headers.
    #[error(
        "there are no PTO headers: {} is not there (set {PTO_VARIABLE} to a folder with include/{PTO_HEADER})",
        path.display()
    )]
    NoPto {
        /// File that was looked for.
        path: PathBuf,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    texts.join(" or ")
}

/// CANN's compiler, and the headers that kernels need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bisheng {
    compiler: PathBuf,
    home: PathBuf,
    pto: PathBuf,
}

impl Bisheng {
    /// The compiler of the installed CANN, or else the one on `PATH`.
    ///
    /// # Errors
    /// [`NoBisheng`] says what is missing.
    pub fn find() -> Result<Self, NoBisheng> {
        Self::find_in(&CannHome::find()?, |variable| std::env::var_os(variable))
    }

    /// The same for one CANN and another environment.
    ///
    /// # Errors
    /// As [`Bisheng::find`].
    pub fn find_in(
        home: &CannHome,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, NoBisheng> {
        let home = home.path().to_owned();
        let of_cann = COMPILERS.map(|compiler| home.join(compiler));
        let path = environment("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join("bisheng"));
        let compiler = of_cann
            .iter()
            .cloned()
            .chain(on_path)
            .find(|file| file.is_file());
        let compiler = compiler.ok_or_else(|| NoBisheng::NoCompiler {
            tried: of_cann.to_vec(),
        })?;
        let pto = environment(PTO_VARIABLE).map_or_else(|| home.clone(), PathBuf::from);
        let pto = pto.join("include");
        if !pto.join(PTO_HEADER).is_file() {
            return Err(NoBisheng::NoPto {
                path: pto.join(PTO_HEADER),
            });
        }
        Ok(Self {
            compiler,
            home,
            pto,
        })
    }

    /// The compiler's file.
    #[must_use]
    pub fn compiler(&self) -> &Path {
        &self.compiler
    }

    /// Folder of the PTO headers.
    #[must_use]
    pub fn pto(&self) -> &Path {
        &self.pto
    }

    /// Include folders in their order: PTO, the kernels' own, AscendC, the rest of CANN.
    fn includes(&self, kernels: &[PathBuf]) -> Vec<PathBuf> {
        // CANN links its headers to those of the platform that it runs on; AscendC's lie beside these.
        let include = self.home.join("include");
        let include = include.canonicalize().unwrap_or(include);
        let platform = include.parent().unwrap_or(&self.home);
        let mut all = vec![self.pto.clone()];
        all.extend_from_slice(kernels);
        all.extend(ASCENDC.map(|folder| platform.join(folder)));
        all.extend(CANN.map(|folder| self.home.join(folder)));
        all.push(Path::new(DRIVER).join("kernel/inc"));
        let mut there: Vec<PathBuf> = Vec::new();
        for folder in all {
            if folder.is_dir() && !there.contains(&folder) {
                there.push(folder);
            }
        }
        there
    }

    /// Compiles one source.
    #[must_use]
    pub fn compile(&self, source: &Path, object: &Path, kernels: &[PathBuf]) -> Command {
        let mut command = Command::new(&self.compiler);
        command.args(COMPILE);
        for folder in self.includes(kernels) {
            command.arg("-I").arg(folder);
        }
        command.arg("-c").arg(source).arg("-o").arg(object);
        command
    }

    /// Links objects into a shared library.
    #[must_use]
    pub fn link(&self, objects: &[PathBuf], library: &Path) -> Command {
        let libraries = self.home.join("lib64");
        let mut command = Command::new(&self.compiler);
        command.args(objects).arg("-L").arg(libraries);
        command.args(LINK).arg("-o").arg(library);
        command
    }
}

/// Kernels that are to be built for the NPU, into one shared library that has a function `launch_{kernel}` for each.
#[derive(Debug)]
pub struct NpuKernels {
    bisheng: Bisheng,
    sources: Vec<PathBuf>,
    includes: Vec<PathBuf>,
}

impl NpuKernels {
    /// The kernels of all dependencies with device code, for a build script.
    ///
    /// # Errors
    /// [`BuildError::NoBisheng`] when CANN is not there, [`BuildError::Io`] for a folder that can't be read.
    pub fn of_dependencies() -> Result<Self, BuildError> {
        for variable in bisheng_sys::home::VARIABLES
            .into_iter()
            .chain([PTO_VARIABLE])
        {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let bisheng = Bisheng::find()?;
        let exported = exported_for_npu();
        let mut sources = Vec::new();
        for folder in &exported {
            sources.extend(cpp_files(folder)?);
        }
        let mut includes = crate_folders();
        includes.extend(exported);
        Ok(Self {
            bisheng,
            sources,
            includes,
        })
    }

    /// With fused kernels of this crate.
    ///
    /// # Errors
    /// [`BuildError::Io`] when a source can't be written.
    pub fn with_fused(mut self, kernels: &[FusedKernel]) -> Result<Self, BuildError> {
        for kernel in kernels {
            self.sources.push(kernel.write_source()?);
        }
        Ok(self)
    }

    /// Builds the library `lib{name}.so` in the build's folder; its path.
    ///
    /// # Errors
    /// [`BuildError::Bisheng`] with the compiler's words.
    pub fn build(&self, name: &str) -> Result<PathBuf, BuildError> {
        let folder = out_dir().join("npu");
        std::fs::create_dir_all(&folder).map_err(|source| BuildError::Io {
            path: folder.clone(),
            source,
        })?;
        let mut running = Vec::new();
        let mut objects = Vec::new();
        for source in &self.sources {
            let stem = source.file_stem().unwrap_or_default();
            let object = folder.join(stem).with_extension("o");
            running.push(Running::start(self.bisheng.compile(
                source,
                &object,
                &self.includes,
            ))?);
            objects.push(object);
        }
        for compilation in running {
            compilation.finish()?;
        }
        let library = out_dir().join(format!("lib{name}.so"));
        Running::start(self.bisheng.link(&objects, &library))?.finish()?;
        Ok(library)
    }
}

/// A run of the compiler.
struct Running {
    child: Child,
    command: String,
}

impl Running {
    fn start(mut command: Command) -> Result<Self, BuildError> {
        let program = PathBuf::from(command.get_program());
        let text = format!("{command:?}");
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| BuildError::Io {
                path: program,
                source,
            })?;
        Ok(Self {
            child,
            command: text,
        })
    }

    fn finish(self) -> Result<(), BuildError> {
        let Self { child, command } = self;
        let output = child.wait_with_output().map_err(|source| BuildError::Io {
            path: "bisheng".into(),
            source,
        })?;
        if output.status.success() {
            return Ok(());
        }
        let words = [output.stdout, output.stderr].concat();
        Err(BuildError::Bisheng {
            command,
            words: String::from_utf8_lossy(&words).into_owned(),
        })
    }
}
