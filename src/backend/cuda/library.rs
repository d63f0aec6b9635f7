//! The kernels that a deployment launches: each unit loaded once, each function looked up once.

use super::archive::Archive;
use super::bind::Launch;
use super::error::CudaError;
use super::raw::{Context, DriverError, Function, Module};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A function of the library: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionId(usize);

/// Units by name, as they are loaded.
pub type Modules = BTreeMap<&'static str, Arc<Module>>;

/// Loaded kernels. Nothing is loaded after prepare.
pub struct Library {
    context: Arc<Context>,
    archive: Arc<Archive>,
    modules: Modules,
    names: BTreeMap<(&'static str, String), FunctionId>,
    functions: Vec<Loaded>,
}

struct Loaded {
    function: Function,
    /// Dynamic shared memory that it may be launched with.
    shared: u32,
}

impl Library {
    /// Units of an archive; those in `modules` are loaded already.
    pub fn new(context: &Arc<Context>, archive: Arc<Archive>, modules: Modules) -> Library {
        Library {
            context: context.clone(),
            archive,
            modules,
            names: BTreeMap::new(),
            functions: Vec::new(),
        }
    }

    /// What is loaded.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// The function that a launch needs, allowed as much shared memory as it asks for.
    pub fn function(&mut self, launch: &Launch) -> Result<FunctionId, CudaError> {
        let refused = |source: Option<DriverError>| CudaError::Kernel {
            unit: launch.unit.to_owned(),
            function: launch.function.clone(),
            source,
        };
        let key = (launch.unit, launch.function.clone());
        let id = match self.names.get(&key) {
            Some(&id) => id,
            None => {
                let module = match self.modules.get(launch.unit) {
                    Some(module) => module,
                    None => {
                        let cubin = self.archive.unit(launch.unit).ok_or_else(|| refused(None))?;
                        let module = Module::load(&self.context, &cubin).map_err(|e| refused(Some(e)))?;
                        self.modules.entry(launch.unit).or_insert(module)
                    }
                };
                let function = module.function(&launch.function).map_err(|e| refused(Some(e)))?;
                let id = FunctionId(self.functions.len());
                self.functions.push(Loaded { function, shared: 0 });
                self.names.insert(key, id);
                id
            }
        };
        let loaded = &mut self.functions[id.0];
        if launch.shared > loaded.shared {
            loaded.function.allow_shared(launch.shared).map_err(|e| refused(Some(e)))?;
            loaded.shared = launch.shared;
        }
        Ok(id)
    }

    /// What an id stands for.
    pub fn get(&self, id: FunctionId) -> &Function {
        &self.functions[id.0].function
    }
}
