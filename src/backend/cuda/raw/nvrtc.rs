//! NVRTC, the run-time compiler, from a library that is named by its path or found by the dynamic loader.
//!
//! cudarc's bindings load one library for the whole process, by names that stop at CUDA 12; here the caller says which of
//! several toolkits' libraries is meant. Codes stay plain numbers: newer libraries give some that no enum of ours knows.

use libloading::Library;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::path::PathBuf;

type Program = *mut c_void;
type Code = c_int;

/// The library's functions. Each pointer is valid as long as `library` is loaded, which is as long as `self` lives.
pub struct Nvrtc {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> Code,
    architectures: unsafe extern "C" fn(*mut c_int) -> Code,
    create: unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    _library: Library,
    _companions: Vec<Library>,
}

/// A source and everything its compilation depends on.
pub struct Source<'a> {
    /// Name for messages.
    pub name: &'a str,
    /// Text.
    pub text: &'a str,
    /// Files it may include: name and text.
    pub headers: &'a [(&'a str, &'a str)],
    /// The compiler's options.
    pub options: &'a [String],
}

/// What the compiler gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The cubin.
    pub cubin: Vec<u8>,
    /// Its messages.
    pub log: String,
}

/// What the compiler refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// NVRTC's code.
    pub code: i32,
    /// The call.
    pub call: &'static str,
    /// Messages, empty where there are none.
    pub log: String,
}

impl Nvrtc {
    /// Loads the library of this name (looked up as the dynamic loader does) or path.
    ///
    /// It will ask the loader for `companions` by their bare names, which finds them once they are loaded: those of a
    /// library that is outside the loader's path are given by their paths. One that does not load is left to be missed.
    pub fn open(name: &OsStr, companions: &[PathBuf]) -> Result<Nvrtc, libloading::Error> {
        // SAFETY: as below; the companions are files that lie beside the library and have NVRTC's names.
        let companions = companions.iter().filter_map(|c| unsafe { Library::new(c) }.ok()).collect();
        // SAFETY: loading runs the library's initialisers. The name is NVRTC's own or one that the person at the machine
        // gave, who could as well have put it on the loader's path.
        let library = unsafe { Library::new(name)? };
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field that takes the pointer has the signature that nvrtc.h declares for this name since
                // CUDA 11.2; the pointer does not outlive the library, which the same struct holds.
                unsafe { *library.get(concat!($name, "\0").as_bytes())? }
            };
        }
        Ok(Nvrtc {
            version: function!("nvrtcVersion"),
            architecture_count: function!("nvrtcGetNumSupportedArchs"),
            architectures: function!("nvrtcGetSupportedArchs"),
            create: function!("nvrtcCreateProgram"),
            compile: function!("nvrtcCompileProgram"),
            destroy: function!("nvrtcDestroyProgram"),
            cubin_size: function!("nvrtcGetCUBINSize"),
            cubin: function!("nvrtcGetCUBIN"),
            log_size: function!("nvrtcGetProgramLogSize"),
            log: function!("nvrtcGetProgramLog"),
            _library: library,
            _companions: companions,
        })
    }

    /// Major and minor version of the toolkit.
    pub fn version(&self) -> Result<(i32, i32), Refusal> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to live integers.
        let code = unsafe { (self.version)(&mut major, &mut minor) };
        accepted("nvrtcVersion", code)?;
        Ok((major, minor))
    }

    /// Compute capabilities that it compiles for: 10 times the major plus the minor version, ascending.
    pub fn architectures(&self) -> Result<Vec<i32>, Refusal> {
        let mut count = 0;
        // SAFETY: the pointer is to a live integer.
        accepted("nvrtcGetNumSupportedArchs", unsafe { (self.architecture_count)(&mut count) })?;
        let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
        if !numbers.is_empty() {
            // SAFETY: the library writes as many integers as it has just said.
            accepted("nvrtcGetSupportedArchs", unsafe { (self.architectures)(numbers.as_mut_ptr()) })?;
        }
        Ok(numbers)
    }

    /// Compiles a source to a cubin. May be called from several threads at once, as NVRTC documents.
    pub fn compile(&self, source: &Source<'_>) -> Result<Output, Refusal> {
        let program = Handle::create(self, source)?;
        let options = strings(source.options.iter().map(String::as_str))?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program is live; the array holds as many pointers as is said, to strings that live here.
        let code = unsafe { (self.compile)(program.program, pointers.len() as c_int, pointers.as_ptr()) };
        let log = program.log();
        if code != 0 {
            return Err(Refusal {
                code,
                call: "nvrtcCompileProgram",
                log,
            });
        }
        let mut size = 0;
        // SAFETY: the program is live and compiled, the pointer is to a live integer.
        accepted("nvrtcGetCUBINSize", unsafe { (self.cubin_size)(program.program, &mut size) })?;
        let mut cubin = vec![0u8; size];
        // SAFETY: the buffer has the size that the library has just said.
        accepted("nvrtcGetCUBIN", unsafe { (self.cubin)(program.program, cubin.as_mut_ptr().cast()) })?;
        Ok(Output { cubin, log })
    }
}

/// A live program. Nothing of its source is needed after its creation: NVRTC copies source and headers.
struct Handle<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl<'a> Handle<'a> {
    fn create(nvrtc: &'a Nvrtc, source: &Source<'_>) -> Result<Handle<'a>, Refusal> {
        let own = strings([source.text, source.name])?;
        let texts = strings(source.headers.iter().map(|h| h.1))?;
        let names = strings(source.headers.iter().map(|h| h.0))?;
        let pointers = |of: &[CString]| of.iter().map(|t| t.as_ptr()).collect::<Vec<_>>();
        let (texts_at, names_at) = (pointers(&texts), pointers(&names));
        let mut program = std::ptr::null_mut();
        // SAFETY: all strings and both arrays live until the call returns, and the arrays have the length that is said.
        let code = unsafe {
            (nvrtc.create)(
                &mut program,
                own[0].as_ptr(),
                own[1].as_ptr(),
                texts_at.len() as c_int,
                texts_at.as_ptr(),
                names_at.as_ptr(),
            )
        };
        accepted("nvrtcCreateProgram", code)?;
        Ok(Handle { nvrtc, program })
    }

    /// What the compiler said; empty where it cannot be had.
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program is live, the pointer is to a live integer.
        if unsafe { (self.nvrtc.log_size)(self.program, &mut size) } != 0 || size == 0 {
            return String::new();
        }
        let mut text = vec![0u8; size];
        // SAFETY: the buffer has the size that the library has just said, which counts the closing zero.
        if unsafe { (self.nvrtc.log)(self.program, text.as_mut_ptr().cast()) } != 0 {
            return String::new();
        }
        CStr::from_bytes_until_nul(&text).map_or(String::new(), |t| t.to_string_lossy().trim().to_owned())
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was created by the same library and is destroyed once.
        unsafe { (self.nvrtc.destroy)(&mut self.program) };
    }
}

fn accepted(call: &'static str, code: Code) -> Result<(), Refusal> {
    match code {
        0 => Ok(()),
        code => Err(Refusal {
            code,
            call,
            log: String::new(),
        }),
    }
}

/// The texts with closing zeros.
fn strings<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Vec<CString>, Refusal> {
    let text = |t: &str| {
        CString::new(t).map_err(|_| Refusal {
            code: 0,
            call: "nvrtcCreateProgram",
            log: "a source or option holds a zero byte".into(),
        })
    };
    texts.into_iter().map(text).collect()
}
