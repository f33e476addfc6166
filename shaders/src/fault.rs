//! Kernels that are wrong on purpose: one small change of the twin's rules and of the WGSL text for each fault.
//!
//! They are what a harness must report, and what a diagnosis compares a wrong answer with.

use crate::abi::Problem;
use crate::compose::Edit;
use crate::cpu::rules::Rules;

/// A wrong kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelFault {
    /// Unique name, in lower case with dashes.
    pub id: &'static str,
    /// What part of the kernel it breaks.
    pub kind: Kind,
    /// What the wrong kernel does, as a clause.
    pub says: &'static str,
    /// Whether it could change anything in a problem. It never says no where the fault shows.
    pub reach: fn(&Problem) -> bool,
    /// Breaks the rules of the CPU twin.
    pub twin: fn(&mut Rules),
    /// Breaks the WGSL; empty for a fault of the twin only.
    pub wgsl: &'static [Edit],
    /// Why it computes the same function, if it does.
    pub equivalent: Option<&'static str>,
}

/// The part of a kernel that a fault breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The edges of the sliding window.
    Window,
    /// The causal limit, and the positions of queries.
    Causal,
    /// Which KV head a query head reads.
    Heads,
    /// The linear position bias.
    Alibi,
    /// The factor on q . k.
    Scale,
    /// The softcap and its order.
    Softcap,
    /// The sinks.
    Sinks,
    /// The decoding of K and V.
    Formats,
    /// The scales of K and V.
    KvScales,
    /// Which key is read, and from where.
    Addressing,
    /// Masked keys of a loaded tile.
    Masking,
    /// Rows and splits without keys.
    Empty,
    /// The merge of parts, and the LSE.
    Merge,
    /// Online softmax and its roundings.
    Accumulation,
    /// What is written, and where.
    Outputs,
    /// Right numbers from needless loads.
    Traffic,
}

impl Kind {
    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Causal => "causal",
            Self::Heads => "heads",
            Self::Alibi => "alibi",
            Self::Scale => "scale",
            Self::Softcap => "softcap",
            Self::Sinks => "sinks",
            Self::Formats => "formats",
            Self::KvScales => "kv-scales",
            Self::Addressing => "addressing",
            Self::Masking => "masking",
            Self::Empty => "empty",
            Self::Merge => "merge",
            Self::Accumulation => "accumulation",
            Self::Outputs => "outputs",
            Self::Traffic => "traffic",
        }
    }
}

/// Every fault, always in the same order.
pub fn library() -> Vec<KernelFault> {
    [
        window::FAULTS,
        causal::FAULTS,
        heads::FAULTS,
        alibi::FAULTS,
        scale::FAULTS,
        softcap::FAULTS,
        sinks::FAULTS,
        formats::FAULTS,
        kv_scales::FAULTS,
        keys::FAULTS,
        slots::FAULTS,
        masking::FAULTS,
        empty::FAULTS,
        merge::FAULTS,
        accumulation::FAULTS,
        outputs::FAULTS,
        traffic::FAULTS,
    ]
    .concat()
}

/// A fault that changes what is computed.
const fn fault(
    kind: Kind,
    id: &'static str,
    says: &'static str,
    reach: fn(&Problem) -> bool,
    twin: fn(&mut Rules),
    wgsl: &'static [Edit],
) -> KernelFault {
    KernelFault { id, kind, says, reach, twin, wgsl, equivalent: None }
}

/// An edit of the attention core.
const fn core(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "attention.wgsl", find, replace }
}

/// An edit of the merge.
const fn joined(find: &'static str, replace: &'static str) -> Edit {
    Edit { file: "merge.wgsl", find, replace }
}

/// Gives every pair of the attention core the length of its row, as `pair_len`.
const PAIR_LEN: Edit = core(
    "        pair_pos[lane] = position;\n",
    "        pair_pos[lane] = position;\n        pair_len[lane] = pair.len;\n",
);

/// Declares `pair_len`.
const PAIR_LEN_OF: Edit = core(
    "var<workgroup> pair_valid: array<u32, 16>;\n",
    "var<workgroup> pair_valid: array<u32, 16>;\nvar<workgroup> pair_len: array<u32, 16>;\n",
);

mod accumulation;
mod alibi;
mod causal;
mod empty;
mod formats;
mod heads;
mod keys;
mod kv_scales;
mod masking;
mod merge;
mod outputs;
mod reach;
mod scale;
mod sinks;
mod slots;
mod softcap;
mod traffic;
mod window;

#[cfg(test)]
mod tests;
