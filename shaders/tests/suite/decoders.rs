//! Every code of every format decodes to its exact value, in K and in V.
//!
//! A row has one key, so its softmax weight is 1: o is the row of V, and the LSE of a query that is 1 in one dim and 0
//! in all others is that dim of K.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::{Launch, Split};
use attnproof_layouts::manager::{Manager, PoolConfig};
use attnproof_layouts::pack::{Poison, Pools, RowCodes, Store};
use attnproof_layouts::tables::RowQuery;
use attnproof_oracle::{Causal, Elem, Profile, Scale, Shape, Spec};
use attnproof_shaders::abi::Problem;
use attnproof_shaders::cpu;
use attnproof_shaders::dispatch::Run;
use attnproof_shaders::results::Outputs;

use crate::batch::{Plan, attention_of};
use crate::machine::gpu;

/// Dims of K and V, and query tokens of a row.
const DIMS: usize = 64;

/// The codes of finite values: all of them, or for f32 every exponent and sign with some mantissas.
fn finite_codes(elem: Elem) -> Vec<u32> {
    let all: Vec<u32> = if elem == Elem::F32 {
        let mantissas = [0, 1, 2, 0x2A_AAAA, 0x3F_FFFF, 0x40_0000, 0x55_5555, 0x7F_FFFE, 0x7F_FFFF];
        let upper = (0..512).map(|sign_and_exponent| sign_and_exponent << 23);
        upper.flat_map(|upper| mantissas.map(|mantissa| upper | mantissa)).collect()
    } else {
        (0..1 << (8 * elem.bytes())).collect()
    };
    all.into_iter().filter(|&code| elem.decode(code).is_finite()).collect()
}

/// Every code once in K and once in V.
struct Codes {
    problem: Problem,
    pools: Pools,
    /// Codes of K and of V, one per query token and dim of V.
    k: Vec<u32>,
    v: Vec<u32>,
}

fn codes(kind: LayoutKind, elem: Elem) -> Codes {
    let mut k = finite_codes(elem);
    k.resize(k.len().next_multiple_of(DIMS), 0);
    let v: Vec<u32> = k.iter().rev().copied().collect();
    let rows = k.len() / DIMS;

    let shape = Shape { q_heads: 1, kv_heads: 1, d: DIMS, dv: DIMS };
    let profile = Profile { scale: Scale::Explicit(1.0), causal: Causal::None, ..Profile::default() };
    let plan = Plan { elem, shape, block_size: 4, ..Plan::plain(kind) };
    let spec = Spec::new(shape, profile).expect("in range");
    let blocks = rows as u32;
    let config =
        PoolConfig { blocks, block_size: 4, first_block: 0, window: None, release: false, extent_tokens: 4 };
    let mut manager = Manager::new(kind, config).expect("in range");
    let mut store = Store::new(plan.geometry(blocks), (&[], &[])).expect("in range");
    let names: Vec<String> = (0..rows).map(|row| row.to_string()).collect();
    for (row, name) in names.iter().enumerate() {
        let placed = manager.prefill(name, &[row as u64], 0).expect("a block per row");
        let dims = row * DIMS..(row + 1) * DIMS;
        let codes = RowCodes { k: &k[dims.clone()], v: &v[dims], k_scale: &[], v_scale: &[] };
        store.write(placed.writes[0].slot, &codes);
    }
    let asked: Vec<_> = names.iter().map(|name| RowQuery { name, q_len: DIMS as u32 }).collect();
    let launch =
        Launch::build(&manager, &store, 1, &asked, attention_of(&spec), Split::Own).expect("lowered");
    let mut q = vec![0.0; k.len() * DIMS];
    for (token, q) in q.chunks_exact_mut(DIMS).enumerate() {
        q[token % DIMS] = 1.0;
    }
    let pools = store.pools(Poison::A);
    Codes { problem: Problem::new(launch, &q, &pools, &[], &[]), pools, k, v }
}

impl Codes {
    /// `flushes`: the kernel may read subnormal f32 as zero, as WGSL allows.
    fn check(&self, outputs: &Outputs, flushes: bool) {
        let elem = self.problem.launch.elem;
        let same = |tensor: &str, code: u32, bits: u32| {
            let (got, want) = (f64::from(f32::from_bits(bits)), elem.decode(code));
            let flushed = flushes && want.abs() < f64::from(f32::MIN_POSITIVE) && got == 0.0;
            let place = || format!("{}/{}: {tensor}", self.problem.launch.kind.name(), elem.name());
            assert!(got == want || flushed, "{}: {code:#x} decodes to {got}, not {want}", place());
        };
        for (&code, &lse) in self.k.iter().zip(outputs.lse()) {
            same("k", code, lse);
        }
        for (row, v) in outputs.o().chunks_exact(DIMS * DIMS).zip(self.v.chunks_exact(DIMS)) {
            for o in row.chunks_exact(DIMS) {
                v.iter().zip(o).for_each(|(&code, &bits)| same("v", code, bits));
            }
        }
    }
}

fn decodes_exactly(kind: LayoutKind) {
    for elem in Elem::ALL {
        let codes = codes(kind, elem);
        let runs = [Run { pools: &codes.pools, probe: true }];
        let twin = cpu::run(&codes.problem, &runs).expect("the twin runs");
        codes.check(&twin[0].outputs, false);
        let on_gpu = gpu().run(&codes.problem, &runs).expect("the device runs");
        codes.check(&on_gpu[0].outputs, true);
    }
}

#[test]
fn every_code_decodes_exactly_in_slot_major_order() {
    decodes_exactly(LayoutKind::PackedBlockTable);
}

#[test]
fn every_code_decodes_exactly_in_classic_order() {
    decodes_exactly(LayoutKind::ClassicPaged);
}

#[test]
fn all_codes_are_asked_for() {
    let count = |elem| finite_codes(elem).len();
    assert_eq!([Elem::E4m3fn, Elem::E5m2, Elem::E4m3fnuz, Elem::E5m2fnuz].map(count), [254, 248, 255, 255]);
    assert_eq!([Elem::Int8, Elem::F16, Elem::Bf16].map(count), [256, 2 * 31 * 1024, 2 * 255 * 128]);
    assert_eq!(count(Elem::F32), 2 * 255 * 9);
}
