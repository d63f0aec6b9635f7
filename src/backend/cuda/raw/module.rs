//! Machine code and its launches.

use super::device::Context;
use super::driver::{Call, DriverError, Handle, Pointer};
use super::stream::Stream;
use crate::backend::cuda::bind::MAX_PARAMS;
use cudarc::driver::sys;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: u32 = 8;
/// Largest argument that a kernel may declare on the oldest supported driver.
const ARGUMENT_BYTES: usize = 4096;
/// The driver's code for machine code that is none.
const INVALID_IMAGE: u32 = 200;
/// The driver's code for a name that is not there.
const NOT_FOUND: u32 = 500;
/// The driver's code for an argument out of range.
const INVALID_VALUE: u32 = 1;

/// Loaded machine code.
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
}

impl Module {
    /// Loads a cubin.
    pub fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Module>, DriverError> {
        let call = Call::ModuleLoadData;
        if !is_whole_elf(cubin) {
            return Err(DriverError { call, code: INVALID_IMAGE });
        }
        let mut handle = null_mut();
        // SAFETY: the pointer is valid for writing. The driver takes no length: it reads what the ELF headers say, and
        // those were checked to stay inside the slice.
        unsafe { context.api.module_load_data(&mut handle, cubin.as_ptr().cast())? };
        Ok(Arc::new(Module {
            context: context.clone(),
            handle: Handle(handle),
        }))
    }

    /// A kernel by its name.
    pub fn function(self: &Arc<Module>, name: &str) -> Result<Function, DriverError> {
        let call = Call::ModuleGetFunction;
        let name = CString::new(name).map_err(|_| DriverError { call, code: NOT_FOUND })?;
        let mut handle = null_mut();
        // SAFETY: the pointer is valid for writing, the name ends with a zero, the module lives.
        unsafe { self.context.api.module_get_function(&mut handle, self.handle.0, name.as_ptr())? };
        Ok(Function {
            module: self.clone(),
            handle: Handle(handle),
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`, unloaded once; its functions hold it.
        let _ = unsafe { self.context.api.module_unload(self.handle.0) };
    }
}

/// True if the sections and segments that an ELF file of 64 bits announces lie inside its bytes.
fn is_whole_elf(bytes: &[u8]) -> bool {
    let number = |at: usize, size: usize| -> Option<u64> {
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
        Some(u64::from_le_bytes(value))
    };
    let inside = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= bytes.len() as u64);
    let whole = || -> Option<bool> {
        let (segments, sections) = (number(32, 8)?, number(40, 8)?);
        let [segment_size, segment_count, section_size, section_count] = [number(54, 2)?, number(56, 2)?, number(58, 2)?, number(60, 2)?];
        // The smallest sizes of the two kinds of headers.
        if (segment_count > 0 && segment_size < 56) || (section_count > 0 && section_size < 64) {
            return Some(false);
        }
        if !inside(segments, segment_size * segment_count) || !inside(sections, section_size * section_count) {
            return Some(false);
        }
        let content = |base: u64, offset: u64, length: u64| -> Option<bool> {
            Some(inside(number((base + offset) as usize, 8)?, number((base + length) as usize, 8)?))
        };
        for i in 0..segment_count {
            if !content(segments + i * segment_size, 8, 32)? {
                return Some(false);
            }
        }
        for i in 0..section_count {
            let base = sections + i * section_size;
            let takes_no_bytes = number(base as usize + 4, 4)? == 8;
            if !takes_no_bytes && !content(base, 24, 32)? {
                return Some(false);
            }
        }
        Some(true)
    };
    bytes.starts_with(b"\x7fELF\x02\x01") && whole() == Some(true)
}

/// A kernel.
#[derive(Clone)]
pub struct Function {
    module: Arc<Module>,
    handle: Handle,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Thread blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Blocks of a cluster; 1 for none.
    pub cluster: u32,
    /// May begin before the launch in front of it in the stream has ended: the kernel waits for that itself. Needs a GPU of
    /// compute capability 9.0 or newer.
    pub early: bool,
}

/// Room for the largest argument: the driver copies as many bytes as the kernel declares, whatever the caller has.
#[repr(C, align(64))]
struct Argument([u8; ARGUMENT_BYTES]);

impl Function {
    /// Allows launches with this much dynamic shared memory. Small sizes, too, have to be allowed: what a kernel declares besides
    /// counts towards the 48 KiB that need no leave.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's module lives.
        unsafe { self.module.context.api.func_set_attribute(self.handle.0, MAX_DYNAMIC_SHARED, value) }
    }

    /// Launches it with its one argument, whose bytes are copied before this returns.
    pub fn launch(&self, at: Geometry, argument: &[u8], stream: &Stream) -> Result<(), DriverError> {
        let api = self.module.context.api;
        let mut room = Argument([0; ARGUMENT_BYTES]);
        let Some(target) = room.0[..MAX_PARAMS].get_mut(..argument.len()) else {
            let call = Call::LaunchKernel;
            return Err(DriverError { call, code: INVALID_VALUE });
        };
        target.copy_from_slice(argument);
        let mut params: [Pointer; 1] = [(&raw mut room.0).cast()];
        if at.cluster <= 1 && !at.early {
            // SAFETY: function and stream live; the argument's room is as large as any declared argument.
            return unsafe {
                api.launch_kernel(
                    self.handle.0,
                    at.blocks,
                    1,
                    1,
                    at.threads,
                    1,
                    1,
                    at.shared,
                    stream.raw(),
                    params.as_mut_ptr(),
                    null_mut(),
                )
            };
        }
        let mut attributes = [attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_IGNORE); 2];
        let mut count = 0;
        if at.cluster > 1 {
            attributes[count] = attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
            attributes[count].value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: at.cluster, y: 1, z: 1 };
            count += 1;
        }
        if at.early {
            attributes[count] = attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
            attributes[count].value.programmaticStreamSerializationAllowed = 1;
            count += 1;
        }
        let config = sys::CUlaunchConfig_st {
            gridDimX: at.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: at.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: at.shared,
            hStream: stream.raw().cast(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        };
        // SAFETY: as above; the configuration and its attributes live through the call.
        unsafe { api.launch_kernel_ex(&config, self.handle.0, params.as_mut_ptr(), null_mut()) }
    }
}

/// An attribute of a launch, its value still zero.
fn attribute(id: sys::CUlaunchAttributeID) -> sys::CUlaunchAttribute_st {
    sys::CUlaunchAttribute_st {
        id,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue_union { pad: [0; 64] },
    }
}

#[cfg(test)]
mod tests {
    use super::is_whole_elf;

    /// A header, one section header, and the four bytes of that section.
    fn elf() -> Vec<u8> {
        let mut bytes = vec![0u8; 64 + 64 + 4];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[40] = 64; // section headers begin
        bytes[58] = 64; // size of one
        bytes[60] = 1; // number
        bytes[64 + 24] = 128; // the section's bytes begin
        bytes[64 + 32] = 4; // and their number
        bytes
    }

    #[test]
    fn only_files_that_hold_what_they_announce_reach_the_driver() {
        assert!(is_whole_elf(&elf()));
        for cut in 0..elf().len() {
            assert!(!is_whole_elf(&elf()[..cut]), "cut at {cut}");
        }
        for (at, value) in [
            (0, 0),
            (4, 1),
            (40, 255),
            (47, 255),
            (58, 8),
            (61, 255),
            (64 + 24, 129),
            (64 + 32, 5),
            (64 + 39, 255),
        ] {
            let mut bytes = elf();
            bytes[at] = value;
            assert!(!is_whole_elf(&bytes), "byte {at} is {value}");
        }
        let mut empty = elf();
        empty[64 + 4] = 8;
        empty[64 + 39] = 255;
        assert!(is_whole_elf(&empty), "a section without bytes may have any length");
    }
}
