//! Head-constant: V is constant over the row, so that the output is that constant whatever the weights.

use super::{Asked, LOOSE};

/// The fault that the outputs show. With a sink the output is smaller by a share that depends on the scores.
pub(super) fn says(asked: &Asked<'_>) -> Option<String> {
    let constant = |kv: usize| asked.v(asked.visible.start, kv);
    if let Some(gain) = asked.gain(&constant(asked.kv)) {
        let is_right = (gain - 1.0).abs() <= LOOSE || (asked.sink.is_some() && gain < 1.0);
        return (!is_right).then(|| format!("gain {gain:.4}"));
    }
    let read = asked.other_heads().find(|kv| asked.gain(&constant(*kv)).is_some_and(|gain| gain > 0.0));
    Some(match read {
        Some(kv) => format!("V of KV head {} read as that of {kv}", asked.kv),
        None => "not the V of any one KV head".to_owned(),
    })
}
