//! Pipelines are few, and each is compiled once.

use std::collections::BTreeSet;

use attnproof_cases::catalogue::thirty;
use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::Split;
use attnproof_layouts::pack::Poison;
use attnproof_oracle::{Alibi, Causal, Elem, Model, Profile, Shape, Window};
use attnproof_shaders::compose::{Shader, compose};
use attnproof_shaders::dispatch::Run;

use crate::batch::{Batch, Plan};
use crate::machine::gpu;

#[test]
fn problems_of_one_layout_and_format_share_one_pipeline() {
    let first = Plan::plain(LayoutKind::HybridPrefixShared);
    let profile = Profile {
        causal: Causal::TopLeft,
        window: Window { left: Some(9), right: None },
        alibi: Alibi::Formula,
        softcap: Some(3.0),
        sinks: Some(vec![0.5; 20]),
        ..Profile::default()
    };
    let shape = Shape { q_heads: 20, kv_heads: 1, d: 80, dv: 36 };
    let other = Plan { shape, profile, block_size: 4, split: Split::Count(3), ..first.clone() };
    let mut gpu = gpu();
    let mut run = |plan: &Plan| {
        let batch = Batch::new(plan);
        let pools = batch.pools(Poison::A);
        let results =
            gpu.run(&batch.problem, &[Run { pools: &pools, probe: true }]).expect("the device runs");
        assert!(batch.passes(&results[0].outputs, &Model::wgsl_letter()));
        gpu.pipelines()
    };
    let compiled = run(&first);
    assert_eq!([run(&other), run(&first)], [compiled; 2]);
    let another_format = Plan { elem: Elem::F16, ..other };
    let with_another = run(&another_format);
    assert!(with_another <= compiled + 1);
    assert_eq!(run(&Plan { elem: Elem::F16, ..first }), with_another);
}

#[test]
fn the_thirty_cases_need_few_pipelines() {
    let mut shaders = BTreeSet::from([Shader::Merge]);
    for case in thirty() {
        for layout in LayoutKind::ALL {
            shaders.extend([false, true].map(|probe| Shader::Attention { layout, elem: case.kv, probe }));
        }
    }
    assert!(shaders.len() > 10 && shaders.len() <= 24, "{} pipelines", shaders.len());
    // the keys are no finer than the sources: no two pipelines have the same text
    let sources: BTreeSet<String> = shaders.iter().map(|&shader| compose(shader).source).collect();
    assert_eq!(sources.len(), shaders.len());
}
