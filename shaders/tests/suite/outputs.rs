//! Guards and unwritten elements: what a kernel that writes nothing, or beside its outputs, looks like.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::pack::Poison;
use attnproof_oracle::{Finding, Model, OutType};
use attnproof_shaders::abi::{GUARD_WORDS, UNWRITTEN};
use attnproof_shaders::cpu;
use attnproof_shaders::device;
use attnproof_shaders::dispatch::{Gpu, Run};
use attnproof_shaders::results::Outputs;

use crate::batch::{Batch, Plan};

#[test]
fn the_fill_is_what_the_oracle_takes_for_unwritten() {
    assert_eq!(UNWRITTEN, OutType::F32.poison());
    assert!(f32::from_bits(UNWRITTEN).is_nan());
}

#[test]
fn a_device_that_runs_nothing_leaves_every_word_untouched() {
    let adapter = device::noop().expect("wgpu has its noop backend");
    let mut gpu = Gpu::new(adapter.open().expect("it opens"));
    for kind in LayoutKind::ALL {
        let batch = Batch::new(&Plan::plain(kind));
        let pools = batch.pools(Poison::A);
        let runs = [false, true].map(|probe| Run { pools: &pools, probe });
        let results = gpu.run(&batch.problem, &runs).expect("it takes the work");
        for result in &results {
            assert_eq!(
                result.outputs,
                Outputs::new(&batch.problem, Outputs::unwritten(&batch.problem)),
                "{kind}"
            );
            let findings = batch.judge(&result.outputs, &Model::wgsl_letter()).map(|verdict| verdict.finding);
            assert_eq!(findings, [Finding::Unwritten; 2], "{kind}");
        }
        assert!(results[0].probe.is_none());
        assert_eq!(results[1].probe.as_ref().map(|log| log.loads), Some([0; 4]), "{kind}");
    }
}

#[test]
fn every_word_is_an_output_or_a_guard() {
    let problem = Batch::new(&Plan::plain(LayoutKind::ClassicPaged)).problem;
    // 3 query tokens, 4 heads, 16 dims
    let (o, lse, guard) = (3 * 4 * 16, 3 * 4, GUARD_WORDS as usize);
    let words: Vec<u32> = (0..problem.output_words()).collect();
    let range = |from: usize, len: usize| words[from..from + len].to_vec();
    let outputs = Outputs::new(&problem, words.clone());
    assert_eq!(words.len(), o + lse + 3 * guard);
    assert_eq!(outputs.o(), range(guard, o));
    assert_eq!(outputs.lse(), range(2 * guard + o, lse));
    let guards = [range(0, guard), range(guard + o, guard), range(2 * guard + o + lse, guard)];
    assert_eq!(outputs.guards(), guards.concat());
}

#[test]
fn one_changed_word_is_found() {
    let batch = Batch::new(&Plan::plain(LayoutKind::PackedBlockTable));
    let problem = &batch.problem;
    let pools = batch.pools(Poison::A);
    let run = cpu::run(problem, &[Run { pools: &pools, probe: false }]).expect("the twin runs").remove(0);
    assert!(batch.passes(&run.outputs, &Model::strict()));
    let mut words = Outputs::unwritten(problem);
    words[problem.o_range()].copy_from_slice(run.outputs.o());
    words[problem.lse_range()].copy_from_slice(run.outputs.lse());
    assert_eq!(Outputs::new(problem, words.clone()), run.outputs);

    let findings = |at: usize, word: u32| {
        let mut words = words.clone();
        words[at] = word;
        batch.judge(&Outputs::new(problem, words), &Model::strict()).map(|verdict| verdict.finding)
    };
    let (o, lse) = (problem.o_range(), problem.lse_range());
    for guard in [0, o.start - 1, o.end, lse.start - 1, lse.end, words.len() - 1] {
        assert_eq!(findings(guard, 0), [Finding::OutOfBounds; 2], "word {guard}");
    }
    for (place, first) in [(o.start, 0), (o.end - 1, 0), (lse.start, 1), (lse.end - 1, 1)] {
        for (word, finding) in [
            (UNWRITTEN, Finding::Unwritten),
            (f32::NAN.to_bits(), Finding::Nonfinite),
            (0x4640_E400, Finding::Wrong),
        ] {
            assert_eq!(findings(place, word)[first], finding, "word {place}");
            assert_eq!(findings(place, word)[1 - first], Finding::Pass, "word {place}");
        }
    }
}
