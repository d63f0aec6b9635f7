//! Green contexts: streams that are confined to some of the SMs.

use super::device::Context;
use super::driver::{DriverError, Handle, Pointer};
use cudarc::driver::sys;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CU_DEV_RESOURCE_TYPE_SM`.
const SM_RESOURCE: u32 = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which the driver demands.
const DEFAULT_STREAM: u32 = 1;

/// Some of the GPU's SMs, set aside.
pub struct GreenContext {
    context: Arc<Context>,
    handle: Handle,
    sms: u32,
}

/// SMs that are set aside together.
pub struct Sms(Vec<sys::CUdevResource>);

impl Sms {
    /// At least so many, which lie as the driver places them where nothing else is asked of it; it rounds up to what the GPU can split (8 on
    /// Hopper, 2 on Orin).
    pub fn new(context: &Context, sms: u32) -> Result<Sms, DriverError> {
        let api = context.api;
        // SAFETY: resources are plain numbers, of which zeros are valid; one group is asked for and there is room for one.
        unsafe {
            let (mut all, mut group, mut rest): (sys::CUdevResource, sys::CUdevResource, sys::CUdevResource) =
                (zeroed(), zeroed(), zeroed());
            let mut groups = 1;
            api.device_get_dev_resource(context.device, &mut all, SM_RESOURCE)?;
            api.dev_sm_resource_split(&mut group, &mut groups, &all, &mut rest, 0, sms)?;
            Ok(Sms(vec![group]))
        }
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.0.iter().map(count).sum()
    }
}

/// All SMs, of the GPU or of a green context, in parcels of which some are set aside after others. The driver splits them once, as it does
/// not split what came of a split; what came of one may be put together again.
pub struct Parcels {
    groups: Vec<sys::CUdevResource>,
    /// SMs that are no parcel.
    rest: Option<sys::CUdevResource>,
}

impl Parcels {
    /// In parcels of at least `sms`: the driver rounds up to what the GPU can split (8 on Hopper).
    pub fn new(context: &Context, green: Option<&GreenContext>, sms: u32) -> Result<Parcels, DriverError> {
        let api = context.api;
        // SAFETY: resources are plain numbers, of which zeros are valid; all pointers are valid for the calls, the green context lives, and
        // there is room for as many groups as the driver said there will be.
        unsafe {
            let (mut all, mut rest): (sys::CUdevResource, sys::CUdevResource) = (zeroed(), zeroed());
            match green {
                None => api.device_get_dev_resource(context.device, &mut all, SM_RESOURCE)?,
                Some(green) => api.green_ctx_get_dev_resource(green.raw(), &mut all, SM_RESOURCE)?,
            }
            let mut groups = 0;
            api.dev_sm_resource_split(null_mut(), &mut groups, &all, null_mut(), 0, sms)?;
            let mut parcels = vec![zeroed(); groups as usize];
            api.dev_sm_resource_split(parcels.as_mut_ptr(), &mut groups, &all, &mut rest, 0, sms)?;
            parcels.truncate(groups as usize);
            Ok(Parcels {
                groups: parcels,
                rest: (rest.type_ == sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM && count(&rest) > 0).then_some(rest),
            })
        }
    }

    /// So many SMs in whole parcels; `None` if they are none, or more than are left.
    pub fn take(&mut self, sms: u32) -> Option<Sms> {
        let each = self.groups.first().map(count).filter(|&each| sms.is_multiple_of(each))?;
        let wanted = (sms / each) as usize;
        (wanted <= self.groups.len()).then(|| Sms(self.groups.drain(..wanted).collect()))
    }

    /// All that is left, which has a parcel at least: outside of parcels there is no room for clusters. `None` if it has none.
    pub fn rest(&mut self) -> Option<Sms> {
        self.groups.first()?;
        Some(Sms(self.groups.drain(..).chain(self.rest.take()).collect()))
    }
}

/// SMs of a resource of SMs.
fn count(resource: &sys::CUdevResource) -> u32 {
    // SAFETY: all resources here were given out as SMs, so that member of the union is the one that is set.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

impl GreenContext {
    /// A context on these SMs.
    pub fn new(context: &Arc<Context>, mut sms: Sms) -> Result<Arc<GreenContext>, DriverError> {
        let (mut desc, mut handle) = (null_mut(), null_mut());
        let api = context.api;
        // SAFETY: the resources came from one split of the driver's; all pointers are valid for the calls.
        unsafe {
            api.dev_resource_generate_desc(&mut desc, sms.0.as_mut_ptr(), sms.0.len() as u32)?;
            api.green_ctx_create(&mut handle, desc, context.device, DEFAULT_STREAM)?;
        }
        Ok(Arc::new(GreenContext {
            context: context.clone(),
            handle: Handle(handle),
            sms: sms.count(),
        }))
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
