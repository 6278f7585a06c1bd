//! How rows are cut into tasks: many small COPY commands, so that a slow one holds up nobody.
//!
//! A plain table is cut by ranges of its pages, each of which the server reads by itself. What has
//! no pages (queries, views, partitioned and foreign tables), or has an index that serves a filter
//! better than a scan of the table would, is cut by ranges of the series or the time. Where to cut
//! is counted, not guessed, so ranges hold equal numbers of rows, and what a task then gives can
//! be checked against the count. All of it happens in the snapshot that will be read.

use super::{
    copy::CopyColumns,
    key_ranges::{self, KeyRanges},
    select::{Relation, Select, quote_value},
};
use crate::{LoadError, SourceSettings};
use millstream_postgres::Session;
use serde_json::Value;

/// Bytes of a panel that a task should give: small enough to share out, large enough that a COPY
/// command costs nothing beside it.
const TASK_BYTES: [u64; 2] = [4 << 20, 64 << 20];

/// Tasks per connection, where their sizes allow it.
const TASKS_PER_CONNECTION: u64 = 32;

/// Cost, in the planner's units, of sending one value; a plan's own cost leaves that out. About
/// what a row costs to look at.
const COST_PER_VALUE: f64 = 0.01;

/// COPY commands that together give every row once.
#[derive(Debug)]
pub(crate) struct Tasks {
    pub(crate) list: Vec<Task>,
    /// How many connections can share them.
    pub(crate) connections: usize,
    /// About how many rows they give.
    pub(crate) rows: Option<u64>,
}

/// One COPY command.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) copy: String,
    /// Rows to make room for.
    pub(crate) room: u64,
    /// Rows that were counted, where they were.
    pub(crate) counted: Option<u64>,
}

/// What the catalogue says about the pages of a table.
struct TablePages {
    /// Whether ranges of page numbers mean a part of it, and the server finds them at once.
    can_cut: bool,
    count: u64,
    bytes: u64,
}

/// What the planner says about a SELECT.
#[derive(Debug)]
struct Estimate {
    cost: f64,
    rows: f64,
    /// Kinds of all nodes, the topmost first.
    nodes: Vec<String>,
    /// Whether an expression asks for the time, or for anything at random.
    asks_outside: bool,
}

/// Cuts the rows into tasks.
pub(super) fn plan_tasks(
    session: &mut Session,
    relation: &Relation,
    columns: &CopyColumns,
    select: &Select,
    settings: &SourceSettings,
) -> Result<Tasks, LoadError> {
    let connections = settings.connections.get();
    let pages = match &settings.table {
        Some(_) => table_pages(session, relation)?,
        None => None,
    };
    let estimate = explain(session, &select.sql(), relation)?;
    let one = Ok(Tasks::one(select, estimate.rows as u64));
    let bytes = estimate.rows * row_bytes(columns) as f64;
    let small = bytes < TASK_BYTES[0] as f64 && estimate.cost < 1e4;
    let say_one = |session: &Session, why: &str| {
        if connections > 1 && !small {
            let place = &relation.place;
            session.warn(format!("{place} is read over one connection and not over {connections}: {why}; set source.connections = 1 to be told no more"));
        }
    };
    if estimate.may_differ() {
        say_one(
            session,
            "with a LIMIT, a window function, now() and the like it need not give the same rows to each",
        );
        return one;
    }
    if let Some(pages) = pages.filter(|pages| pages.can_cut)
        // Nodes below a scan would be run once for each range, and need not give the same.
        && estimate.nodes == ["Seq Scan"]
    {
        return Ok(by_pages(&pages, &estimate, select, row_bytes(columns), connections));
    }
    // The transaction of a foreign server is another one for each of our connections, and so is
    // what it sees: only one of them may ask, and only once.
    if estimate.has("Foreign Scan") {
        say_one(session, "connections share no snapshot of a foreign table");
    }
    if estimate.has("Foreign Scan") || small || connections == 1 {
        return one;
    }
    by_ranges(session, relation, columns, select, &estimate, connections)
}

/// Bytes of a row in the panel.
fn row_bytes(columns: &CopyColumns) -> u64 {
    12 + 4 * columns.width() as u64
}

impl Tasks {
    /// All rows at once.
    fn one(select: &Select, expected: u64) -> Self {
        let task = Task { copy: select.copy_sql(), room: 0, counted: None };
        Tasks { list: vec![task], connections: 1, rows: Some(expected) }
    }
}

impl Estimate {
    fn has(&self, kind: &str) -> bool {
        self.nodes.iter().any(|node| node == kind)
    }

    /// Whether the rows may be others when the same SELECT runs again in the same snapshot, over
    /// another connection: what picks among rows that it takes for equal, and what asks for the
    /// time, which a snapshot does not hold, or for a random number. What is hidden in functions is
    /// left to the count.
    fn may_differ(&self) -> bool {
        let picks =
            ["Limit", "Sample Scan", "WindowAgg", "Unique"].iter().any(|kind| self.has(kind));
        picks || self.asks_outside
    }
}

/// Ranges of pages. The last has no end: pages that were added since belong to it, whoever may see
/// rows there.
fn by_pages(
    pages: &TablePages,
    estimate: &Estimate,
    select: &Select,
    row_bytes: u64,
    connections: usize,
) -> Tasks {
    let known = estimate.rows as u64;
    let bytes = known.saturating_mul(row_bytes).max(pages.count * pages.bytes / 2);
    let count = count(bytes, connections as u64).min(pages.count.max(1));
    // Room for a third more than the average: rows are not spread evenly.
    let room = known / count * 4 / 3;
    let select = select.only();
    let list: Vec<Task> = (0..count)
        .map(|task| {
            let border = |task: u64| task * pages.count / count;
            let from = (task > 0).then(|| format!("ctid >= '({},0)'::tid", border(task)));
            let to = (task + 1 < count).then(|| format!("ctid < '({},0)'::tid", border(task + 1)));
            Task { copy: select.with(from).with(to).copy_sql(), room, counted: None }
        })
        .collect();
    let connections = connections.min(list.len());
    Tasks { list, connections, rows: Some(known) }
}

/// Into how many tasks to cut so many bytes.
fn count(bytes: u64, connections: u64) -> u64 {
    let [least, most] = TASK_BYTES;
    let each = (bytes / (connections * TASKS_PER_CONNECTION)).clamp(least, most);
    bytes.div_ceil(each).max(1)
}

/// Ranges of the series, or of the time where that cuts more evenly.
fn by_ranges(
    session: &mut Session,
    relation: &Relation,
    columns: &CopyColumns,
    select: &Select,
    estimate: &Estimate,
    connections: usize,
) -> Result<Tasks, LoadError> {
    let row_bytes = row_bytes(columns);
    let mut best: Option<KeyRanges> = None;
    let keys = columns.series.iter().map(|(name, _)| name).chain([&columns.time.0]);
    for key in keys {
        let wanted = |total: u64| count(total * row_bytes, connections as u64);
        let ranges = key_ranges::count(session, relation, select, key, &wanted)?;
        if best.as_ref().is_none_or(|best| ranges.largest() < best.largest()) {
            best = Some(ranges);
        }
        // Ranges of a good key are about as large as they should be.
        let even = |ranges: &KeyRanges| {
            ranges.largest() <= 2 * ranges.total().div_ceil(wanted(ranges.total()))
        };
        if best.as_ref().is_some_and(even) {
            break;
        }
    }
    let ranges = best.expect("there is always the time");
    let total = ranges.total();
    let out = total as f64 * columns.fields() as f64 * COST_PER_VALUE;
    let cost = estimate.cost + out;
    let ranges = affordable(session, relation, select, cost, out, &ranges, connections)?;
    let list: Vec<Task> = ranges
        .conditions()?
        .into_iter()
        .map(|(condition, counted)| Task {
            copy: select.with(condition).copy_sql(),
            room: counted,
            counted: Some(counted),
        })
        .collect();
    let connections = connections.min(list.len());
    Ok(Tasks { list, connections, rows: Some(total) })
}

/// Merges ranges until all of them together cost the server little more than one read would. A
/// range that no index serves makes it scan everything; a few such scans in parallel still pay,
/// since most of the work is in sending.
fn affordable(
    session: &mut Session,
    relation: &Relation,
    select: &Select,
    whole: f64,
    out: f64,
    ranges: &KeyRanges,
    connections: usize,
) -> Result<KeyRanges, LoadError> {
    let sizes = [ranges.len(), 4 * connections, connections];
    for (size, excess) in sizes.into_iter().zip([1.2, 1.5, 0.8 * connections as f64]) {
        if size < 2 || size > ranges.len() {
            continue;
        }
        let merged = ranges.merged(size);
        let middle = merged.conditions()?.swap_remove(merged.len() / 2).0;
        let range = explain(session, &select.with(middle).sql(), relation)?;
        if merged.len() as f64 * range.cost + out <= excess * whole {
            return Ok(merged);
        }
    }
    Ok(ranges.merged(1))
}

/// Looks the pages of a table up; `None` when the name is not in the catalogue under that spelling.
fn table_pages(
    session: &mut Session,
    relation: &Relation,
) -> Result<Option<TablePages>, LoadError> {
    let name = quote_value(&relation.sql)?;
    let sql = format!(
        "SELECT c.relkind, c.relhassubclass, coalesce(a.amname, ''), \
         CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) ELSE 0 END, \
         current_setting('block_size'), current_setting('server_version_num'), \
         has_table_privilege(c.oid, 'SELECT') \
         FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam WHERE c.oid = to_regclass({name})"
    );
    let rows = session.text_rows(&sql, &format!("look up {}", relation.place))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let text = |column: usize| row[column].as_deref().unwrap_or_default();
    let number = |column: usize| text(column).parse::<f64>().unwrap_or_default();
    let plain = matches!(text(0), "r" | "m") && text(1) == "f" && text(2) == "heap";
    // Before version 14 the server would read the whole table for each range. The right to some of
    // the columns is none to page numbers.
    let can_cut = plain && number(5) >= 140_000.0 && text(6) == "t";
    let bytes = (number(4) as u64).max(1);
    Ok(Some(TablePages { can_cut, count: number(3) as u64 / bytes, bytes }))
}

fn explain(
    session: &mut Session,
    select: &str,
    relation: &Relation,
) -> Result<Estimate, LoadError> {
    let sql = format!("EXPLAIN (VERBOSE, FORMAT JSON) {select}");
    let rows = session.text_rows(&sql, &format!("plan reading {}", relation.place))?;
    let text = rows.first().and_then(|row| row.first()?.clone()).unwrap_or_default();
    let plan: Value = serde_json::from_str(&text).unwrap_or_default();
    let top = &plan[0]["Plan"];
    let mut nodes = Vec::new();
    collect_nodes(top, &mut nodes);
    const OUTSIDE: [&str; 7] =
        ["now()", "CURRENT_", "LOCALTIME", "_timestamp()", "timeofday()", "random()", "_uuid()"];
    let asks_outside = OUTSIDE.iter().any(|name| text.contains(name));
    let number = |key: &str| top[key].as_f64().unwrap_or_default();
    Ok(Estimate { cost: number("Total Cost"), rows: number("Plan Rows"), nodes, asks_outside })
}

fn collect_nodes(node: &Value, kinds: &mut Vec<String>) {
    if let Some(kind) = node["Node Type"].as_str() {
        kinds.push(kind.to_owned());
    }
    node["Plans"].as_array().into_iter().flatten().for_each(|node| collect_nodes(node, kinds));
}
