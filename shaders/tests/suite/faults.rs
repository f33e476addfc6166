//! Wrong kernels: each changes what the twin computes or loads somewhere, only where it says it can, and its WGSL does
//! what its twin does.

use std::f64;

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::Split;
use attnproof_layouts::pack::{Poison, Pools};
use attnproof_oracle::{Alibi, BiasOrder, Causal, Elem, Granularity, Profile, Scale, Shape, Window};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::cpu;
use attnproof_shaders::dispatch::{Run, RunResult};
use attnproof_shaders::fault::{KernelFault, Kind, library};

use crate::batch::{Batch, Plan, RowPlan};
use crate::machine::gpu;

fn row(prompt: u32, q_len: u32) -> RowPlan {
    RowPlan { prompt, appended: 1, q_len, fork: false }
}

/// A fork, an empty row, and a row of one key more than a tile.
fn rows() -> Vec<RowPlan> {
    let fork = RowPlan { prompt: 0, appended: 4, q_len: 3, fork: true };
    let empty = RowPlan { prompt: 0, appended: 0, q_len: 1, fork: false };
    vec![row(140, 1), fork, empty, row(64, 2), row(35, 1)]
}

/// Windows, bias, sinks, scales, splits and padding.
fn busy(kind: LayoutKind) -> Plan {
    let window = Window { left: Some(37), right: Some(0) };
    let profile = Profile {
        window,
        alibi: Alibi::Formula,
        sinks: Some((0..6_u8).map(|h| 0.5 * f32::from(h) - 1.0).collect()),
        scale: Scale::Explicit(0.3),
        ..Profile::default()
    };
    Plan {
        elem: Elem::F16,
        shape: Shape { q_heads: 6, kv_heads: 2, d: 80, dv: 96 },
        slot_pad: 16,
        k_scale: Granularity::Token,
        v_scale: Granularity::Block,
        profile,
        split: Split::Count(3),
        rows: rows(),
        ..Plan::plain(kind)
    }
}

/// Loud scores under a cap, with a bias, positions from the start, and a large group.
fn capped(kind: LayoutKind) -> Plan {
    let profile = Profile {
        causal: Causal::TopLeft,
        scale: Scale::Explicit(20.0),
        softcap: Some(0.5),
        alibi: Alibi::Slopes((0..20_u8).map(|h| 0.02 * f32::from(h + 1)).collect()),
        sinks: Some((0..20_u8).map(|h| 0.3 * f32::from(h) - 3.0).collect()),
        ..Profile::default()
    };
    let shape = Shape { q_heads: 20, kv_heads: 2, d: 16, dv: 36 };
    Plan { shape, profile, block_size: 4, rows: vec![row(50, 70), row(20, 25)], ..Plan::plain(kind) }
}

/// No causal limit, scales of KV heads.
fn open(kind: LayoutKind) -> Plan {
    let profile = Profile {
        causal: Causal::None,
        window: Window { left: Some(60), right: Some(9) },
        bias_order: BiasOrder::AlibiThenCap,
        scale: Scale::Explicit(0.1),
        ..Profile::default()
    };
    Plan {
        elem: Elem::Int8,
        shape: Shape { q_heads: 3, kv_heads: 3, d: 144, dv: 16 },
        k_scale: Granularity::Head,
        v_scale: Granularity::Tensor,
        profile,
        split: Split::Tokens(48),
        rows: rows(),
        ..Plan::plain(kind)
    }
}

/// Nothing but the causal mask.
fn bare(kind: LayoutKind) -> Plan {
    Plan { rows: rows(), ..Plan::plain(kind) }
}

fn plans() -> Vec<Plan> {
    let mut plans: Vec<Plan> =
        LayoutKind::ALL.map(|kind| [bare(kind), busy(kind), capped(kind), open(kind)]).concat();
    let packed = LayoutKind::PackedBlockTable;
    for elem in Elem::ALL {
        plans.push(Plan { elem, rows: vec![row(40, 1)], ..Plan::plain(packed) });
    }
    for elem in [Elem::E4m3fn, Elem::E5m2] {
        plans.push(Plan { elem, gain: 1e5, rows: vec![row(9, 1)], ..Plan::plain(packed) });
    }
    plans.push(Plan { elem: Elem::F16, gain: 1e-4, rows: vec![row(9, 1)], ..Plan::plain(packed) });
    let loud = Profile { scale: Scale::Explicit(30.0), ..Profile::default() };
    plans.push(Plan { profile: loud, rows: rows(), ..Plan::plain(packed) });
    plans.push(Plan { first_block: 4096, rows: vec![row(9, 1)], ..Plan::plain(packed) });
    plans
}

struct Asked {
    batch: Batch,
    images: Vec<Pools>,
    right: Vec<RunResult>,
}

impl Asked {
    fn new(plan: &Plan) -> Self {
        let batch = Batch::new(plan);
        let images = [Poison::A, Poison::NanV].map(|poison| batch.pools(poison)).to_vec();
        let right = cpu::run(&batch.problem, &runs(&images)).expect("the right twin runs");
        Self { batch, images, right }
    }

    fn problem(&self) -> &Problem {
        &self.batch.problem
    }

    /// What the fault changes in the twin: outputs (or the status), loads.
    fn changes(&self, fault: &KernelFault) -> (bool, bool) {
        let Ok(wrong) = cpu::run_faulty(self.problem(), &runs(&self.images), fault) else {
            return (true, false);
        };
        let pairs = || wrong.iter().zip(&self.right);
        (pairs().any(|(a, b)| a.outputs != b.outputs), pairs().any(|(a, b)| a.probe != b.probe))
    }
}

fn runs(images: &[Pools]) -> Vec<Run<'_>> {
    images.iter().map(|pools| Run { pools, probe: true }).collect()
}

#[test]
fn every_fault_shows_somewhere_and_only_where_it_can() {
    let asked: Vec<Asked> = plans().iter().map(Asked::new).collect();
    let (mut silent, mut beyond) = (Vec::new(), Vec::new());
    for fault in library() {
        let (mut outputs, mut loads) = (false, false);
        for one in &asked {
            if (fault.reach)(one.problem()) && outputs && fault.kind != Kind::Traffic {
                continue;
            }
            let changed = one.changes(&fault);
            let launch = &one.problem().launch;
            if !(fault.reach)(one.problem()) && changed != (false, false) {
                beyond.push(format!("{}: {}, {}", fault.id, launch.kind, launch.elem.name()));
            }
            outputs |= changed.0;
            loads |= changed.1;
        }
        let traffic = fault.kind == Kind::Traffic;
        let same = traffic || fault.equivalent.is_some();
        if outputs == same || (traffic && !loads) {
            silent.push(fault.id);
        }
    }
    assert!(silent.is_empty() && beyond.is_empty(), "silent: {silent:?}; beyond their reach: {beyond:?}");
}

/// The largest difference of two outputs, relative to the largest value of `right` in their tensor; a difference of
/// class counts as infinite.
fn apart(got: &RunResult, right: &RunResult) -> f64 {
    let (a, b) = (&got.outputs, &right.outputs);
    let mut most: f64 = if a.guards() == b.guards() { 0.0 } else { f64::INFINITY };
    for (a, b) in [(a.o(), b.o()), (a.lse(), b.lse())] {
        let value = |bits: &u32| f64::from(f32::from_bits(*bits));
        let largest =
            b.iter().map(value).filter(|x| x.is_finite()).fold(1e-30, |most: f64, x| most.max(x.abs()));
        for (a, b) in a.iter().zip(b) {
            let (x, y) = (value(a), value(b));
            let same = a == b || x == y || (x.is_nan() && y.is_nan());
            let distance = if same { 0.0 } else { (x - y).abs() / largest };
            most = if distance.is_nan() { f64::INFINITY } else { most.max(distance) };
        }
    }
    most
}

/// Some faults of different kinds, each on a plan where it shows.
fn on_device() -> Vec<(&'static str, Plan)> {
    let classic = LayoutKind::ClassicPaged;
    let hybrid = LayoutKind::HybridPrefixShared;
    vec![
        ("window-plus-one", busy(classic)),
        ("causal-plus-one", bare(classic)),
        ("head-mod", bare(classic)),
        ("alibi-sign", busy(hybrid)),
        ("scale-log2e", busy(hybrid)),
        ("softcap-x-tanh", capped(classic)),
        ("sink-not-in-lse", busy(hybrid)),
        ("kvscale-of-first-token", busy(classic)),
        ("drop-last-block", bare(hybrid)),
        ("merge-drops-last", busy(hybrid)),
        ("no-rescale", bare(hybrid)),
        ("empty-rows-skipped", bare(classic)),
        ("second-run-differs", bare(hybrid)),
        ("k-loaded-twice", bare(classic)),
    ]
}

#[test]
fn the_wgsl_of_a_fault_does_what_its_twin_does() {
    let mut gpu = gpu();
    for (id, plan) in on_device() {
        let fault = library().into_iter().find(|fault| fault.id == id).expect("the fault is in the library");
        let one = Asked::new(&plan);
        // finite poison, twice
        let images = [one.images[0].clone(), one.images[0].clone()];
        let runs = runs(&images);
        let twin = cpu::run_faulty(one.problem(), &runs, &fault).expect("the twin runs");
        let device = gpu.run_faulty(one.problem(), &runs, &fault).expect("the device runs");
        let right = cpu::run(one.problem(), &runs).expect("the right twin runs");
        let worst =
            |other: &[RunResult]| device.iter().zip(other).map(|(a, b)| apart(a, b)).fold(0.0, f64::max);
        assert!(worst(&twin) < 1e-4, "{id}: {} from its twin", worst(&twin));
        let traffic = fault.kind == Kind::Traffic;
        assert_eq!(worst(&right) < 1e-3, traffic, "{id}: {} from the right kernel", worst(&right));
        if traffic {
            assert_eq!(device[0].probe, twin[0].probe, "{id}");
        }
    }
}

#[test]
fn a_fault_of_the_twin_only_is_no_fault_of_the_device() {
    let one = Asked::new(&bare(LayoutKind::PackedBlockTable));
    let fault = KernelFault { wgsl: &[], ..library()[0] };
    let error =
        gpu().run_faulty(one.problem(), &runs(&one.images), &fault).expect_err("there is nothing to run");
    assert!(error.to_string().contains(fault.id), "{error}");
}

#[test]
fn right_pipelines_are_not_touched_by_faults() {
    let one = Asked::new(&bare(LayoutKind::PackedBlockTable));
    let images = &one.images[..1];
    let mut gpu = gpu();
    let before = gpu.run(one.problem(), &runs(images)).expect("the device runs");
    let pipelines = gpu.pipelines();
    for fault in library().iter().filter(|fault| ["scale-missing", "lse-base2"].contains(&fault.id)) {
        let wrong = gpu.run_faulty(one.problem(), &runs(images), fault).expect("the device runs");
        assert_ne!(wrong[0].outputs, before[0].outputs, "{}", fault.id);
        let after = gpu.run(one.problem(), &runs(images)).expect("the device runs");
        assert_eq!(after[0].outputs, before[0].outputs, "{}", fault.id);
    }
    assert_eq!(gpu.pipelines(), pipelines);
}
