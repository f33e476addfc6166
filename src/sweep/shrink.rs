//! A violation made small: fewer keys, heads and dims, features off one by one, while it stays a violation.

use attnproof_cases::case::{Case, FillKind, default_scale};
use attnproof_cases::script::parse_script;
use attnproof_oracle::{BiasOrder, Causal, Elem, Granularity, Shape};

use super::draw::{Drawn, Story, with_blocks};

/// Cases tried at most.
const TRIES: usize = 400;

/// The smallest case found that `violates` still accepts; `drawn` itself if none does.
pub fn shrink(drawn: Drawn, violates: &mut dyn FnMut(&Drawn) -> bool) -> Drawn {
    let mut best = drawn;
    let mut tries = 0;
    'again: loop {
        for smaller in candidates(&best) {
            tries += 1;
            if tries > TRIES {
                return best;
            }
            if violates(&smaller) {
                best = smaller;
                continue 'again;
            }
        }
        return best;
    }
}

/// Valid cases that ask less, the boldest first.
fn candidates(drawn: &Drawn) -> Vec<Drawn> {
    let told = stories(&drawn.story).into_iter().map(|story| (drawn.case.clone(), story));
    let cut = cases(&drawn.case).into_iter().map(|case| (case, drawn.story.clone()));
    told.chain(cut)
        .filter_map(|(case, story)| {
            let script = parse_script(&story.text()).ok()?;
            let case = with_blocks(Case { script, ..case }, &story);
            let changed = case != drawn.case;
            (changed && case.validate().is_ok()).then(|| Drawn { case, story, ..drawn.clone() })
        })
        .collect()
}

fn stories(story: &Story) -> Vec<Story> {
    let one = story.clone();
    let shorter = |prompt: usize| {
        let second = story.second.map(|(shared, own)| (shared.min(prompt), own));
        Story { prompt, second, ..story.clone() }
    };
    let prompt = story.prompt;
    let mut stories = vec![
        Story { second: None, ..one.clone() },
        Story { fork: false, ..one.clone() },
        Story { steps: 0, ..one.clone() },
        Story { q_len: 1, ..one.clone() },
        Story { q_len: (story.q_len - 1).max(1), ..one.clone() },
        Story { second: story.second.map(|(shared, own)| (shared, own / 2)), ..one.clone() },
        Story { steps: story.steps.saturating_sub(1), ..one },
    ];
    stories.extend([1, prompt / 4, prompt / 2, prompt * 3 / 4, prompt - 1].map(|n| shorter(n.max(1))));
    stories
}

fn cases(case: &Case) -> Vec<Case> {
    let base = || case.clone();
    let Shape { q_heads, kv_heads, d, dv } = case.shape;
    let group = case.shape.group();
    // a scale that follows d goes on to do so
    let shaped = |shape: Shape| {
        let follows = case.scale == default_scale(d);
        let scale = if follows { default_scale(shape.d) } else { case.scale };
        Case { shape, scale, ..base() }
    };
    let none = [Granularity::None; 2];
    let mut cases = vec![
        shaped(Shape { q_heads: 1, kv_heads: 1, ..case.shape }),
        shaped(Shape { q_heads: group, kv_heads: 1, ..case.shape }),
        shaped(Shape { q_heads: kv_heads, ..case.shape }),
        shaped(Shape { q_heads: q_heads / 2, ..case.shape }),
        shaped(Shape { q_heads: q_heads - group, kv_heads: kv_heads - 1, ..case.shape }),
    ];
    cases.extend(
        [16, 32, d / 2].map(|d| shaped(Shape { d, ..case.shape })).into_iter().filter(|c| c.shape.d < d),
    );
    cases.extend(
        [4, 16, dv / 2].map(|dv| shaped(Shape { dv, ..case.shape })).into_iter().filter(|c| c.shape.dv < dv),
    );
    cases.extend([
        Case { sinks: false, ..base() },
        Case { alibi: false, ..base() },
        Case { softcap: None, ..base() },
        Case { window: None, release: false, ..base() },
        Case { release: false, ..base() },
        Case { causal: Causal::BottomRight, ..base() },
        Case { bias_order: BiasOrder::CapThenAlibi, ..base() },
        Case { splits: None, split_tokens: None, ..base() },
        Case { first_block: 0, slot_pad: 0, ..base() },
        Case { kv: Elem::F32, k_scale: none[0], v_scale: none[1], ..base() },
        Case { k_scale: none[0], v_scale: none[1], ..base() },
        Case { scale: default_scale(d), ..base() },
        Case { fill: FillKind::Plain, ..base() },
        Case { block_size: 16, split_tokens: None, ..base() },
    ]);
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::draw::draw;

    #[test]
    fn what_does_not_matter_goes() {
        let drawn = (0..).map(|index| draw(1, index, 512, false));
        let rich = |drawn: &Drawn| drawn.case.sinks && drawn.case.alibi && drawn.story.prompt > 100;
        let drawn = drawn.into_iter().find(rich).expect("such a case is drawn");
        let name = drawn.case.name.clone();
        let small = shrink(drawn, &mut |d| d.case.sinks && d.story.prompt >= 5);
        assert_eq!((small.story.prompt, small.story.lengths().len(), small.story.q_len), (5, 1, 1));
        assert_eq!(small.case.shape, Shape { q_heads: 1, kv_heads: 1, d: 4, dv: 4 });
        assert!(small.case.sinks && !small.case.alibi && small.case.fill == FillKind::Plain);
        assert_eq!(small.case.name, name, "inputs are keyed by it");
        small.case.validate().expect("a valid case");
    }

    #[test]
    fn what_cannot_shrink_stays() {
        let drawn = draw(1, 4, 512, false);
        assert_eq!(shrink(drawn.clone(), &mut |_| false), drawn);
    }
}
