//! The failing check put to the kernel once more, with other bytes.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::Poison;
use attnproof_shaders::dispatch::Run;
use attnproof_shaders::results::Outputs;

use super::Failed;
use crate::kernel::Kernel;
use crate::runner::drive::Drive;
use crate::runner::prepare::Prepared;
use crate::runner::walk::walk;

/// The failing check in its case and layout, and the kernel that failed it.
pub(super) struct Again<'a, 'c, 'k> {
    /// The case.
    pub(super) prepared: &'a Prepared<'c>,
    /// Where the bytes lie.
    pub(super) layout: LayoutKind,
    /// The seed of all inputs.
    pub(super) seed: u64,
    /// What failed.
    pub(super) failed: &'a Failed,
    /// The kernel.
    pub(super) kernel: &'k mut dyn Kernel,
}

impl Again<'_, '_, '_> {
    /// The outputs under each of `poisons`; with `xray` over that pass of the X-ray. None if the kernel gives no answer.
    pub(super) fn outputs(&mut self, xray: Option<usize>, poisons: &[Poison]) -> Option<Vec<Outputs>> {
        let drive = Drive::new(self.prepared.case, self.layout, self.seed, false).ok()?;
        let drive = match xray {
            Some(pass) => drive.with_xray(pass),
            None => drive,
        };
        let (kernel, index) = (&mut *self.kernel, self.failed.check);
        let mut found = None;
        let walked = walk(self.prepared, drive, &mut |asked| {
            if asked.index == index {
                let pools: Vec<_> = poisons.iter().map(|&poison| asked.images.get(poison)).collect();
                let runs: Vec<_> = pools.iter().map(|pools| Run { pools, probe: false }).collect();
                let ran = kernel.run(asked.problem, &runs);
                found = ran.ok().map(|results| results.into_iter().map(|result| result.outputs).collect());
            }
        });
        walked.ok()?;
        found
    }

    /// Whether the outputs change with what slots never written hold. A kernel that gives two answers on the same bytes
    /// says nothing about that.
    pub(super) fn reads_unwritten(&mut self) -> bool {
        let poisons = [&[Poison::A, Poison::A], self.kernel.poisons()].concat();
        let outputs = self.outputs(None, &poisons).unwrap_or_default();
        match outputs.as_slice() {
            [first, again, others @ ..] => first == again && others.iter().any(|other| other != first),
            _ => false,
        }
    }
}
