//! Rust and WGSL agree on every number they both spell out: the uniforms, the flags, the sizes.

use std::collections::BTreeMap;

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::Launch;
use attnproof_oracle::{Alibi, BiasOrder, Causal, Elem, Profile};
use attnproof_shaders::abi::{Params, Problem, STORAGE_BINDINGS};
use attnproof_shaders::compose::{Shader, compose};
use attnproof_shaders::dispatch::WORKGROUP_BYTES;
use naga::{Literal, Module, Scalar, ScalarKind, TypeInner};

use crate::batch::{Batch, Plan};

const SHADER: Shader = Shader::Attention { layout: LayoutKind::ClassicPaged, elem: Elem::F32, probe: true };

fn parsed(shader: Shader) -> Module {
    naga::front::wgsl::parse_str(&compose(shader).source).expect("valid WGSL")
}

/// Constants of type u32 by name.
fn constants(module: &Module) -> BTreeMap<&str, u32> {
    let value = |(_, constant): (_, &'_ naga::Constant)| match module.global_expressions[constant.init] {
        naga::Expression::Literal(Literal::U32(value)) => Some(value),
        _ => None,
    };
    let named = |at: (naga::Handle<naga::Constant>, &'_ naga::Constant)| at.1.name.is_some();
    let of_name = module.constants.iter().filter(|&at| named(at));
    of_name.filter_map(|at| Some((at.1.name.as_deref()?, value(at)?))).collect()
}

/// Name, byte offset and whether it is f32, of each field of the Rust struct. Every word of the value holds its own
/// index, so that what a field prints is where it lies.
fn fields() -> Vec<(String, u32, bool)> {
    let words: Vec<u32> = (0..size_of::<Params>() as u32 / 4).collect();
    let params: Params = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&words));
    let mut fields = Vec::new();
    let mut array: Option<(&str, u32)> = None;
    let text = format!("{params:#?}");
    for line in text.lines().map(str::trim) {
        let (name, value) = match (line.split_once(": "), array) {
            (Some((name, "[")), _) => {
                array = Some((name, 0));
                continue;
            }
            (Some((name, value)), _) => (name.to_owned(), value),
            (None, Some((name, index))) if line != "]," && line != "}" => {
                array = Some((name, index + 1));
                (format!("{name}_{index}"), line)
            }
            _ => continue,
        };
        let value = value.trim_end_matches(',');
        let whole = value.parse::<u32>();
        // 0.0 and the subnormals
        let is_f32 = whole.is_err();
        let word = whole.unwrap_or_else(|_| value.parse::<f32>().expect("a number").to_bits());
        fields.push((name, 4 * word, is_f32));
    }
    fields
}

#[test]
fn the_uniforms_are_the_same_struct_in_rust_and_wgsl() {
    let module = parsed(SHADER);
    let (_, ty) = module.types.iter().find(|(_, ty)| ty.name.as_deref() == Some("Params")).expect("a struct");
    let TypeInner::Struct { members, span } = &ty.inner else { panic!("Params is a struct") };
    let members: Vec<(String, u32, bool)> = members
        .iter()
        .map(|member| {
            let TypeInner::Scalar(Scalar { kind, width: 4 }) = module.types[member.ty].inner else {
                panic!("{:?} is a 4-byte scalar", member.name)
            };
            assert!(matches!(kind, ScalarKind::Uint | ScalarKind::Float), "{:?}", member.name);
            (member.name.clone().expect("a name"), member.offset, kind == ScalarKind::Float)
        })
        .collect();
    assert_eq!(fields(), members);
    assert_eq!(size_of::<Params>(), *span as usize);
    assert!(size_of::<Params>().is_multiple_of(16), "uniform structs are whole 16-byte rows");
    assert!(std::mem::offset_of!(Params, scale) == 64 && std::mem::offset_of!(Params, probe_side_at) == 176);
}

#[test]
fn flags_have_the_bits_that_the_shader_tests() {
    let module = parsed(SHADER);
    let constants = constants(&module);
    let flags = |profile: Profile| {
        let batch = Batch::new(&Plan { profile, ..Plan::plain(LayoutKind::ClassicPaged) });
        batch.problem.phases()[0].params.flags
    };
    let none = Profile { causal: Causal::None, ..Profile::default() };
    assert_eq!(flags(none.clone()), 0);
    let causal = constants["FLAG_CAUSAL"];
    for (profile, name, base) in [
        (Profile { causal: Causal::BottomRight, ..none.clone() }, "FLAG_CAUSAL", 0),
        (Profile { causal: Causal::TopLeft, ..none.clone() }, "FLAG_TOP_LEFT", causal),
        (Profile { alibi: Alibi::Formula, ..none.clone() }, "FLAG_ALIBI", 0),
        (Profile { bias_order: BiasOrder::AlibiThenCap, ..none.clone() }, "FLAG_ALIBI_THEN_CAP", 0),
        (Profile { sinks: Some(vec![0.0; 4]), ..none.clone() }, "FLAG_SINKS", 0),
    ] {
        assert_eq!(flags(profile), base | constants[name], "{name}");
    }
}

#[test]
fn no_shader_has_more_bindings_or_workgroup_memory_than_is_checked() {
    for shader in Shader::all() {
        let module = parsed(shader);
        let size = |ty| module.types[ty].inner.size(module.to_ctx());
        let of_space = |wanted: fn(naga::AddressSpace) -> bool| {
            module.global_variables.iter().filter(move |(_, global)| wanted(global.space))
        };
        let shared: u32 =
            of_space(|space| space == naga::AddressSpace::WorkGroup).map(|(_, g)| size(g.ty)).sum();
        assert!(shared <= WORKGROUP_BYTES, "{}: {shared} bytes", shader.label());
        let storage = of_space(|space| matches!(space, naga::AddressSpace::Storage { .. })).count();
        assert_eq!(storage, STORAGE_BINDINGS, "{}", shader.label());
    }
}

#[test]
fn the_schedule_fits_the_arrays_of_the_shader() {
    let module = parsed(SHADER);
    let constants = constants(&module);
    let array = |name: &str| {
        let (_, global) = module
            .global_variables
            .iter()
            .find(|(_, g)| g.name.as_deref() == Some(name))
            .expect("a variable");
        module.types[global.ty].inner.size(module.to_ctx()) / 4
    };
    let (pairs, tile) = (constants["MAX_PAIRS"], constants["TILE"]);
    for d in [16, 64, 80, 256] {
        let mut plan = Plan::plain(LayoutKind::PackedBlockTable);
        (plan.shape.d, plan.shape.dv) = (d, 16);
        let launch: Launch = Batch::new(&plan).problem.launch;
        let pair_tile = launch.schedule.pair_tile;
        assert!(pair_tile <= pairs);
        assert!(pair_tile * launch.d <= array("q_tile") && pair_tile * launch.dv <= array("acc"));
    }
    assert!(pairs * tile <= array("weight") && tile <= array("slot_of"));
}

#[test]
fn offsets_lie_inside_their_buffers() {
    for kind in LayoutKind::ALL {
        let problem: Problem = Batch::new(&Plan::plain(kind)).problem;
        let phases = problem.phases();
        assert_eq!(phases.len(), 1 + usize::from(problem.launch.tables.groups > 0), "{kind}");
        for (index, phase) in (0..).zip(&phases) {
            let p = &phase.params;
            assert_eq!(p.phase, index);
            assert_eq!(
                (p.o_at, p.lse_at),
                (problem.o_range().start as u32, problem.lse_range().start as u32)
            );
            let at =
                [4, p.probe_k_at, p.probe_v_at, p.probe_tables_at, p.probe_side_at, problem.probe_words()];
            assert!(at.is_sorted(), "{kind}: {at:?}");
            let tables = problem.launch.tables.words.len() as u32;
            assert!(p.rows_at < tables && p.entries_at < tables && p.merge_mask_at < tables, "{kind}");
        }
    }
}
