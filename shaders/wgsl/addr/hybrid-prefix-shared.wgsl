// hybrid-prefix-shared: as virtual-contiguous, and groups u32 [group][8] = {span_begin, span_count, logical_start, length,
// member_begin, member_count, parent, level}, members u32. Phase 0 serves each row's private records; phase 1 serves a
// group's shared records once for the query tokens x heads of all its members.
fn row_open(y: u32, lane: u32) -> RowRef {
    if (P.phase == 0u) {
        return described_row(y, lane);
    }
    let at = P.groups_at + y * 8u;
    let first = P.entries_at + table_load_uniform(at, lane) * SPAN_WORDS;
    let end = first + table_load_uniform(at + 1u, lane) * SPAN_WORDS;
    let start = table_load_uniform(at + 2u, lane);
    let length = table_load_uniform(at + 3u, lane);
    let members = P.members_at + table_load_uniform(at + 4u, lane);
    let members_end = members + table_load_uniform(at + 5u, lane);
    let level = table_load_uniform(at + 7u, lane);
    var row = row_of(0u, 0u, 0u);
    row.entries = first;
    row.entries_end = end;
    row.bounds = vec2<u32>(start, start + length);
    row.part = (1u + level) * P.splits;
    row.members = members;
    row.members_end = members_end;
    return row;
}

fn pair_find(row: RowRef, index: u32) -> Pair {
    if (P.phase == 0u) {
        return Pair(index < row.q_len * P.heads_per_unit, row.len, row.q_begin, row.q_len, index);
    }
    var local = index;
    for (var m = row.members; m < row.members_end; m++) {
        let at = P.rows_at + table_load(m) * 8u;
        let q_len = table_load(at + 4u);
        if (local < q_len * P.heads_per_unit) {
            return Pair(true, table_load(at + 2u), table_load(at + 3u), q_len, local);
        }
        local -= q_len * P.heads_per_unit;
    }
    return Pair(false, 0u, 0u, 0u, 0u);
}
