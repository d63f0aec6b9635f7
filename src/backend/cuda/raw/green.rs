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
    /// At least so many of the GPU's; it rounds up to what the GPU can split (8 on Hopper, 2 on Orin). They are one group of one split, not the
    /// first of [`Parcels`] of that size: asked for many groups, the driver gives SMs on which networks of small layers take up to a quarter
    /// longer (boards/h200/figures.md, "How SMs lie").
    pub fn new(context: &Context, sms: u32) -> Result<Sms, DriverError> {
        let (groups, _) = split(context, &all_of(context, None)?, 1, sms)?;
        Ok(Sms(groups))
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
        let all = all_of(context, green)?;
        let mut most = 0;
        // SAFETY: all pointers are valid for the call, or null where the driver only counts groups.
        unsafe { context.api.dev_sm_resource_split(null_mut(), &mut most, &all, null_mut(), 0, sms)? };
        let (groups, rest) = split(context, &all, most, sms)?;
        Ok(Parcels {
            groups,
            rest: (rest.type_ == sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM && count(&rest) > 0).then_some(rest),
        })
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

/// All SMs, of the GPU or of a green context.
fn all_of(context: &Context, green: Option<&GreenContext>) -> Result<sys::CUdevResource, DriverError> {
    // SAFETY: a resource is plain numbers, of which zeros are valid; its pointer is valid for the call, and the green context lives.
    unsafe {
        let mut all = zeroed();
        match green {
            None => context.api.device_get_dev_resource(context.device, &mut all, SM_RESOURCE)?,
            Some(green) => context.api.green_ctx_get_dev_resource(green.raw(), &mut all, SM_RESOURCE)?,
        }
        Ok(all)
    }
}

/// Splits SMs into up to `most` groups of at least `sms`: those there are, and what is in none.
fn split(
    context: &Context,
    all: &sys::CUdevResource,
    most: u32,
    sms: u32,
) -> Result<(Vec<sys::CUdevResource>, sys::CUdevResource), DriverError> {
    // SAFETY: resources are plain numbers, of which zeros are valid; all pointers are valid for the call, and there is room for as many
    // groups as are asked for.
    unsafe {
        let (mut groups, mut rest, mut made) = (vec![zeroed(); most as usize], zeroed(), most);
        context
            .api
            .dev_sm_resource_split(groups.as_mut_ptr(), &mut made, all, &mut rest, 0, sms)?;
        groups.truncate(made as usize);
        Ok((groups, rest))
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
