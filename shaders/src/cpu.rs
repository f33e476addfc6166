//! The CPU twin: the WGSL kernels in Rust, function by function, over the same bytes and tables.
//!
//! Lanes run one after another, so barriers vanish; everything else keeps its name, its order and its f32 arithmetic.
//! `exp`, `log` and `tanh` come from the `libm` crate, which gives the same bits on every machine. Each decision is a
//! field of [`rules::Rules`], which a fault may replace.

mod addr;
mod attention;
mod memory;
mod merge;
pub mod rules;

use attnproof_layouts::pack::Pools;

use crate::abi::{Params, Problem, UNWRITTEN};
use crate::dispatch::{Run, RunError, RunResult};
use crate::fault::KernelFault;
use crate::results::Outputs;
use memory::Memory;
use rules::Rules;

/// Runs `problem` on the CPU once per entry of `runs`.
///
/// # Errors
/// [`RunError::OutOfBounds`] when the kernel reads outside a binding, which a GPU would clamp silently.
pub fn run(problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
    run_with(problem, runs, &Rules::default())
}

/// As [`run`], with the rules that `fault` breaks.
///
/// # Errors
/// As [`run`]; a wrong kernel may well read outside a binding.
pub fn run_faulty(
    problem: &Problem,
    runs: &[Run<'_>],
    fault: &KernelFault,
) -> Result<Vec<RunResult>, RunError> {
    let mut rules = Rules::default();
    (fault.twin)(&mut rules);
    run_with(problem, runs, &rules)
}

fn run_with(problem: &Problem, runs: &[Run<'_>], rules: &Rules) -> Result<Vec<RunResult>, RunError> {
    problem.check_size()?;
    (0..).zip(runs).map(|(index, run)| run_once(problem, run, index, rules)).collect()
}

fn run_once(problem: &Problem, run: &Run<'_>, index: u32, rules: &Rules) -> Result<RunResult, RunError> {
    let pools: &Pools = run.pools;
    let side = problem.side(pools);
    let mut memory = Memory::new(problem, pools, &side);
    let mut partials = vec![UNWRITTEN; problem.partial_words() as usize];
    let mut outputs = Outputs::unwritten(problem);
    let phases = problem.phases();
    let params = |right: &Params| {
        let mut params = Params { run: index, ..*right };
        (rules.params)(&mut params);
        params
    };
    for phase in &phases {
        let params = params(&phase.params);
        let kernel = attention::Kernel::new(&params, rules, &problem.launch, &problem.q);
        for z in 0..phase.grid[2] {
            for y in 0..phase.grid[1] {
                for x in 0..phase.grid[0] {
                    kernel.workgroup([x, y, z], &mut memory, &mut partials)?;
                }
            }
        }
    }
    if let Some(phase) = phases.first() {
        let params = params(&phase.params);
        let merge = merge::Merge { p: &params, rules, memory: &memory, partials: &partials };
        for q_row in 0..problem.q_rows() {
            merge.query_row(q_row, &mut outputs)?;
        }
        if let Some(word) = (rules.stray)(&params) {
            outputs[word as usize] = 0;
        }
    }
    let probe = run.probe.then(|| memory.into_log());
    Ok(RunResult { outputs: Outputs::new(problem, outputs), probe })
}
