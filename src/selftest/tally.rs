//! What is known so far: cells, and what each pass rule rejected.

use std::collections::BTreeMap;

use attnproof_layouts::fault::ManagerFault;
use attnproof_layouts::kind::LayoutKind;
use attnproof_report::kill::{Cell, Criterion, FaultRow};
use attnproof_report::model::Status;
use attnproof_shaders::fault::KernelFault;

use super::criteria::CRITERIA;
use super::{kernel_row, manager_row};

/// One fault, or one judge of it, over the cases.
type Cells = BTreeMap<usize, Cell>;

/// Counts over cases and layouts; sums of tallies do not depend on their order.
#[derive(Debug, Clone)]
pub struct Tally {
    kernels: Vec<Cells>,
    managers: Vec<Cells>,
    /// By rule, then kernel fault: rejected somewhere.
    rejected: Vec<Vec<bool>>,
    /// By rule: outputs of right kernels rejected.
    accused: [usize; CRITERIA.len()],
    /// Outputs of right kernels.
    right: usize,
    /// What the harness said of right kernels and managers.
    pub false_alarms: Vec<String>,
}

/// The bit of a layout in [`Cell::killed_in`].
pub(super) fn bit(layout: LayoutKind) -> u32 {
    LayoutKind::ALL.iter().position(|&other| other == layout).map_or(0, |at| 1 << at)
}

/// One more layout of a case that reaches the fault, and with what status it was caught there.
pub(super) fn note(cells: &mut Cells, case: usize, layout: LayoutKind, status: Option<Status>) {
    let cell = cells.entry(case).or_insert(Cell { case, reached: 0, killed: 0, killed_in: 0, status: None });
    cell.reached += 1;
    if let Some(status) = status {
        cell.killed += 1;
        cell.killed_in |= bit(layout);
        cell.status = Some(cell.status.map_or(status, |known| Status::worse(known, status)));
    }
}

impl Tally {
    /// Nothing known of so many faults.
    pub fn new(kernels: usize, managers: usize) -> Self {
        Self {
            kernels: vec![Cells::new(); kernels],
            managers: vec![Cells::new(); managers],
            rejected: vec![vec![false; kernels]; CRITERIA.len()],
            accused: [0; CRITERIA.len()],
            right: 0,
            false_alarms: Vec::new(),
        }
    }

    /// Kernel fault `fault` was reached in one layout of `case`; with what status it was caught, if it was.
    pub fn kernel(&mut self, fault: usize, case: usize, layout: LayoutKind, status: Option<Status>) {
        note(&mut self.kernels[fault], case, layout, status);
    }

    /// The same of a manager fault.
    pub fn manager(&mut self, fault: usize, case: usize, layout: LayoutKind, status: Option<Status>) {
        note(&mut self.managers[fault], case, layout, status);
    }

    /// Which rules reject one output of wrong kernel number `fault`.
    pub fn rules(&mut self, fault: usize, rejects: [bool; CRITERIA.len()]) {
        for (rule, rejects) in self.rejected.iter_mut().zip(rejects) {
            rule[fault] |= rejects;
        }
    }

    /// Which rules reject one output of a right kernel.
    pub fn right_rules(&mut self, rejects: [bool; CRITERIA.len()]) {
        self.right += 1;
        for (count, rejects) in self.accused.iter_mut().zip(rejects) {
            *count += usize::from(rejects);
        }
    }

    /// Adds what another tally knows.
    pub fn add(&mut self, other: Self) {
        let pairs = self.kernels.iter_mut().zip(other.kernels);
        for (cells, more) in pairs.chain(self.managers.iter_mut().zip(other.managers)) {
            // a case is judged by one thread, so the keys differ
            cells.extend(more);
        }
        for (rule, more) in self.rejected.iter_mut().zip(other.rejected) {
            for (known, new) in rule.iter_mut().zip(more) {
                *known |= new;
            }
        }
        for (count, more) in self.accused.iter_mut().zip(other.accused) {
            *count += more;
        }
        self.right += other.right;
        self.false_alarms.extend(other.false_alarms);
        self.false_alarms.sort();
    }

    /// The rows of the matrix: kernels, then managers.
    pub fn rows(&self, kernels: &[&KernelFault], managers: &[&ManagerFault]) -> Vec<FaultRow> {
        let with =
            |row: FaultRow, cells: &Cells| FaultRow { cells: cells.values().copied().collect(), ..row };
        let kernels = kernels.iter().zip(&self.kernels).map(|(fault, cells)| with(kernel_row(fault), cells));
        let managers =
            managers.iter().zip(&self.managers).map(|(fault, cells)| with(manager_row(fault), cells));
        kernels.chain(managers).collect()
    }

    /// The table of rules, the bound first.
    pub fn criteria(&self, kernels: &[&KernelFault]) -> Vec<Criterion> {
        let counted: Vec<usize> = (0..kernels.len()).filter(|&f| kernels[f].equivalent.is_none()).collect();
        // finite numbers and nothing else: caught as `wrong`, never with a graver status
        let numbers: Vec<usize> = counted
            .iter()
            .copied()
            .filter(|&f| {
                let gravest = self.kernels[f].values().filter_map(|cell| cell.status).max();
                gravest == Some(Status::Wrong)
            })
            .collect();
        let row = |name: &str, rule: &str, killed: &dyn Fn(usize) -> bool, false_alarms: usize| Criterion {
            name: name.to_owned(),
            rule: rule.to_owned(),
            killed: counted.iter().filter(|&&f| killed(f)).count(),
            of: counted.len(),
            killed_numbers: numbers.iter().filter(|&&f| killed(f)).count(),
            of_numbers: numbers.len(),
            false_alarms,
            right: self.right,
        };
        let bound = row(
            "this harness",
            "the error bound of every element, and the other checks of a run",
            &|f| self.kernels[f].values().any(|cell| cell.killed > 0),
            self.false_alarms.len(),
        );
        let others = CRITERIA.iter().zip(&self.rejected).zip(self.accused);
        let others = others.map(|((c, rejected), accused)| row(c.name, c.rule, &|f| rejected[f], accused));
        std::iter::once(bound).chain(others).collect()
    }
}
