// Keys through span records (8 words: logical_start, length, phys_slot, flags, scale_index, scale_stride_log2, group_id,
// check), sorted by logical_start. A cursor moves over the records `entries .. entries_end`; a tile stays in one.
const SPAN_WORDS: u32 = 8u;

// A row through its descriptor: seq_desc u32 [row][8] = {span_begin, span_count, kv_len, q_begin, q_len, ...}.
fn described_row(y: u32, lane: u32) -> RowRef {
    let at = P.rows_at + y * 8u;
    let entries = P.entries_at + table_load_uniform(at, lane) * SPAN_WORDS;
    let entries_end = entries + table_load_uniform(at + 1u, lane) * SPAN_WORDS;
    let len = table_load_uniform(at + 2u, lane);
    let q_begin = table_load_uniform(at + 3u, lane);
    let q_len = table_load_uniform(at + 4u, lane);
    var row = row_of(len, q_begin, q_len);
    row.entries = entries;
    row.entries_end = entries_end;
    return row;
}

// `place` is the slot of the tile's first key. Keys that no record covers are not this row's to read here.
fn tile_open(row: RowRef, cursor: u32, t: u32, end: u32, lane: u32) -> Tile {
    var at = cursor;
    while (at < row.entries_end) {
        let start = table_load_uniform(at, lane);
        let length = table_load_uniform(at + 1u, lane);
        if (start + length > t) {
            let first = max(t, start);
            if (first >= end) {
                break;
            }
            let slot = table_load_uniform(at + 2u, lane) + (first - start);
            return Tile(first, min(TILE, min(end, start + length) - first), slot, at);
        }
        at += SPAN_WORDS;
    }
    return Tile(t, 0u, 0u, at);
}

fn tile_slot(row: RowRef, tile: Tile, lane: u32) -> u32 {
    return tile.place + lane;
}
