//! The CPU twin: the WGSL kernels in Rust, function by function, over the same bytes and tables.
//!
//! Lanes run one after another, so barriers vanish; everything else keeps its name, its order and its f32 arithmetic.
//! `exp`, `log` and `tanh` come from the `libm` crate, which gives the same bits on every machine.

mod addr;
mod attention;
mod memory;
mod merge;

use attnproof_layouts::pack::Pools;

use crate::abi::{Problem, UNWRITTEN};
use crate::dispatch::{Run, RunError, RunResult};
use crate::results::Outputs;
use memory::Memory;

/// Runs `problem` on the CPU once per entry of `runs`.
///
/// # Errors
/// [`RunError::OutOfBounds`] when the kernel reads outside a binding, which a GPU would clamp silently.
pub fn run(problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
    problem.check_size()?;
    runs.iter().map(|run| run_once(problem, run.pools, run.probe)).collect()
}

fn run_once(problem: &Problem, pools: &Pools, probe: bool) -> Result<RunResult, RunError> {
    let side = problem.side(pools);
    let mut memory = Memory::new(problem, pools, &side);
    let mut partials = vec![UNWRITTEN; problem.partial_words() as usize];
    let mut outputs = Outputs::unwritten(problem);
    let phases = problem.phases();
    for phase in &phases {
        let kernel =
            attention::Kernel::new(&phase.params, problem.launch.kind, problem.launch.elem, &problem.q);
        for z in 0..phase.grid[2] {
            for y in 0..phase.grid[1] {
                for x in 0..phase.grid[0] {
                    kernel.workgroup([x, y, z], &mut memory, &mut partials)?;
                }
            }
        }
    }
    if let Some(phase) = phases.first() {
        for q_row in 0..problem.q_rows() {
            merge::merge(&phase.params, q_row, &memory, &partials, &mut outputs)?;
        }
    }
    let probe = probe.then(|| memory.into_log());
    Ok(RunResult { outputs: Outputs::new(problem, outputs), probe })
}
