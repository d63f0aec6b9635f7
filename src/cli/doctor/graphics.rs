//! The GPU, its kernels and their compiler.

use super::Finding;
use crate::backend::cuda::architecture::Toolkit;
use crate::backend::cuda::archive::{self, Archive};
use crate::backend::cuda::compile::Compiler;
use crate::backend::cuda::raw::{Facts, ProbeError};
use crate::backend::cuda::sources;
use crate::cli::options::Common;
use crate::cli::{gpu, output};
use serde_json::json;

pub fn cuda(probe: &Result<Facts, ProbeError>) -> Finding {
    match probe {
        Ok(facts) => {
            let driver = Toolkit::from_number(facts.driver);
            let kind = if facts.integrated { ", shares the host's memory" } else { "" };
            let memory = facts.memory / 1_000_000;
            let text = format!("{}, {memory} MB{kind}; the driver serves CUDA {driver}", gpu::described(facts));
            let value = json!({
                "present": true,
                "name": facts.name,
                "architecture": facts.architecture(),
                "sms": facts.sms,
                "memory_bytes": facts.memory,
                "integrated": facts.integrated,
                "driver_cuda": driver.to_string(),
            });
            let known = gpu::board().is_ok();
            Finding::new("cuda", value, text).advise(
                known,
                "no file of the folder boards is for this GPU: describe it as boards/README.md says, to plan for it",
            )
        }
        Err(error) => {
            let why = output::chain(error);
            Finding::new("cuda", json!({ "present": false, "reason": why }), format!("absent: {why}")).advise(
                false,
                "plans for GPUs can be made and checked here; to run them takes a GPU, or --backend cpu",
            )
        }
    }
}

/// The archives of compiled kernels, and whether the GPU at hand has one that it can run.
pub fn kernels(common: &Common, probe: &Result<Facts, ProbeError>) -> Finding {
    let folder = common.kernels();
    let state = |name: &str| match Archive::open(&folder.join(name)) {
        Ok(archive) if archive.source_digest() == sources::digest() => "current".to_owned(),
        Ok(_) => "of other sources".to_owned(),
        Err(error) => error.to_string(),
    };
    let found: Vec<(String, String)> = archive::list(&folder)
        .into_iter()
        .map(|(name, _, _)| (state(&name), name))
        .collect();
    let shown: Vec<String> = found.iter().map(|(state, name)| format!("{name} ({state})")).collect();
    let text = match shown.as_slice() {
        [] => format!("none in {}", folder.display()),
        some => format!("{}: {}", folder.display(), some.join(", ")),
    };
    let value = json!({ "folder": folder, "archives": found.iter().map(|(s, n)| json!({ "file": n, "state": s })).collect::<Vec<_>>() });
    let missing = match probe {
        Ok(facts) => archive::find(&folder, &facts.architecture(), facts.driver)
            .err()
            .map(|e| e.to_string()),
        Err(_) => None,
    };
    let stale = found.iter().any(|(state, _)| state != "current");
    let advice = missing.unwrap_or_else(|| "make them again with `platoon kernels`".into());
    Finding::new("kernels", value, text).advise(!stale && (probe.is_err() || !shown.is_empty()), advice)
}

pub fn compiler(common: &Common) -> Finding {
    match Compiler::find(common.nvrtc.as_deref()) {
        Ok(compiler) => {
            let serves: Vec<&str> = compiler.architectures().collect();
            let library = compiler.library().display();
            let text = format!("CUDA {} ({library}), compiles for {}", compiler.toolkit(), serves.join(", "));
            let value = json!({
                "present": true,
                "toolkit": compiler.toolkit().to_string(),
                "library": compiler.library(),
                "architectures": serves,
            });
            Finding::new("nvrtc", value, text)
        }
        Err(error) => {
            let why = error.to_string();
            let found = json!({ "present": false, "reason": why });
            Finding::new("nvrtc", found, "absent: GPU kernels cannot be compiled here").advise(false, why)
        }
    }
}
