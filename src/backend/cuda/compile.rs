//! From the kernels' sources to an archive, with NVRTC: offline, on a machine that has a toolkit but needs no GPU.
//!
//! Units are compiled side by side in threads; those whose digest the old archive has already are taken from there.

use super::architecture::{ARCHITECTURES, Toolkit};
use super::archive::{Archive, ArchiveError, Cubin};
use super::raw::nvrtc::{Nvrtc, Refusal, Source};
use super::sources::{self, Unit};
use super::turns::in_turns;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names that the dynamic loader is asked for, newest first behind the one without a version.
const NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];
/// Where toolkits lie that the loader does not know.
const FOLDERS: [&str; 2] = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/aarch64-linux/lib"];
/// Asks the assembler what each kernel takes; changes no bit of the cubin.
const VERBOSE: &str = "--ptxas-options=-v";

/// A toolkit's compiler.
pub struct Compiler {
    nvrtc: Nvrtc,
    toolkit: Toolkit,
    library: PathBuf,
    capabilities: Vec<i32>,
}

/// What became of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitReport {
    /// Its name.
    pub name: &'static str,
    /// Bytes of its cubin.
    pub bytes: u64,
    /// What its kernels take; `None` if the cubin is the old archive's.
    pub kernels: Option<Vec<KernelUse>>,
}

/// What a kernel takes of a GPU, as the assembler says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelUse {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread stores to memory and loads again for want of registers.
    pub spilled: u32,
}

/// Why kernels are not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// There is no library.
    #[error(
        "no NVRTC library ({0}): install a CUDA toolkit or the wheel nvidia-cuda-nvrtc, and name the folder of libnvrtc.so with --nvrtc DIR or PLATOON_NVRTC"
    )]
    Absent(String),
    /// A library that does not work.
    #[error("{}: {call} failed with code {code}", library.display())]
    Library {
        /// The library.
        library: PathBuf,
        /// The call.
        call: &'static str,
        /// NVRTC's code.
        code: i32,
    },
    /// The toolkit does not know the architecture.
    #[error("the compiler of CUDA {toolkit} does not know {architecture}: name another toolkit's with --nvrtc DIR")]
    Architecture {
        /// The toolkit.
        toolkit: Toolkit,
        /// The architecture.
        architecture: String,
    },
    /// A unit does not compile.
    #[error("unit {unit} does not compile for {architecture} ({call}, code {code}): {log}")]
    Unit {
        /// The unit.
        unit: &'static str,
        /// The architecture.
        architecture: String,
        /// The call that failed.
        call: &'static str,
        /// NVRTC's code.
        code: i32,
        /// The compiler's messages.
        log: String,
    },
    /// The cubins do not become an archive.
    #[error("the archive of {0}")]
    Archive(String, #[source] ArchiveError),
}

impl Compiler {
    /// The compiler of the toolkit whose library lies in the folder `given` (or is that file); without it, the one that the
    /// dynamic loader finds, or the one below `/usr/local/cuda`.
    pub fn find(given: Option<&Path>) -> Result<Compiler, CompileError> {
        let mut tried = Vec::new();
        for library in candidates(given) {
            match Nvrtc::open(&library, &companions(&library)) {
                Ok(nvrtc) => return Compiler::of(nvrtc, library.into()),
                Err(error) => tried.push(reason(&library, &error)),
            }
        }
        Err(CompileError::Absent(match given {
            Some(given) if tried.is_empty() => format!("nothing named libnvrtc.so in {}", given.display()),
            Some(_) => tried.join("; "),
            None => format!("tried {} and {}", NAMES.join(", "), FOLDERS.join(", ")),
        }))
    }

    fn of(nvrtc: Nvrtc, library: PathBuf) -> Result<Compiler, CompileError> {
        let failed = |refusal: Refusal| CompileError::Library {
            library: library.clone(),
            call: refusal.call,
            code: refusal.code,
        };
        let (major, minor) = nvrtc.version().map_err(failed)?;
        let capabilities = nvrtc.architectures().map_err(failed)?;
        let number = |n: i32| u16::try_from(n).unwrap_or(0);
        Ok(Compiler {
            toolkit: Toolkit {
                major: number(major),
                minor: number(minor),
            },
            nvrtc,
            library,
            capabilities,
        })
    }

    /// The toolkit's version.
    pub fn toolkit(&self) -> Toolkit {
        self.toolkit
    }

    /// The library, as it was named.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// True if it compiles for the architecture.
    pub fn serves(&self, architecture: &str) -> bool {
        let number = architecture.strip_prefix("sm_").unwrap_or_default();
        let number = number.strip_suffix('a').unwrap_or(number);
        number.parse().is_ok_and(|n: i32| self.capabilities.contains(&n))
    }

    /// The architectures of [`ARCHITECTURES`] that it compiles for.
    pub fn architectures(&self) -> impl Iterator<Item = &'static str> + '_ {
        ARCHITECTURES.into_iter().filter(|a| self.serves(a))
    }

    /// Compiles every unit for the architecture that `kept` does not hold already, telling `progress` of each as it is
    /// done; `threads` at a time. Reports come in the archive's order.
    pub fn archive(
        &self,
        architecture: &str,
        kept: Option<&Archive>,
        threads: usize,
        progress: &(dyn Fn(&UnitReport) + Sync),
    ) -> Result<(Archive, Vec<UnitReport>), CompileError> {
        if !self.serves(architecture) {
            return Err(CompileError::Architecture {
                toolkit: self.toolkit,
                architecture: architecture.to_owned(),
            });
        }
        let units: Vec<&'static Unit> = sources::units_for(architecture).collect();
        let mut done = in_turns(&units, threads, |unit| {
            let result = self.unit(unit, architecture, kept);
            if let Ok((_, report)) = &result {
                progress(report);
            }
            (unit.name, result)
        });
        done.sort_by_key(|(name, _)| *name);
        let (mut cubins, mut reports) = (Vec::new(), Vec::new());
        for (_, result) in done {
            let (cubin, report) = result?;
            cubins.push(cubin);
            reports.push(report);
        }
        let archive = Archive::new(architecture, self.toolkit, sources::digest(), &cubins);
        let archive = archive.map_err(|e| CompileError::Archive(architecture.to_owned(), e))?;
        Ok((archive, reports))
    }

    /// One unit: from the old archive if that has it, else compiled.
    fn unit(&self, unit: &'static Unit, architecture: &str, kept: Option<&Archive>) -> Result<(Cubin, UnitReport), CompileError> {
        let made_from = sources::unit_digest(unit, architecture, self.toolkit);
        let old = kept
            .filter(|a| a.unit_digest(unit.name) == Some(made_from))
            .and_then(|a| a.unit(unit.name));
        let (bytes, kernels) = match old {
            Some(bytes) => (bytes, None),
            None => {
                let (bytes, log) = self.cubin(unit, architecture)?;
                (bytes, Some(kernel_uses(&log)))
            }
        };
        let report = UnitReport {
            name: unit.name,
            bytes: bytes.len() as u64,
            kernels,
        };
        let name = unit.name.to_owned();
        Ok((Cubin { name, made_from, bytes }, report))
    }

    fn cubin(&self, unit: &'static Unit, architecture: &str) -> Result<(Vec<u8>, String), CompileError> {
        let headers: Vec<(&str, &str)> = sources::included(unit).iter().map(|h| (h.name, h.source)).collect();
        let mut options = vec![format!("--gpu-architecture={architecture}"), VERBOSE.to_owned()];
        options.extend(sources::OPTIONS.iter().map(|&o| o.to_owned()));
        let name = format!("{}.cu", unit.name);
        let source = Source {
            name: &name,
            text: unit.source,
            headers: &headers,
            options: &options,
        };
        let output = self.nvrtc.compile(&source).map_err(|refusal| CompileError::Unit {
            unit: unit.name,
            architecture: architecture.to_owned(),
            call: refusal.call,
            code: refusal.code,
            log: refusal.log,
        })?;
        Ok((output.cubin, output.log))
    }
}

/// Libraries to try, best first.
fn candidates(given: Option<&Path>) -> Vec<OsString> {
    match given {
        Some(file) if file.is_file() => vec![file.into()],
        Some(folder) => libraries(folder),
        None => {
            let named = NAMES.iter().map(OsString::from);
            named.chain(FOLDERS.iter().flat_map(|f| libraries(Path::new(f)))).collect()
        }
    }
}

/// The files `libnvrtc.so*` of a folder.
fn libraries(folder: &Path) -> Vec<OsString> {
    named(folder, "libnvrtc.so").into_iter().map(OsString::from).collect()
}

/// The libraries beside one that is named by its path which it loads itself.
fn companions(library: &OsString) -> Vec<PathBuf> {
    match Path::new(library).parent() {
        Some(folder) if !folder.as_os_str().is_empty() => named(folder, "libnvrtc-builtins.so"),
        _ => Vec::new(),
    }
}

/// The files of a folder whose names begin so, the shortest names first: a link without a version comes before what it
/// leads to.
fn named(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(start));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).filter(fits).collect();
    paths.sort_by_key(|p| (p.as_os_str().len(), p.clone()));
    paths
}

/// Why a library did not load, with the loader's own words.
fn reason(library: &OsString, error: &libloading::Error) -> String {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| cause.to_string());
    let library = Path::new(library).display().to_string();
    if why.contains(&library) { why } else { format!("{library}: {why}") }
}

/// What the assembler's messages say of each kernel, by name.
fn kernel_uses(log: &str) -> Vec<KernelUse> {
    let mut uses: Vec<KernelUse> = Vec::new();
    let number_before = |line: &str, words: &str| -> Option<u32> {
        let before = line.split(words).next().filter(|b| b.len() < line.len())?;
        before.split_whitespace().last()?.parse().ok()
    };
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            uses.push(KernelUse {
                name,
                ..KernelUse::default()
            });
        } else if let Some(last) = uses.last_mut() {
            if let Some(bytes) = number_before(line, " bytes spill stores") {
                last.spilled = bytes;
            }
            if let Some(registers) = number_before(line, " registers") {
                last.registers = registers;
            }
        }
    }
    uses.sort_by(|a, b| a.name.cmp(&b.name));
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_library_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = Compiler::find(Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains("nothing named libnvrtc.so") && error.contains("--nvrtc"), "{error}");
        std::fs::write(folder.path().join("libnvrtc.so.13"), b"no library").unwrap();
        let error = Compiler::find(Some(folder.path())).err().unwrap().to_string();
        assert!(error.contains("libnvrtc.so.13: "), "{error}");
    }

    #[test]
    fn the_link_without_a_version_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libnvrtc.so.12.6.85",
            "libnvrtc.so.12",
            "libnvrtc.so",
            "libnvrtc-builtins.so.12.6",
            "libcuda.so",
        ] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let names: Vec<String> = libraries(folder.path())
            .iter()
            .map(|p| Path::new(p).file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.12.6.85"]);
    }

    #[test]
    fn the_assemblers_messages_are_read() {
        let log = "\
ptxas info    : 24 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'second' for 'sm_87'
ptxas info    : Function properties for second
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 392 bytes cmem[0]
ptxas info    : Compile time = 4.6 ms
ptxas info    : Compiling entry function 'first' for 'sm_87'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers";
        let kernel = |name: &str, registers, spilled| KernelUse {
            name: name.into(),
            registers,
            spilled,
        };
        assert_eq!(kernel_uses(log), [kernel("first", 10, 0), kernel("second", 255, 12)]);
        assert_eq!(kernel_uses("nothing"), []);
    }
}
