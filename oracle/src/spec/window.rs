//! The sliding window, and a converter from each convention that libraries use for the same number.

/// The keys a query at position `p` may see: `p - left <= j <= p + right`. Both counts exclude the query's own
/// key; `None` sets no limit on that side. Causal and explicit masks apply as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Window {
    /// Keys before the query's own, `None` for all.
    pub left: Option<u32>,
    /// Keys after the query's own, `None` for all.
    pub right: Option<u32>,
}

impl Window {
    /// `w` keys that include the query's own, none after it: vLLM's `sliding_window`, `local_window_size` of ONNX
    /// Runtime's `GroupQueryAttention`. 0 stands for no window, as it does there.
    pub const fn keys_including_self(w: u32) -> Window {
        match w.checked_sub(1) {
            Some(left) => Window { left: Some(left), right: Some(0) },
            None => Window { left: None, right: None },
        }
    }

    /// `w` keys beside the query's own, `w + 1` in all, none after it: `window_left` of FlashInfer,
    /// `window_size = (w, 0)` of FlashAttention.
    pub const fn keys_beside_self(w: u32) -> Window {
        Window { left: Some(w), right: Some(0) }
    }

    /// Both sides beside the query's own key, -1 (or any negative number) for no limit: `window_size` of
    /// FlashAttention, the window attributes of ONNX `Attention` from opset 25.
    pub const fn sides_beside_self(left: i32, right: i32) -> Window {
        Window { left: non_negative(left), right: non_negative(right) }
    }

    /// cuDNN's diagonal bounds: the left one is exclusive (`j > p - left`, so it counts the query's own key and is
    /// at least 1), the right one inclusive (`j <= p + right`). A left bound of 0 is read as 1.
    pub const fn cudnn_bounds(left: Option<u32>, right: Option<u32>) -> Window {
        let left = match left {
            Some(left) => Some(left.saturating_sub(1)),
            None => None,
        };
        Window { left, right }
    }
}

const fn non_negative(count: i32) -> Option<u32> {
    if count < 0 { None } else { Some(count as u32) }
}
