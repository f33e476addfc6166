//! `attnproof doctor`.

use attnproof_shaders::abi::STORAGE_BINDINGS;
use attnproof_shaders::device::{self, AdapterInfo, AdapterKind};
use attnproof_shaders::dispatch::WORKGROUP_BYTES;

use crate::exit::{Exit, Failure, OrExit as _};

use super::DoctorArgs;

/// Prints the adapters.
pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    let adapters = device::adapters();
    let best = device::best(&adapters).map(|a| a.info.index);
    let mut text = String::new();
    for adapter in &adapters {
        let opened = adapter.open().map(drop).map_err(|e| e.to_string());
        if args.json {
            text.push_str(&json(&adapter.info, opened.as_ref().err()).to_string());
            text.push('\n');
        } else {
            text.push_str(&described(&adapter.info, best == Some(adapter.info.index), opened.as_ref().err()));
        }
    }
    if !args.json {
        text.push_str(&advice(&adapters.iter().map(|a| &a.info).collect::<Vec<_>>()));
    }
    super::print(&text).or_exit(Exit::Usage)?;
    Ok(Exit::Pass)
}

/// What this adapter cannot run, and why. The built-in kernels need no optional feature.
fn skipped(info: &AdapterInfo) -> Vec<String> {
    let mut reasons = Vec::new();
    if info.storage_buffers < STORAGE_BINDINGS as u32 {
        reasons.push(format!(
            "every case: needs {STORAGE_BINDINGS} storage buffers, allows {}",
            info.storage_buffers
        ));
    }
    if info.workgroup_bytes < WORKGROUP_BYTES {
        reasons.push(format!(
            "every case: needs {WORKGROUP_BYTES} bytes of workgroup memory, allows {}",
            info.workgroup_bytes
        ));
    }
    reasons
}

fn described(info: &AdapterInfo, best: bool, refused: Option<&String>) -> String {
    let features: Vec<_> = info
        .features
        .iter()
        .map(|(name, has)| format!("{name} {}", if *has { "yes" } else { "no" }))
        .collect();
    let mut text = format!(
        "{}: {}{}\n   backend {}, driver {}, kind {}\n   storage buffers {}, largest binding {} MiB, workgroup memory {} KiB, subgroups {}-{}\n   features: {} (none is needed)\n",
        info.index,
        info.name,
        if best { "   <- best: used by default" } else { "" },
        info.backend,
        info.driver,
        info.kind.name(),
        info.storage_buffers,
        info.max_binding_bytes >> 20,
        info.workgroup_bytes >> 10,
        info.subgroup.0,
        info.subgroup.1,
        features.join(", "),
    );
    let skipped = skipped(info);
    if skipped.is_empty() {
        text.push_str("   skipped: nothing\n");
    }
    for reason in skipped {
        text = text + "   skipped: " + &reason + "\n";
    }
    if let Some(reason) = refused {
        text = text + "   cannot be opened: " + reason + "\n";
    }
    text
}

fn advice(adapters: &[&AdapterInfo]) -> String {
    if adapters.is_empty() {
        return "no adapter: `attnproof run` runs the CPU twin only and says so. On Debian and Ubuntu \
                `apt-get install mesa-vulkan-drivers` gives a software adapter (lavapipe).\n"
            .to_owned();
    }
    if adapters.iter().all(|a| a.kind == AdapterKind::Cpu) {
        return "only software adapters: they run in order with one subgroup size, so they cannot show races or \
                subgroup-size faults. A pass here says nothing about a GPU of this machine.\n"
            .to_owned();
    }
    String::new()
}

fn json(info: &AdapterInfo, refused: Option<&String>) -> serde_json::Value {
    serde_json::json!({
        "index": info.index,
        "name": info.name,
        "backend": info.backend,
        "driver": info.driver,
        "kind": info.kind.name(),
        "storage_buffers": info.storage_buffers,
        "max_binding_bytes": info.max_binding_bytes,
        "workgroup_bytes": info.workgroup_bytes,
        "subgroup": [info.subgroup.0, info.subgroup.1],
        "features": info.features.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect::<Vec<_>>(),
        "skipped": skipped(info),
        "refused": refused,
    })
}
