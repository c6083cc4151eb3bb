//! Fused kernels: which stage classes are stitched into one kernel.
//!
//! The standard classes are those of `standard_stages.h`, which the pipeline crate exports. A kernel with
//! others names them, a line for each, in a build script:
//!
//! ```no_run
//! # fn build() -> Result<(), bisheng_build::BuildError> {
//! use bisheng_build::{FusedKernel, Slot};
//!
//! FusedKernel::new("my_layer")
//!     .with(Slot::Swiglu, "swiglu.h", "megamoe::Swiglu<megamoe::Gelu, Sync>")
//!     .with(Slot::Combine, "my_combine.h", "MyCombine<Out, Sync>")
//!     .build()
//! # }
//! ```
//!
//! and takes it into Rust with `megamoe_pipeline::fused_kernel!(my_layer)`.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::compile::{BuildError, Kernels, write_generated};

/// A position whose class can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// `FrontReorder<In, Sync>`.
    FrontReorder,
    /// `Dispatch<Sync>`.
    Dispatch,
    /// `Gmm1<Sync>`.
    Gmm1,
    /// `Swiglu<Sync>`.
    Swiglu,
    /// `Gmm2<Sync>`.
    Gmm2,
    /// `Combine<Out, Sync>`.
    Combine,
    /// `Unpermute<Out, Sync>`.
    Unpermute,
}

impl Slot {
    /// Parameters of its alias in C++, of which a class may use any.
    fn parameters(self) -> &'static str {
        match self {
            Self::FrontReorder => "typename In, typename Sync",
            Self::Combine | Self::Unpermute => "typename Out, typename Sync",
            _ => "typename Sync",
        }
    }
}

/// A fused kernel that is to be built.
#[derive(Debug)]
pub struct FusedKernel {
    name: String,
    stages: Vec<(Slot, String, String)>,
}

impl FusedKernel {
    /// The kernel `name`, a C++ identifier, of the standard stages.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            stages: Vec::new(),
        }
    }

    /// With another class in a position. `class` may use `Sync`, and `In` or `Out` where the position has
    /// them; its stage in Rust says the same in `kernel_source`.
    #[must_use]
    pub fn with(mut self, slot: Slot, header: &str, class: &str) -> Self {
        self.stages
            .push((slot, header.to_owned(), class.to_owned()));
        self
    }

    /// Compiles and links it, and the kernels in this crate's folder `kernel/`.
    ///
    /// # Errors
    /// As [`Kernels::in_folder`] and [`Kernels::compile`].
    pub fn build(self) -> Result<(), BuildError> {
        Self::build_all(&[self])
    }

    /// Compiles and links some, and the kernels in this crate's folder `kernel/`.
    ///
    /// # Errors
    /// As [`Kernels::in_folder`] and [`Kernels::compile`].
    pub fn build_all(kernels: &[Self]) -> Result<(), BuildError> {
        let mut files = Vec::new();
        for kernel in kernels {
            files.push(kernel.write_source()?);
            kernel.write("rs", &kernel.classes())?;
        }
        Kernels::in_folder("kernel")?.with(files).compile()
    }

    pub(crate) fn write_source(&self) -> Result<PathBuf, BuildError> {
        self.write("cpp", &self.translation_unit())
    }

    fn write(&self, extension: &str, text: &str) -> Result<PathBuf, BuildError> {
        write_generated(&format!("fused/{}.{extension}", self.name), text)
    }

    /// Its source.
    #[must_use]
    pub fn translation_unit(&self) -> String {
        let mut text = String::from("// Written by the build script.\n#include \"mega_moe.h\"\n");
        for (_, header, _) in &self.stages {
            // Writing to a string never fails.
            let _ = writeln!(text, "#include \"{header}\"");
        }
        let _ = writeln!(
            text,
            "\nnamespace {{\n\nstruct Stages : megamoe::StandardStages {{"
        );
        for (slot, _, class) in &self.stages {
            let _ = writeln!(
                text,
                "  template <{}>\n  using {slot:?} = {class};",
                slot.parameters()
            );
        }
        let _ = writeln!(
            text,
            "}};\n\n}}  // namespace\n\nMEGAMOE_KERNEL({}) {{ megamoe::run_fused<Stages>(raw); }}",
            self.name
        );
        text
    }

    /// A Rust array of the classes that are not the standard ones.
    fn classes(&self) -> String {
        let mut text = String::new();
        for (slot, header, class) in &self.stages {
            let _ = write!(
                text,
                "(Kind::{slot:?}, Source {{ header: {header:?}, class: {class:?} }}),"
            );
        }
        if self.stages.is_empty() {
            return "&[]".to_owned();
        }
        format!("{{ use moe_core::{{KernelSource as Source, StageKind as Kind}}; &[{text}] }}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_names_the_classes_that_differ() {
        let kernel = FusedKernel::new("mine").with(Slot::Combine, "mine.h", "Mine<Out, Sync>");
        let text = kernel.translation_unit();
        for part in [
            "#include \"mine.h\"",
            "template <typename Out, typename Sync>\n  using Combine = Mine<Out, Sync>;",
            "MEGAMOE_KERNEL(mine) {",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(kernel.classes().contains("Kind::Combine"));
    }
}
