//! Every check of the runner reports its fault: a kernel that is right in all but one thing gets that thing's status.

use std::collections::BTreeSet;

use attnproof::exit::Exit;
use attnproof::kernel::{Kernel, Kernels, Twin};
use attnproof::runner::all::{AllRun, run_all};
use attnproof::runner::{Options, prepare::prepare, run_case};
use attnproof::select::Selection;
use attnproof_cases::case::Case;
use attnproof_cases::catalogue;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::Poison;
use attnproof_oracle::Model;
use attnproof_report::model::{Adapter, Row, Status};
use attnproof_shaders::abi::{Problem, UNWRITTEN};
use attnproof_shaders::dispatch::{Run, RunError, RunResult};
use attnproof_shaders::results::Outputs;

const OPTIONS: Options = Options { seed: 7, careful: true };

/// What is wrong with a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    WrongElement,
    WrongLse,
    NotANumber,
    InfiniteLse,
    UnwrittenElement,
    GuardOverwritten,
    SecondRunDiffers,
    PoisonShows,
    ProbeOutputWrong,
    OneLoadTooMany,
    Refuses,
    LosesItsDevice,
    NeverAnswers,
    NeedsTooMuch,
    ReadsOutOfBounds,
    Panics,
}

/// The CPU twin, and a fault of its own.
struct Faulty {
    twin: Twin,
    fault: Fault,
}

impl Faulty {
    fn boxed(fault: Fault) -> Box<dyn Kernel> {
        Box::new(Self { twin: Twin::new(), fault })
    }

    /// The run (of those the runner makes: twice the same, each poison, the probe) that the fault shows in.
    fn spoil(&self, problem: &Problem, results: &mut [RunResult]) {
        let last = results.len() - 1;
        let (o, lse) = (problem.o_range().start, problem.lse_range().start);
        let raise = |bits: &mut u32| *bits = (f32::from_bits(*bits) + 1.0).to_bits();
        let next = |bits: &mut u32| *bits += 1;
        let nan = |bits: &mut u32| *bits = f32::NAN.to_bits();
        let infinite = |bits: &mut u32| *bits = f32::NEG_INFINITY.to_bits();
        let unwritten = |bits: &mut u32| *bits = UNWRITTEN;
        match self.fault {
            Fault::WrongElement => edit_all(problem, results, o + 5, raise),
            Fault::WrongLse => edit_all(problem, results, lse, raise),
            Fault::NotANumber => edit_all(problem, results, o + 3, nan),
            Fault::InfiniteLse => edit_all(problem, results, lse, infinite),
            Fault::UnwrittenElement => edit_all(problem, results, lse, unwritten),
            Fault::GuardOverwritten => edit_all(problem, results, o - 1, next),
            Fault::SecondRunDiffers => edit(problem, &mut results[1], o, next),
            Fault::PoisonShows => edit(problem, &mut results[2], o, next),
            Fault::ProbeOutputWrong => edit(problem, &mut results[last], o, raise),
            Fault::OneLoadTooMany => {
                if let Some(log) = &mut results[last].probe {
                    log.loads[0] += 1;
                }
            }
            _ => {}
        }
    }
}

/// Changes one word of the output buffer in every run.
fn edit_all(problem: &Problem, results: &mut [RunResult], at: usize, change: impl Fn(&mut u32)) {
    for result in results {
        edit(problem, result, at, &change);
    }
}

/// Changes one word of the output buffer.
fn edit(problem: &Problem, result: &mut RunResult, at: usize, change: impl Fn(&mut u32)) {
    let mut words = Outputs::unwritten(problem);
    words[problem.o_range()].copy_from_slice(result.outputs.o());
    words[problem.lse_range()].copy_from_slice(result.outputs.lse());
    change(&mut words[at]);
    result.outputs = Outputs::new(problem, words);
}

impl Kernel for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn adapter(&self) -> &Adapter {
        self.twin.adapter()
    }

    fn model(&self) -> Model {
        self.twin.model()
    }

    fn poisons(&self) -> &'static [Poison] {
        self.twin.poisons()
    }

    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        match self.fault {
            Fault::Refuses => return Err(RunError::Validation("no such binding".to_owned())),
            Fault::LosesItsDevice => return Err(RunError::Lost("gone".to_owned())),
            Fault::NeverAnswers => return Err(RunError::Timeout),
            Fault::NeedsTooMuch => {
                return Err(RunError::Limit { what: "storage buffers", need: 9, allowed: 8 });
            }
            Fault::ReadsOutOfBounds => return Err(RunError::OutOfBounds { binding: "k", word: 9, words: 8 }),
            Fault::Panics => panic!("a kernel that panics, on purpose"),
            _ => {}
        }
        let mut results = self.twin.run(problem, runs)?;
        self.spoil(problem, &mut results);
        Ok(results)
    }
}

fn case(name: &str) -> Case {
    catalogue::thirty().into_iter().find(|c| c.name == name).expect("a case of the catalogue")
}

fn judged(fault: Fault) -> Row {
    let case = case("exactly-full-final-block");
    let prepared = prepare(&case, OPTIONS.seed, &[Model::strict()]).expect("the case can be judged");
    let mut kernels: Kernels = vec![Faulty::boxed(fault)];
    let mut rows = run_case(&prepared, LayoutKind::PackedBlockTable, &mut kernels, OPTIONS).rows;
    rows.pop().expect("one row a kernel")
}

#[test]
fn each_fault_gets_its_own_status() {
    for (fault, status) in [
        (Fault::Nothing, Status::Pass),
        (Fault::WrongElement, Status::Wrong),
        (Fault::WrongLse, Status::Wrong),
        (Fault::NotANumber, Status::Nonfinite),
        (Fault::InfiniteLse, Status::Nonfinite),
        (Fault::UnwrittenElement, Status::Unwritten),
        (Fault::GuardOverwritten, Status::OutOfBounds),
        (Fault::SecondRunDiffers, Status::Nondeterministic),
        (Fault::PoisonShows, Status::Wrong),
        (Fault::ProbeOutputWrong, Status::Wrong),
        (Fault::OneLoadTooMany, Status::TrafficMismatch),
        (Fault::Refuses, Status::Error),
        (Fault::LosesItsDevice, Status::Error),
        (Fault::NeverAnswers, Status::Timeout),
        (Fault::NeedsTooMuch, Status::Unsupported),
        (Fault::ReadsOutOfBounds, Status::OutOfBounds),
    ] {
        let row = judged(fault);
        assert_eq!(row.status, status, "{fault:?}: {row:?}");
        assert_eq!(row.detail.is_some(), status != Status::Pass, "{fault:?}: {row:?}");
        let strict = Exit::of_rows(std::slice::from_ref(&row), true);
        assert_eq!(strict == Exit::Pass, status == Status::Pass, "{fault:?}");
    }
    assert!(judged(Fault::PoisonShows).detail.is_some_and(|d| d.contains("slots never written")));
    assert!(judged(Fault::OneLoadTooMany).reads.is_some_and(|r| !r.predicted_equal && r.predicted.is_some()));
    let wrong = judged(Fault::WrongElement);
    assert!(wrong.budget_used.is_some_and(|used| used > 1.0), "{wrong:?}");
    assert!(wrong.worst.is_some_and(|w| w.tensor == "o" && w.row == "A" && w.index == [0, 0, 5]));
}

fn all(fault: Fault, workers: usize) -> AllRun {
    let cases = ["mqa-16x1", "head-dim-80", "gqa-6x2-group-of-3", "one-token-four-splits"].map(case);
    let cases = cases.into_iter().map(|c| (c, vec![LayoutKind::ClassicPaged])).collect();
    let kernels = (0..workers).map(|_| vec![Faulty::boxed(fault)]).collect();
    run_all(&Selection { cases, trace: None }, vec![kernels], OPTIONS, &|_| {})
}

#[test]
fn three_lost_devices_in_a_row_end_the_run() {
    let ran = all(Fault::LosesItsDevice, 1);
    let statuses: Vec<_> = ran.rows.iter().map(|r| r.status).collect();
    assert_eq!(statuses, [Status::Error, Status::Error, Status::Error, Status::NotRun]);
    assert!(ran.ended.is_some_and(|reason| reason.contains("lost 3 times")));
    assert!(all(Fault::Refuses, 1).ended.is_none(), "an error of each case is not the end of the run");
}

#[test]
fn a_panic_is_the_status_of_its_case() {
    let ran = all(Fault::Panics, 2);
    assert_eq!(ran.rows.len(), 4);
    assert!(ran.rows.iter().all(|r| r.status == Status::Crash), "{:?}", ran.rows);
    assert_eq!(Exit::of_rows(&ran.rows, false), Exit::Wrong);
}

#[test]
fn exit_codes_follow_the_rows() {
    let of = |statuses: &[Status], strict| {
        let rows: Vec<_> = statuses.iter().map(|&status| Row { status, ..judged(Fault::Nothing) }).collect();
        Exit::of_rows(&rows, strict).code()
    };
    assert_eq!(of(&[], false), 4);
    assert_eq!(of(&[Status::Unsupported], false), 4);
    assert_eq!(of(&[Status::Pass, Status::Unsupported], false), 0);
    assert_eq!(of(&[Status::Pass, Status::Unsupported], true), 1);
    assert_eq!(of(&[Status::Pass, Status::NotRun], false), 5);
    assert_eq!(of(&[Status::Wrong, Status::NotRun], false), 1);
    let failing: BTreeSet<u8> = [
        Status::Wrong,
        Status::Nonfinite,
        Status::Unwritten,
        Status::OutOfBounds,
        Status::BadShape,
        Status::BadDtype,
        Status::Nondeterministic,
        Status::TrafficMismatch,
        Status::Invariant,
        Status::Crash,
        Status::Timeout,
        Status::Error,
        Status::UnexpectedPass,
    ]
    .map(|status| of(&[Status::Pass, status], false))
    .into();
    assert_eq!(failing, BTreeSet::from([1]));
}
