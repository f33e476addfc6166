//! One result row: what ran, on what, the verdict and the evidence for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Diagnosis, Num, Reads, Status};

/// The device a kernel ran on, in the driver's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Adapter {
    /// Device name, such as `NVIDIA L4`.
    pub name: String,
    /// Backend, such as `vulkan`, `metal`, `dx12` or `cpu`.
    pub backend: String,
    /// Driver name and version.
    pub driver: String,
}

impl Adapter {
    /// Whether the name is that of a software adapter (Mesa's llvmpipe, `SwiftShader`, Microsoft's WARP), which
    /// runs in order with one subgroup size and so cannot show races or subgroup-size faults.
    pub fn is_software(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        ["llvmpipe", "swiftshader", "microsoft basic render driver"].iter().any(|known| name.contains(known))
    }
}

/// The element that uses most of its error bound; kept on a pass too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Output tensor: `o` or `lse`.
    pub tensor: String,
    /// Index of the script's `check` operation, from 0.
    pub check: usize,
    /// Name of the sequence.
    pub row: String,
    /// Position in the row's output, axes in order: query token, query head and, for `o`, dim.
    pub index: Vec<usize>,
    /// Value the kernel wrote.
    pub got: Num,
    /// Value the oracle computed.
    pub want: Num,
    /// Largest difference allowed.
    pub bound: Num,
}

/// How much of a tensor lies outside its bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Output tensor: `o` or `lse`.
    pub tensor: String,
    /// Elements outside.
    pub over: u64,
    /// Elements judged.
    pub total: u64,
}

/// The tests that hold on random continuous data only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Share of the narrow bound that the worst element uses: at most 1 on a pass.
    pub narrow_used: Num,
    /// The largest score: at most 8 on a pass, 12 with 16-bit weights.
    pub score: Num,
}

impl Acceptance {
    /// The worse of two, test by test.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let larger = |a: Num, b: Num| if b.0 > a.0 { b } else { a };
        Self {
            narrow_used: larger(self.narrow_used, other.narrow_used),
            score: larger(self.score, other.score),
        }
    }
}

/// What the KV manager did during the case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the prefix cache.
    pub hit_tokens: u64,
    /// Whole blocks found in the prefix cache.
    pub hit_blocks: u64,
    /// Prompt tokens reused from the middle of a block.
    pub mid_block_tokens: u64,
    /// Blocks copied: copy-on-write, fork and mid-block reuse.
    pub copies: u64,
    /// Cached blocks given up for new tokens.
    pub evictions: u64,
    /// Blocks handed out a second time.
    pub reused_blocks: u64,
    /// Blocks released because a window has left them.
    pub released_blocks: u64,
    /// Checks judged.
    pub checks: u64,
}

impl Counts {
    /// The sum of two counts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            hit_tokens: self.hit_tokens.saturating_add(other.hit_tokens),
            hit_blocks: self.hit_blocks.saturating_add(other.hit_blocks),
            mid_block_tokens: self.mid_block_tokens.saturating_add(other.mid_block_tokens),
            copies: self.copies.saturating_add(other.copies),
            evictions: self.evictions.saturating_add(other.evictions),
            reused_blocks: self.reused_blocks.saturating_add(other.reused_blocks),
            released_blocks: self.released_blocks.saturating_add(other.released_blocks),
            checks: self.checks.saturating_add(other.checks),
        }
    }

    /// Prompt tokens reused from the cache per prompt token, whole blocks and middles of blocks together; none
    /// without prompts.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| self.hit_tokens as f64 / self.prompt_tokens as f64)
    }
}

/// One case on one layout, kernel and adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The full case id, unique for a kernel and adapter.
    pub id: String,
    /// The case's name, the same in every layout.
    pub name: String,
    /// Layout name.
    pub layout: String,
    /// Kernel: `wgsl`, `cpu-twin`, or the name of an external one.
    pub kernel: String,
    /// Where the kernel ran.
    pub adapter: Adapter,
    /// The verdict.
    pub status: Status,
    /// The reason in one line, when the status is not `pass`.
    #[serde(default)]
    pub detail: Option<String>,
    /// Share of the error bound used by the worst element: at most 1 on a pass. Null when nothing was judged,
    /// or when no multiple of the bound admits the output.
    #[serde(default)]
    pub budget_used: Option<f64>,
    /// How much of the worst tensor lies outside its bound.
    #[serde(default)]
    pub over: Option<Over>,
    /// The worst element.
    #[serde(default)]
    pub worst: Option<Worst>,
    /// What the failure looks like, when its numbers are wrong.
    #[serde(default)]
    pub diagnosis: Option<Diagnosis>,
    /// The narrow bound and the score test, where the data are random.
    #[serde(default)]
    pub acceptance: Option<Acceptance>,
    /// Measured reads, when the kernel is instrumented.
    #[serde(default)]
    pub reads: Option<Reads>,
    /// What the KV manager did.
    #[serde(default)]
    pub counts: Option<Counts>,
    /// The precision model the bound was derived under.
    pub model: String,
    /// Seed of the inputs, as `0x` and hexadecimal digits.
    pub seed: String,
    /// Version of the suite of cases.
    pub suite: String,
    /// SHA-256 of the inputs, in hexadecimal.
    pub inputs_sha256: String,
    /// Version of the program that wrote the row.
    pub version: String,
    /// Limits of the adapter that decide what can run, by name.
    #[serde(default)]
    pub limits: Option<BTreeMap<String, u64>>,
    /// Why the case exists: the fault it is there to find.
    #[serde(default)]
    pub why: Option<String>,
    /// Wall-clock time in milliseconds; information, never part of a verdict.
    pub time_ms: f64,
}

/// What makes a row unique in a file of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey<'a> {
    /// Case id.
    pub id: &'a str,
    /// Layout name.
    pub layout: &'a str,
    /// Kernel name.
    pub kernel: &'a str,
    /// Adapter.
    pub adapter: &'a Adapter,
}

impl Row {
    /// The row's identity; two rows of one file never share it.
    pub fn key(&self) -> RowKey<'_> {
        RowKey { id: &self.id, layout: &self.layout, kernel: &self.kernel, adapter: &self.adapter }
    }
}
