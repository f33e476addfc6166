//! Every element of every pool is where the order says, and poison is where nothing was written.

use attnproof_oracle::elem::{Elem, Saturate};
use attnproof_oracle::scale::Granularity;

use super::*;

fn geometry(kind: LayoutKind, elem: Elem) -> Geometry {
    Geometry {
        kind,
        elem,
        kv_heads: 2,
        d: 16,
        dv: 4,
        block_size: 4,
        blocks: 3,
        slot_pad: 4,
        k_scale: Granularity::None,
        v_scale: Granularity::None,
    }
}

/// Some code per (seed, head, dim) without high bits.
fn codes(seed: u32, dims: u32) -> Vec<u32> {
    (0..2 * dims).map(|i| (seed * 31 + i * 7) % 101).collect()
}

fn write(store: &mut Store, slot: u32, seed: u32) {
    let (k, v) = (codes(seed, 16), codes(seed + 1, 4));
    let scales = [seed as f32, seed as f32 + 0.5];
    store.write(slot, &RowCodes { k: &k, v: &v, k_scale: &scales, v_scale: &scales });
}

/// Elements of a pool, read byte by byte.
fn elements(words: &[u32], elem: Elem) -> Vec<u32> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let element = |b: &[u8]| b.iter().rev().fold(0, |code, &byte| code << 8 | u32::from(byte));
    bytes.chunks(elem.bytes()).map(element).collect()
}

/// Where (slot, head, dim) must lie behind the front guard, and how many elements there are.
fn expected_at(kind: LayoutKind, x: usize, dims: usize, [slot, head, dim]: [usize; 3]) -> usize {
    if kind != LayoutKind::ClassicPaged {
        return slot * (2 * dims + 4) + head * dims + dim;
    }
    let (block, token) = (slot / 4, slot % 4);
    // Row-major [block][head][dims / x][4][x].
    (((block * 2 + head) * (dims / x) + dim / x) * 4 + token) * x + dim % x
}

#[test]
fn every_element_has_its_place_and_the_rest_is_poison() {
    for kind in LayoutKind::ALL {
        for elem in Elem::ALL {
            for poison in Poison::ALL {
                let mut store = Store::new(geometry(kind, elem), (&[], &[])).unwrap();
                for slot in [0, 5, 7, 10] {
                    write(&mut store, slot, slot + 1);
                }
                let pools = store.pools(poison);
                let fill = poison.fill(elem);
                let chunk = 16 / elem.bytes();
                for (words, dims, x, seed, fill) in
                    [(&pools.k, 16, chunk, 1, fill.k), (&pools.v, 4, 1, 2, fill.v)]
                {
                    let guard = 64 * 4 / elem.bytes();
                    let pad = if kind == LayoutKind::ClassicPaged { 0 } else { 4 };
                    let mut want = vec![fill[1]; 12 * (2 * dims + pad) + 2 * guard];
                    for slot in 0..12 {
                        let written = [0, 5, 7, 10].contains(&slot);
                        let row = codes(slot as u32 + seed, dims as u32);
                        for (i, &code) in row.iter().enumerate() {
                            let at = guard + expected_at(kind, x, dims, [slot, i / dims, i % dims]);
                            want[at] = if written { code } else { fill[slot % 2] };
                        }
                    }
                    assert_eq!(elements(words, elem), want, "{kind} {} {poison:?}", elem.name());
                }
            }
        }
    }
}

#[test]
fn addressing_names_the_strides_of_both_orders() {
    let store = Store::new(geometry(LayoutKind::PackedBlockTable, Elem::F16), (&[], &[])).unwrap();
    let slot_major = Addressing {
        k_base: 128,
        v_base: 128,
        k_slot: 36,
        v_slot: 12,
        k_head: 16,
        v_head: 4,
        ..Addressing::default()
    };
    assert_eq!(store.addressing(), slot_major);
    let store = Store::new(geometry(LayoutKind::ClassicPaged, Elem::F16), (&[], &[])).unwrap();
    let classic = Addressing {
        k_base: 128,
        v_base: 128,
        k_head: 64,
        v_head: 16,
        k_block: 128,
        v_block: 32,
        ..Addressing::default()
    };
    assert_eq!(store.addressing(), classic);
}

#[test]
fn poison_is_loud_finite_or_nan_as_promised() {
    for elem in Elem::ALL {
        let p = poison_max(elem);
        let values = |codes: [u32; 2]| codes.map(|code| elem.decode(code));
        let a = Poison::A.fill(elem);
        assert_eq!((values(a.k), values(a.v)), ([0.0, p], [p, p]), "{}", elem.name());
        let b = Poison::B.fill(elem);
        assert_eq!((values(b.k), values(b.v)), ([-p, 0.0], [-p, -p]), "{}", elem.name());
        let (k, v) = (Poison::NanK.fill(elem), Poison::NanV.fill(elem));
        if elem == Elem::Int8 {
            assert_eq!((k, v), (a, a));
        } else {
            assert!(k.k.iter().chain(&v.v).all(|&code| elem.is_nan(code)));
            assert!(k.k_scale.is_nan() && v.v_scale.is_nan());
            assert_eq!((values(k.v), values(v.k)), ([p; 2], [p; 2]));
            assert_eq!((k.v_scale, v.k_scale), (1024.0, 1024.0));
        }
    }
    for elem in [Elem::F32, Elem::F16, Elem::Bf16, Elem::E5m2] {
        let infinite = Poison::Infinite.fill(elem);
        let values = |codes: [u32; 2]| codes.map(|code| elem.decode(code));
        let both = [f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!((values(infinite.k), values(infinite.v)), (both, [both[1], both[0]]), "{}", elem.name());
    }
    for elem in [Elem::E4m3fn, Elem::E4m3fnuz, Elem::E5m2fnuz, Elem::Int8] {
        assert_eq!(Poison::Infinite.fill(elem), Poison::A.fill(elem), "{}", elem.name());
    }
    assert_eq!(Elem::E4m3fn.encode(poison_max(Elem::E4m3fn), Saturate::Finite), 0x7E);
    assert_eq!(poison_max(Elem::Bf16), 8192.0);
    assert_eq!(poison_max(Elem::Int8), 127.0);
}

fn scaled(k_scale: Granularity, v_scale: Granularity) -> Store {
    let g = Geometry { k_scale, v_scale, ..geometry(LayoutKind::VirtualContiguous, Elem::E4m3fn) };
    let fixed = |granularity| match granularity {
        Granularity::Tensor => vec![0.25],
        Granularity::Head => vec![0.5, 2.0],
        _ => vec![],
    };
    Store::new(g, (&fixed(k_scale), &fixed(v_scale))).unwrap()
}

#[test]
fn scale_tables_have_one_row_per_owner() {
    let mut store = scaled(Granularity::Tensor, Granularity::Block);
    write(&mut store, 4, 3);
    write(&mut store, 5, 9);
    let pools = store.pools(Poison::B);
    assert_eq!(pools.k_scales, [0.25]);
    assert_eq!(pools.v_scales, [1024.0, 1024.0, 3.0, 3.5, 1024.0, 1024.0]);
    let row = store.read_row(5).unwrap();
    assert_eq!((row.k_scale, row.v_scale), (vec![0.25; 2], vec![3.0, 3.5]));
    assert_eq!((row.k, row.v), (codes(9, 16), codes(10, 4)));

    let mut store = scaled(Granularity::Head, Granularity::Token);
    write(&mut store, 1, 3);
    let pools = store.pools(Poison::A);
    assert_eq!(pools.k_scales, [0.5, 2.0]);
    let mut want = vec![1024.0; 24];
    want[2..4].copy_from_slice(&[3.0, 3.5]);
    assert_eq!(pools.v_scales, want);
    assert_eq!(store.read_row(0), None);
    assert_eq!(store.read_row(12), None);
}

#[test]
fn copies_take_codes_and_the_scales_that_go_with_them() {
    let mut store = scaled(Granularity::Block, Granularity::Token);
    for slot in 0..4 {
        write(&mut store, slot, slot + 1);
    }
    store.copy(&SlotCopy { from: 0, to: 8, count: 3 });
    for slot in 0..3 {
        assert_eq!(store.read_row(8 + slot), store.read_row(slot));
    }
    assert_eq!(store.read_row(11), None);
    // Not the first slot of the block: codes move, the block's scale does not.
    store.copy(&SlotCopy { from: 3, to: 7, count: 1 });
    let moved = store.read_row(7).unwrap();
    assert_eq!((moved.k, moved.v_scale), (codes(4, 16), vec![4.0, 4.5]));
    assert!(moved.k_scale.iter().all(|s| s.is_nan()));
    // An unwritten slot is copied as such.
    store.copy(&SlotCopy { from: 4, to: 8, count: 1 });
    assert_eq!(store.read_row(8), None);
}

#[test]
fn holds_sees_a_wrong_code_and_a_wrong_scale() {
    let mut store = scaled(Granularity::Block, Granularity::Head);
    write(&mut store, 4, 3);
    let (k, v) = (codes(3, 16), codes(4, 4));
    let row = RowCodes { k: &k, v: &v, k_scale: &[3.0, 3.5], v_scale: &[] };
    assert!(store.holds(4, &row));
    assert!(!store.holds(5, &row));
    assert!(!store.holds(4, &RowCodes { k_scale: &[3.0, 3.25], ..row }));
    let other = codes(5, 4);
    assert!(!store.holds(4, &RowCodes { v: &other, ..row }));
}

#[test]
fn impossible_geometries_are_refused() {
    let good = geometry(LayoutKind::ClassicPaged, Elem::E4m3fn);
    let field = |g: Geometry| match Store::new(g, (&[], &[])) {
        Err(PackError::Geometry { field, .. }) => field,
        other => panic!("{g:?}: {other:?}"),
    };
    assert_eq!(field(Geometry { kv_heads: 0, ..good }), "kv_heads");
    assert_eq!(field(Geometry { d: 24, ..good }), "d");
    assert_eq!(field(Geometry { dv: 6, ..good }), "dv");
    assert_eq!(field(Geometry { block_size: 2, ..good }), "block_size");
    assert_eq!(field(Geometry { block_size: 12, ..good }), "block_size");
    assert_eq!(field(Geometry { blocks: 1 << 30, ..good }), "blocks");
    assert_eq!(field(Geometry { kind: LayoutKind::PackedBlockTable, slot_pad: 2, ..good }), "slot_pad");
    let large = Store::new(Geometry { blocks: 1 << 28, ..good }, (&[], &[]));
    assert_eq!(large.err(), Some(PackError::TooLarge { tensor: "k" }));
    let fixed = Store::new(Geometry { v_scale: Granularity::Head, ..good }, (&[], &[1.0]));
    let want = PackError::StaticScales { tensor: "v", granularity: "head", want: 2, got: 1 };
    assert_eq!(fixed.err(), Some(want));
}

/// A harmless fault must still be there: the slot behind the copied ones changes, but not the next block.
#[test]
fn a_copy_that_is_too_long_stays_in_its_block() {
    let fault = crate::fault::library().iter().find(|fault| fault.id == "copy-one-slot-long").unwrap();
    let mut store = scaled(Granularity::Block, Granularity::Token).with_fault(fault);
    for slot in 0..5 {
        write(&mut store, slot, slot + 1);
    }
    store.copy(&SlotCopy { from: 0, to: 8, count: 2 });
    assert_eq!(store.read_row(10), store.read_row(2));
    assert_eq!(store.read_row(11), None);
    store.copy(&SlotCopy { from: 0, to: 4, count: 4 });
    assert_eq!(store.read_row(8), store.read_row(0));
}

#[test]
fn the_two_finite_poisons_differ_in_every_number() {
    // dequantised: codes under the scales of block and token granularity
    for elem in Elem::ALL {
        let (a, b) = (Poison::A.fill(elem), Poison::B.fill(elem));
        for parity in 0..2 {
            let number = |code: u32, scale: f32| elem.decode(code) * f64::from(scale);
            let v = [number(a.v[parity], a.v_scale), number(b.v[parity], b.v_scale)];
            assert!(v[0] != v[1], "V in {} slots: {v:?}", elem.name());
            let k = [number(a.k[parity], a.k_scale), number(b.k[parity], b.k_scale)];
            assert!(k[0] != k[1], "K in {} slots: {k:?}", elem.name());
        }
    }
}
