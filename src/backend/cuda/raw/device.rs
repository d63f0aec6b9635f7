//! The GPU and its context.

use super::driver::{Api, Call, DriverError, Handle, INVALID_VALUE, MISSING, NoApi, api};
use std::ptr::null_mut;
use std::sync::Arc;

/// Oldest driver that will do, as `cuDriverGetVersion` counts: CUDA 12.0.
pub const OLDEST_DRIVER: u32 = 12_000;

const COMPUTE_CAPABILITY_MAJOR: u32 = 75;
const COMPUTE_CAPABILITY_MINOR: u32 = 76;
const MULTIPROCESSOR_COUNT: u32 = 16;
const INTEGRATED: u32 = 18;
/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR` and `CU_POINTER_ATTRIBUTE_RANGE_SIZE`.
const RANGE_START: u32 = 11;
const RANGE_BYTES: u32 = 12;

/// Why there is no GPU to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// There is no driver library.
    #[error("no NVIDIA driver: libcuda.so is not found (install the driver, or add its folder to LD_LIBRARY_PATH)")]
    NoDriver,
    /// A function that every supported driver has is missing.
    #[error("the NVIDIA driver is too old, it has no {}: CUDA 12.0 or newer is needed", .0.symbol())]
    Lacks(Call),
    /// The driver is older than the backend supports.
    #[error("the NVIDIA driver is too old, it is for CUDA {}.{}: CUDA 12.0 or newer is needed", .0 / 1000, .0 % 1000 / 10)]
    TooOld(u32),
    /// There is a driver, but no GPU.
    #[error("the NVIDIA driver finds no GPU")]
    NoGpu,
    /// A function of the driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl From<NoApi> for ProbeError {
    fn from(error: NoApi) -> ProbeError {
        match error {
            NoApi::Library => ProbeError::NoDriver,
            NoApi::Function(call) => ProbeError::Lacks(call),
        }
    }
}

/// What the driver says of the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Number of SMs.
    pub sms: u32,
    /// Bytes of its memory, 0 if the driver does not say.
    pub memory: u64,
    /// True if it shares the host's memory.
    pub integrated: bool,
    /// The CUDA version of the driver: 1000 * major + 10 * minor.
    pub driver: u32,
}

impl Facts {
    /// The architecture that kernels are compiled for: `sm_87`, and `sm_90a` where the accelerated variant exists for Hopper.
    pub fn architecture(&self) -> String {
        let (major, minor) = self.capability;
        let accelerated = if major == 9 { "a" } else { "" };
        format!("sm_{major}{minor}{accelerated}")
    }

    /// True if the driver sets SMs aside for some streams: since CUDA 12.4.
    pub fn sets_sms_aside(&self) -> bool {
        self.driver >= 12_040
    }
}

/// Looks for a GPU. Creates no context.
pub fn probe() -> Result<Facts, ProbeError> {
    find().map(|(_, _, facts)| facts)
}

/// The first GPU that the driver offers (`CUDA_VISIBLE_DEVICES` says which that is).
fn find() -> Result<(&'static Api, i32, Facts), ProbeError> {
    let api = api()?;
    let (mut version, mut count, mut device) = (0, 0, 0);
    // SAFETY: the pointers are valid for writing in these calls; cuInit takes no flags.
    unsafe {
        api.driver_get_version(&mut version)?;
        let version = u32::try_from(version).unwrap_or(0);
        if version < OLDEST_DRIVER {
            return Err(ProbeError::TooOld(version));
        }
        match api.init(0) {
            Err(DriverError { code: 100, .. }) => return Err(ProbeError::NoGpu),
            other => other?,
        }
        api.device_get_count(&mut count)?;
        if count < 1 {
            return Err(ProbeError::NoGpu);
        }
        api.device_get(&mut device, 0)?;
    }
    let attribute = |which| -> Result<u32, ProbeError> {
        let mut value = 0;
        // SAFETY: the pointer is valid for writing, the device was given by the driver.
        unsafe { api.device_get_attribute(&mut value, which, device)? };
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0u8; 256];
    // SAFETY: the driver writes at most the given length, with a final zero; one byte more stays zero in any case.
    unsafe { api.device_get_name(name.as_mut_ptr().cast(), 255, device)? };
    let mut memory = 0;
    // SAFETY: the pointer is valid for writing, the device was given by the driver.
    let known = unsafe { api.device_total_mem(&mut memory, device) };
    let facts = Facts {
        name: String::from_utf8_lossy(name.split(|&b| b == 0).next().unwrap_or_default()).into_owned(),
        capability: (attribute(COMPUTE_CAPABILITY_MAJOR)?, attribute(COMPUTE_CAPABILITY_MINOR)?),
        sms: attribute(MULTIPROCESSOR_COUNT)?,
        memory: if known.is_ok() { memory as u64 } else { 0 },
        integrated: attribute(INTEGRATED)? != 0,
        driver: u32::try_from(version).unwrap_or(0),
    };
    Ok((api, device, facts))
}

/// The GPU's primary context, held until the last user is dropped.
pub struct Context {
    pub(super) api: &'static Api,
    pub(super) device: i32,
    handle: Handle,
    facts: Facts,
}

impl Context {
    /// Opens the GPU, and makes its context the calling thread's.
    pub fn open() -> Result<Arc<Context>, ProbeError> {
        let (api, device, facts) = find()?;
        let mut handle = null_mut();
        // SAFETY: the pointer is valid for writing, the device was given by the driver.
        unsafe { api.primary_ctx_retain(&mut handle, device)? };
        let context = Arc::new(Context {
            api,
            device,
            handle: Handle(handle),
            facts,
        });
        context.enter()?;
        Ok(context)
    }

    /// What the driver says of the GPU.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Makes the context the calling thread's. Others in the process may have set another one, so it is done before each
    /// use; it costs less than finding out.
    pub fn enter(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained for as long as `self` lives.
        unsafe { self.api.ctx_set_current(self.handle.0) }
    }

    /// Free bytes of device memory.
    pub fn free_memory(&self) -> Result<u64, DriverError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for writing.
        unsafe { self.api.mem_get_info(&mut free, &mut total)? };
        Ok(free as u64)
    }

    /// True if `bytes` bytes from this address on lie in one allocation that the driver knows; also where the driver is too old
    /// to be asked.
    pub fn owns(&self, address: u64, bytes: u64) -> Result<bool, DriverError> {
        let (mut start, mut length) = (0u64, 0usize);
        // SAFETY: the pointers are valid for writing what these attributes are: an address, and a size.
        let known = unsafe {
            self.api
                .pointer_get_attribute((&raw mut start).cast(), RANGE_START, address)
                .and_then(|()| self.api.pointer_get_attribute((&raw mut length).cast(), RANGE_BYTES, address))
        };
        match known {
            Ok(()) => {
                let end = address.checked_add(bytes).filter(|_| address >= start);
                Ok(end.is_some_and(|end| end <= start.saturating_add(length as u64)))
            }
            Err(DriverError { code: INVALID_VALUE, .. }) => Ok(false),
            Err(DriverError { code: MISSING, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Stream priorities: the least urgent and the most urgent; the most urgent is the smaller number.
    pub fn priorities(&self) -> Result<(i32, i32), DriverError> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the pointers are valid for writing.
        unsafe { self.api.ctx_get_stream_priority_range(&mut least, &mut greatest)? };
        Ok((least, greatest))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`; everything made in it is dropped, for it holds the context. A failure leaves
        // the context to the process, which is all that could be done about it.
        let _ = unsafe { self.api.primary_ctx_release(self.device) };
    }
}
