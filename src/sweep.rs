//! The sweep: right kernels on thousands of random and hostile cases, none of which may ever be over its bound.
//!
//! [`mod@draw`] gives case after case, a function of seed and index; [`judge`] puts each to simulated kernels ([`sim`]) and
//! to the built-in ones, and counts shares of the bound ([`stat`]). Cases are merged in the order of their index, so the
//! result depends on the [`Request`] alone, whatever the number of workers, and a [`state`] that was saved on the way
//! goes on where it ended. A violation is made small by [`shrink`] and becomes a case file by [`mod@write`].

pub mod draw;
pub mod judge;
pub mod shrink;
pub mod sim;
pub mod stat;
pub mod state;
pub mod text;
pub mod write;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use draw::{Drawn, draw};
use judge::{Lab, Outcome, Violation};
use stat::Table;

/// Violations kept; further ones are only counted.
const KEPT: usize = 64;
/// Cases between two savings of the state.
const SAVE_EVERY: u64 = 64;

/// What is swept. Two sweeps of one request give the same result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seed of the draws and of all inputs.
    pub seed: u64,
    /// Output rows to ask for, over all kernels; the last case is finished.
    pub rows: u64,
    /// Longest row in keys, 1 to [`draw::MOST_KEYS`].
    pub max_keys: usize,
    /// Adapter of the WGSL kernels in words, if they take part.
    pub adapter: Option<String>,
    /// Whether a kernel that is wrong takes part.
    pub control: bool,
}

impl Request {
    /// Built-in kernels in each layout: the CPU twin, and with an adapter the WGSL kernels.
    fn built_in(&self) -> usize {
        1 + usize::from(self.adapter.is_some())
    }

    /// Case number `index`.
    pub fn draw(&self, index: u64) -> Drawn {
        draw(self.seed, index, self.max_keys, self.control)
    }
}

/// A sweep under way, or done.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What is swept.
    pub request: Request,
    /// Cases judged: all below this index.
    pub cases: u64,
    /// Output rows these cases ask for.
    pub asked: u64,
    /// What was found, by kernel.
    pub table: Table,
    /// The first violations, in the order of cases.
    pub violations: Vec<Violation>,
}

/// Cases not yet handed out.
struct Queue {
    next: u64,
    asked: u64,
}

impl Sweep {
    /// A sweep that has not begun.
    pub fn new(request: Request) -> Self {
        Self { request, cases: 0, asked: 0, table: Table::default(), violations: Vec::new() }
    }

    /// Whether every row was asked for.
    pub fn is_done(&self) -> bool {
        self.asked >= self.request.rows
    }

    /// Goes on to the end with one worker a lab. `progress` is told the rows asked for so far; `save` is called now and
    /// then and at the end.
    ///
    /// # Errors
    /// The error of `save`, which ends the sweep early.
    pub fn run<E>(
        &mut self,
        labs: Vec<Lab>,
        progress: &dyn Fn(u64),
        save: &mut dyn FnMut(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let queue = Mutex::new(Queue { next: self.cases, asked: self.asked });
        let stop = AtomicBool::new(false);
        let request = self.request.clone();
        let take = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.asked >= request.rows || stop.load(Ordering::Relaxed) {
                return None;
            }
            let drawn = request.draw(queue.next);
            queue.next += 1;
            queue.asked += drawn.rows(request.built_in());
            Some(drawn)
        };
        thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            for mut lab in labs {
                let (sender, take, seed) = (sender.clone(), &take, request.seed);
                scope.spawn(move || {
                    while let Some(drawn) = take() {
                        let outcome = lab.judge(&drawn, seed);
                        let rows = drawn.rows(lab.len());
                        // nobody listens once the sweep was stopped
                        let _ = sender.send((drawn.index, rows, outcome));
                    }
                });
            }
            drop(sender);
            let mut early = BTreeMap::new();
            for (index, rows, outcome) in results {
                early.insert(index, (rows, outcome));
                while let Some((rows, outcome)) = early.remove(&self.cases) {
                    self.take(rows, outcome);
                    progress(self.asked);
                    if self.cases.is_multiple_of(SAVE_EVERY)
                        && let Err(error) = save(self)
                    {
                        stop.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            save(self)
        })
    }

    /// Adds the next case.
    fn take(&mut self, rows: u64, outcome: Outcome) {
        self.cases += 1;
        self.asked += rows;
        self.table.merge(&outcome.table);
        let room = KEPT - self.violations.len().min(KEPT);
        self.violations.extend(outcome.violations.into_iter().take(room));
    }
}
