// virtual-contiguous: seq_desc u32 [row][8] = {span_begin, span_count, kv_len, q_begin, q_len, ...} and span records.
fn row_open(y: u32, lane: u32) -> RowRef {
    return described_row(y, lane);
}
