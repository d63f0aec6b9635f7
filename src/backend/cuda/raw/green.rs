//! Green contexts: streams that are confined to some of the SMs.

use super::device::Context;
use super::driver::{DriverError, Handle, Pointer};
use cudarc::driver::sys;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CU_DEV_RESOURCE_TYPE_SM`.
const SMS: u32 = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which the driver demands.
const DEFAULT_STREAM: u32 = 1;

/// Some of the GPU's SMs, set aside.
pub struct GreenContext {
    context: Arc<Context>,
    handle: Handle,
    sms: u32,
}

impl GreenContext {
    /// Sets aside at least `sms` SMs; the driver rounds up to what the GPU can split (8 on Hopper, 2 on Orin).
    pub fn new(context: &Arc<Context>, sms: u32) -> Result<Arc<GreenContext>, DriverError> {
        // SAFETY: a resource is plain numbers, of which zeros are valid; one group is asked for and there is room for
        // one. All pointers are valid for the calls.
        unsafe {
            let (mut all, mut group, mut rest): (sys::CUdevResource, sys::CUdevResource, sys::CUdevResource) =
                (zeroed(), zeroed(), zeroed());
            let (mut groups, mut desc, mut handle) = (1, null_mut(), null_mut());
            let api = context.api;
            api.device_get_dev_resource(context.device, &mut all, SMS)?;
            api.dev_sm_resource_split(&mut group, &mut groups, &all, &mut rest, 0, sms)?;
            api.dev_resource_generate_desc(&mut desc, &mut group, 1)?;
            api.green_ctx_create(&mut handle, desc, context.device, DEFAULT_STREAM)?;
            Ok(Arc::new(GreenContext {
                context: context.clone(),
                handle: Handle(handle),
                sms: group.__bindgen_anon_1.sm.smCount,
            }))
        }
    }

    /// SMs it has.
    pub fn sms(&self) -> u32 {
        self.sms
    }

    pub(super) fn raw(&self) -> Pointer {
        self.handle.0
    }
}

impl Drop for GreenContext {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once; its streams hold it.
        let _ = unsafe { self.context.api.green_ctx_destroy(self.handle.0) };
    }
}
