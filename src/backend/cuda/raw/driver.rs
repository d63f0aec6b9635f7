//! The driver's functions: found by name when first needed, called through one gate that counts them.
//!
//! Codes are kept as numbers, never as an enum of the binding: a newer driver has codes that an older enum lacks.

use cudarc::driver::sys;
use std::ffi::{c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A function of the driver that failed, and its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} failed with code {code} ({})", call.symbol(), meaning(*code))]
pub struct DriverError {
    /// The function.
    pub call: Call,
    /// The driver's code, or one of this module's.
    pub code: u32,
}

impl DriverError {
    /// The function failed for want of memory.
    pub fn out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }
}

/// The driver has not this function.
pub const MISSING: u32 = u32::MAX;
/// A fault has left the context unusable; the function was not called.
pub const POISONED: u32 = u32::MAX - 1;
/// The driver's code for not enough memory.
pub const OUT_OF_MEMORY: u32 = 2;
/// The driver's code for work that has not ended.
pub const NOT_READY: u32 = 600;
/// The driver's code for an argument that cannot be.
pub const INVALID_VALUE: u32 = 1;
/// The driver's code for a handle that is none.
pub const INVALID_HANDLE: u32 = 400;

fn meaning(code: u32) -> &'static str {
    match code {
        INVALID_VALUE => "invalid value",
        OUT_OF_MEMORY => "out of memory",
        3 => "not initialised",
        100 => "no device",
        101 => "invalid device",
        200 => "invalid machine code",
        201 => "invalid context",
        209 => "no machine code for this GPU",
        218 => "invalid source",
        222 => "machine code of a newer toolkit than the driver",
        INVALID_HANDLE => "invalid handle",
        500 => "not found",
        700 => "illegal address",
        701 => "too many resources for a launch",
        702 => "launch timed out",
        715 => "illegal instruction",
        716 => "misaligned address",
        717 => "invalid address space",
        718 => "invalid program counter",
        719 => "launch failed",
        801 => "not supported",
        803 => "driver and libraries do not match",
        900..=908 => "not allowed while a graph is captured",
        MISSING => "the driver is too old to have it",
        POISONED => "not called: a fault has left the GPU's context unusable in this process",
        _ => "see CUresult in CUDA's documentation",
    }
}

/// No call is made any more in this process: a fault has left the context unusable.
pub fn poison() {
    POISON.store(true, Ordering::Release);
}

/// True after [`poison`].
pub fn is_poisoned() -> bool {
    POISON.load(Ordering::Acquire)
}

static POISON: AtomicBool = AtomicBool::new(false);
static COUNTS: [AtomicU64; Call::ALL.len()] = [const { AtomicU64::new(0) }; Call::ALL.len()];

/// How often each function of the driver was called in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverCalls([u64; Call::ALL.len()]);

/// The counts so far.
pub fn driver_calls() -> DriverCalls {
    DriverCalls(std::array::from_fn(|i| COUNTS[i].load(Ordering::Relaxed)))
}

impl DriverCalls {
    /// Calls of one function.
    pub fn of(&self, call: Call) -> u64 {
        self.0[call as usize]
    }

    /// The functions that were called since `earlier`, with how often.
    pub fn since<'a>(&'a self, earlier: &'a DriverCalls) -> impl Iterator<Item = (Call, u64)> + 'a {
        let grown = |&call: &Call| self.of(call) - earlier.of(call);
        Call::ALL.iter().copied().map(move |c| (c, grown(&c))).filter(|&(_, n)| n > 0)
    }
}

/// Counts a call and says whether it may be made.
fn gate(call: Call) -> Result<(), DriverError> {
    if is_poisoned() {
        return Err(DriverError { call, code: POISONED });
    }
    COUNTS[call as usize].fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn check(call: Call, code: u32) -> Result<(), DriverError> {
    if code == 0 { Ok(()) } else { Err(DriverError { call, code }) }
}

/// Each line: the function's number, its method, its symbol and its arguments. The required ones every supported driver
/// has; an optional one that is missing fails with [`MISSING`].
macro_rules! functions {
    (required { $($call:ident $name:ident $symbol:literal ($($arg:ident: $type:ty),*);)* }
     optional { $($may_call:ident $may_name:ident $may_symbol:literal ($($may_arg:ident: $may_type:ty),*);)* }) => {
        /// A function of the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)] // named after the functions
        pub enum Call { $($call,)* $($may_call,)* }

        impl Call {
            /// Every function that the backend may call.
            pub const ALL: &[Call] = &[$(Call::$call,)* $(Call::$may_call,)*];

            /// The function's name in the driver.
            pub const fn symbol(self) -> &'static str {
                match self { $(Call::$call => $symbol,)* $(Call::$may_call => $may_symbol,)* }
            }
        }

        /// The driver's functions.
        pub(super) struct Api {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
            $($may_name: Option<unsafe extern "C" fn($($may_type),*) -> u32>,)*
        }

        impl Api {
            fn find() -> Result<Api, Call> {
                // SAFETY: the library was found before, see `api`; it is never unloaded.
                let library = unsafe { sys::culib() };
                Ok(Api {
                    $($name: {
                        // SAFETY: the type is that of the function in the driver's public header, with the enum it
                        // returns read as the number that it is.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($type),*) -> u32>($symbol.as_bytes()) };
                        *found.map_err(|_| Call::$call)?
                    },)*
                    $($may_name: {
                        // SAFETY: as above.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($may_type),*) -> u32>($may_symbol.as_bytes()) };
                        found.ok().map(|f| *f)
                    },)*
                })
            }

            $(
                /// # Safety
                /// As the driver's documentation of the function demands.
                #[allow(clippy::too_many_arguments)] // the driver's own
                pub(super) unsafe fn $name(&self, $($arg: $type),*) -> Result<(), DriverError> {
                    gate(Call::$call)?;
                    // SAFETY: the caller keeps the function's demands.
                    check(Call::$call, unsafe { (self.$name)($($arg),*) })
                }
            )*

            $(
                /// # Safety
                /// As the driver's documentation of the function demands.
                #[allow(clippy::too_many_arguments)] // the driver's own
                pub(super) unsafe fn $may_name(&self, $($may_arg: $may_type),*) -> Result<(), DriverError> {
                    let call = Call::$may_call;
                    let function = self.$may_name.ok_or(DriverError { call, code: MISSING })?;
                    gate(call)?;
                    // SAFETY: the caller keeps the function's demands.
                    check(call, unsafe { function($($may_arg),*) })
                }
            )*
        }
    };
}

/// An opaque pointer of the driver: a context, a stream, memory.
pub(super) type Pointer = *mut c_void;

functions! {
    required {
        Init init "cuInit" (flags: u32);
        DriverGetVersion driver_get_version "cuDriverGetVersion" (version: *mut i32);
        DeviceGetCount device_get_count "cuDeviceGetCount" (count: *mut i32);
        DeviceGet device_get "cuDeviceGet" (device: *mut i32, ordinal: i32);
        DeviceGetName device_get_name "cuDeviceGetName" (name: *mut c_char, length: i32, device: i32);
        DeviceGetAttribute device_get_attribute "cuDeviceGetAttribute" (value: *mut i32, attribute: u32, device: i32);
        PrimaryCtxRetain primary_ctx_retain "cuDevicePrimaryCtxRetain" (context: *mut Pointer, device: i32);
        PrimaryCtxRelease primary_ctx_release "cuDevicePrimaryCtxRelease_v2" (device: i32);
        CtxSetCurrent ctx_set_current "cuCtxSetCurrent" (context: Pointer);
        CtxGetStreamPriorityRange ctx_get_stream_priority_range "cuCtxGetStreamPriorityRange" (least: *mut i32, greatest: *mut i32);
        MemGetInfo mem_get_info "cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
        MemAlloc mem_alloc "cuMemAlloc_v2" (address: *mut u64, bytes: usize);
        MemFree mem_free "cuMemFree_v2" (address: u64);
        MemHostAlloc mem_host_alloc "cuMemHostAlloc" (pointer: *mut Pointer, bytes: usize, flags: u32);
        MemFreeHost mem_free_host "cuMemFreeHost" (pointer: Pointer);
        MemHostGetDevicePointer mem_host_get_device_pointer "cuMemHostGetDevicePointer_v2" (address: *mut u64, pointer: Pointer, flags: u32);
        MemcpyHtoDAsync memcpy_htod_async "cuMemcpyHtoDAsync_v2" (to: u64, from: *const c_void, bytes: usize, stream: Pointer);
        MemcpyDtoHAsync memcpy_dtoh_async "cuMemcpyDtoHAsync_v2" (to: Pointer, from: u64, bytes: usize, stream: Pointer);
        MemcpyAsync memcpy_async "cuMemcpyAsync" (to: u64, from: u64, bytes: usize, stream: Pointer);
        MemcpyDtoDAsync memcpy_dtod_async "cuMemcpyDtoDAsync_v2" (to: u64, from: u64, bytes: usize, stream: Pointer);
        MemsetAsync memset_async "cuMemsetD8Async" (address: u64, value: u8, bytes: usize, stream: Pointer);
        StreamCreate stream_create "cuStreamCreateWithPriority" (stream: *mut Pointer, flags: u32, priority: i32);
        StreamDestroy stream_destroy "cuStreamDestroy_v2" (stream: Pointer);
        StreamQuery stream_query "cuStreamQuery" (stream: Pointer);
        StreamWaitEvent stream_wait_event "cuStreamWaitEvent" (stream: Pointer, event: Pointer, flags: u32);
        StreamBeginCapture stream_begin_capture "cuStreamBeginCapture_v2" (stream: Pointer, mode: u32);
        StreamEndCapture stream_end_capture "cuStreamEndCapture" (stream: Pointer, graph: *mut Pointer);
        EventCreate event_create "cuEventCreate" (event: *mut Pointer, flags: u32);
        EventRecord event_record "cuEventRecord" (event: Pointer, stream: Pointer);
        EventDestroy event_destroy "cuEventDestroy_v2" (event: Pointer);
        ModuleLoadData module_load_data "cuModuleLoadData" (module: *mut Pointer, image: *const c_void);
        ModuleGetFunction module_get_function "cuModuleGetFunction" (function: *mut Pointer, module: Pointer, name: *const c_char);
        ModuleUnload module_unload "cuModuleUnload" (module: Pointer);
        FuncSetAttribute func_set_attribute "cuFuncSetAttribute" (function: Pointer, attribute: u32, value: i32);
        LaunchKernel launch_kernel "cuLaunchKernel" (
            function: Pointer, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
            stream: Pointer, params: *mut Pointer, extra: *mut Pointer
        );
        GraphInstantiate graph_instantiate "cuGraphInstantiateWithFlags" (graph_exec: *mut Pointer, graph: Pointer, flags: u64);
        GraphUpload graph_upload "cuGraphUpload" (graph_exec: Pointer, stream: Pointer);
        GraphLaunch graph_launch "cuGraphLaunch" (graph_exec: Pointer, stream: Pointer);
        GraphExecDestroy graph_exec_destroy "cuGraphExecDestroy" (graph_exec: Pointer);
        GraphDestroy graph_destroy "cuGraphDestroy" (graph: Pointer);
    }
    optional {
        PointerGetAttribute pointer_get_attribute "cuPointerGetAttribute" (value: Pointer, attribute: u32, address: u64);
        DeviceTotalMem device_total_mem "cuDeviceTotalMem_v2" (bytes: *mut usize, device: i32);
        LaunchKernelEx launch_kernel_ex "cuLaunchKernelEx" (
            config: *const sys::CUlaunchConfig, function: Pointer, params: *mut Pointer, extra: *mut Pointer
        );
        DeviceGetDevResource device_get_dev_resource "cuDeviceGetDevResource" (device: i32, resource: *mut sys::CUdevResource, kind: u32);
        DevSmResourceSplit dev_sm_resource_split "cuDevSmResourceSplitByCount" (
            groups: *mut sys::CUdevResource, count: *mut u32, input: *const sys::CUdevResource, rest: *mut sys::CUdevResource,
            flags: u32, least: u32
        );
        DevResourceGenerateDesc dev_resource_generate_desc "cuDevResourceGenerateDesc" (
            desc: *mut Pointer, resources: *mut sys::CUdevResource, count: u32
        );
        GreenCtxCreate green_ctx_create "cuGreenCtxCreate" (green: *mut Pointer, desc: Pointer, device: i32, flags: u32);
        GreenCtxStreamCreate green_ctx_stream_create "cuGreenCtxStreamCreate" (
            stream: *mut Pointer, green: Pointer, flags: u32, priority: i32
        );
        GreenCtxGetDevResource green_ctx_get_dev_resource "cuGreenCtxGetDevResource" (
            green: Pointer, resource: *mut sys::CUdevResource, kind: u32
        );
        GreenCtxDestroy green_ctx_destroy "cuGreenCtxDestroy" (green: Pointer);
        TensorMapEncodeTiled tensor_map_encode_tiled "cuTensorMapEncodeTiled" (
            map: Pointer, kind: u32, rank: u32, address: u64, extents: *const u64, strides: *const u64, tile: *const u32,
            steps: *const u32, interleave: u32, swizzle: u32, promotion: u32, fill: u32
        );
        TensorMapEncodeIm2col tensor_map_encode_im2col "cuTensorMapEncodeIm2col" (
            map: Pointer, kind: u32, rank: u32, address: u64, extents: *const u64, strides: *const u64, lower: *const i32,
            upper: *const i32, channels: u32, pixels: u32, steps: *const u32, interleave: u32, swizzle: u32, promotion: u32,
            fill: u32
        );
    }
}

/// Why there are no functions to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoApi {
    /// There is no driver library.
    Library,
    /// The library lacks a required function.
    Function(Call),
}

/// The driver's functions, looked for once in a process.
pub(super) fn api() -> Result<&'static Api, NoApi> {
    static API: OnceLock<Result<Api, NoApi>> = OnceLock::new();
    let find = || {
        // SAFETY: loading the driver's library runs its initialisers, which have no demands.
        if unsafe { !sys::is_culib_present() } {
            return Err(NoApi::Library);
        }
        Api::find().map_err(NoApi::Function)
    };
    API.get_or_init(find).as_ref().map_err(|&e| e)
}

/// A handle that may go from thread to thread: the driver's functions take it on any thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle(pub(super) Pointer);

// SAFETY: the driver's handles are not bound to a thread, and its functions may be called from any.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}
