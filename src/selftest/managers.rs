//! Wrong KV managers on one case and layout, read by the right kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use attnproof_layouts::fault::ManagerFault;
use attnproof_layouts::kind::LayoutKind;
use attnproof_report::model::Status;

use super::kernels::Right;
use super::tally::Tally;
use super::{Plan, catches};
use crate::kernel::Twin;
use crate::runner::drive::Drive;
use crate::runner::lane::Lane;
use crate::runner::prepare::Prepared;
use crate::runner::walk::{CheckError, walk};

/// Puts every wrong manager of `plan` to one case and layout. `right` is what the right kernel did under the right manager: where
/// a wrong one gives it the same bytes and tables, it does the same.
pub fn judge(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    plan: &Plan<'_>,
    case: usize,
    right: &[Right],
    tally: &mut Tally,
) {
    for (index, fault) in plan.managers.iter().enumerate() {
        if fault.layouts.contains(&layout) {
            tally.manager(index, case, layout, caught(prepared, layout, plan.seed, fault, right));
        }
    }
}

/// The status that the fault is caught with, if it is. A panic of the harness catches nothing.
fn caught(
    prepared: &Prepared<'_>,
    layout: LayoutKind,
    seed: u64,
    fault: &ManagerFault,
    right: &[Right],
) -> Option<Status> {
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let mut twin = Twin::new();
        let mut lane = Lane::new(&mut twin);
        let walked = Drive::with_fault(prepared.case, layout, seed, false, fault)
            .map_err(CheckError::from)
            .and_then(|drive| {
                walk(prepared, drive, &mut |asked| {
                    let same = right.get(asked.index).is_some_and(|right| right.was_given(asked));
                    if !same && lane.verdict.status.is_none() {
                        lane.check(prepared, asked);
                    }
                })
            });
        match walked {
            Ok(_) => lane.verdict.status,
            // The right manager carries out every operation of a case, so a refusal is a broken rule too.
            Err(_) => Some(lane.verdict.status.unwrap_or(Status::Invariant)),
        }
    }));
    judged.ok().flatten().filter(|&status| catches(status))
}
