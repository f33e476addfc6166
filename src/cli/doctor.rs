//! `attnproof doctor`.

use attnproof_shaders::abi::STORAGE_BINDINGS;
use attnproof_shaders::calibrate::{Calibration, Rounding, calibrate};
use attnproof_shaders::device::{self, AdapterInfo, AdapterKind};
use attnproof_shaders::dispatch::WORKGROUP_BYTES;

use crate::exit::{Exit, Failure, OrExit as _};

use super::args::DoctorArgs;

/// Prints the adapters.
pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    let adapters = device::adapters();
    let best = device::best(&adapters).map(|a| a.info.index);
    let mut text = String::new();
    let mut exit = Exit::Pass;
    for adapter in &adapters {
        let opened = adapter.open();
        let measured = match &opened {
            Ok(device) if args.calibrate => Some(calibrate(device).map_err(|e| e.to_string())),
            _ => None,
        };
        let refused = opened.map(drop).map_err(|e| e.to_string()).err();
        if measured
            .as_ref()
            .is_some_and(|found| found.as_ref().map_or(true, |c| !c.outside_wgsl().is_empty()))
        {
            exit = Exit::Wrong;
        }
        if args.json {
            text.push_str(&json(&adapter.info, refused.as_ref(), measured.as_ref()).to_string());
            text.push('\n');
        } else {
            text.push_str(&described(&adapter.info, best == Some(adapter.info.index), refused.as_ref()));
            text.push_str(&measured.map_or_else(String::new, |found| arithmetic(&found)));
        }
    }
    if !args.json {
        text.push_str(&advice(&adapters.iter().map(|a| &a.info).collect::<Vec<_>>()));
    }
    super::print(&text).or_exit(Exit::Usage)?;
    Ok(exit)
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

fn json(
    info: &AdapterInfo,
    refused: Option<&String>,
    measured: Option<&Result<Calibration, String>>,
) -> serde_json::Value {
    let mut object = serde_json::json!({
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
    });
    match measured {
        None => {}
        Some(Err(reason)) => object["calibration"] = serde_json::json!({ "error": reason }),
        Some(Ok(c)) => {
            object["calibration"] = serde_json::json!({
                "model": c.model().name,
                "rounding": rounding(c),
                "keeps_subnormals": c.keeps_subnormals,
                "keeps_f16_subnormals": c.keeps_f16_subnormals,
                "exp_of_zero_is_one": c.exp_of_zero_is_one,
                "fma_is_fused": c.fma_is_fused,
                "contracts": c.contracts,
                "exp_share": c.exp,
                "exp2_share": c.exp2,
                "log_share": c.log,
                "division_ulp": c.division_ulp,
                "tanh_absolute": c.tanh_absolute,
                "tanh_relative": c.tanh_relative,
                "tanh_saturates": c.tanh_saturates,
                "outside_wgsl": c.outside_wgsl(),
            });
        }
    }
    object
}

fn rounding(c: &Calibration) -> &'static str {
    match c.rounding {
        Rounding::Nearest => "to nearest, ties to even",
        Rounding::Neighbour => "to either neighbour",
        Rounding::Beyond => "beyond the neighbours",
    }
}

/// The measured arithmetic beside WGSL's table.
fn arithmetic(measured: &Result<Calibration, String>) -> String {
    let c = match measured {
        Ok(found) => found,
        Err(reason) => return format!("   arithmetic: could not be measured: {reason}\n"),
    };
    let yes = |it: bool| if it { "yes" } else { "no" };
    let mut lines = vec![
        format!("+ and * round {} (WGSL: to either neighbour)", rounding(c)),
        format!(
            "subnormals survive: f32 {}, f16 through unpack2x16float {} (WGSL: need not)",
            yes(c.keeps_subnormals),
            yes(c.keeps_f16_subnormals)
        ),
        format!("fma rounds once: {}; a * b + c contracted: {}", yes(c.fma_is_fused), yes(c.contracts)),
        format!("exp(0) and exp2(0) are 1: {}", yes(c.exp_of_zero_is_one)),
        format!("exp {:.3}, exp2 {:.3}, log {:.3} of what WGSL allows", c.exp, c.exp2, c.log),
        format!("division {:.2} ulps (WGSL: 2.5)", c.division_ulp),
        format!(
            "tanh {:.1e} absolute (WGSL: 1e-5), {:.1e} relative; large arguments give 1: {}",
            c.tanh_absolute,
            c.tanh_relative,
            yes(c.tanh_saturates)
        ),
    ];
    lines.extend(c.outside_wgsl().iter().map(|fault| format!("OUTSIDE WGSL'S TABLE: {fault}")));
    lines
        .push(format!("precision model that covers it: {} (`run --calibrate` judges by it)", c.model().name));
    lines.iter().map(|line| ["   arithmetic: ", line, "\n"].concat()).collect()
}
