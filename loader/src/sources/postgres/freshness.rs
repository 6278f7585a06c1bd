//! Whether rows that were read from a table are still what it holds: a cheap look, not a read.
//!
//! What a look sees is kept with the rows. The *context* says what names and literals of the
//! settings mean: the server's own identifier where it may be asked for, the database, the role, the
//! search path and the time zone, which a connection string does not tell. Rows of another context
//! are rows of something else. The *changes* are what the server's statistics say: rows inserted,
//! updated and deleted, and the files that hold the table, which change when it is emptied or
//! rewritten. They are looked at before the snapshot is taken, so that a change in between is seen
//! as one later.
//!
//! Later, the rows are counted and the newest time is asked for, under the same conditions, and with
//! a limit to the time it may take. Where that suffices, it is exact for rows that came or went, and
//! the statistics add what was changed in place. A server writes these down up to ten seconds late,
//! and a standby not at all. Where the table alone does not decide which of its rows are read, because
//! a condition asks elsewhere or a policy of the table does, statistics of the table say nothing.

use super::{
    copy::{CopyColumns, fields::TimeField, key::KeyField},
    interruptible::interruptible,
    select::{self, Relation, Select, quote_value},
    server,
    where_condition::asks_elsewhere,
};
use crate::{
    LoadError, SourceSettings,
    filter::RowFilter,
    progress::ProgressReporter,
    refresh::{Freshness, ReadRows},
    request::Request,
    time,
};
use millstream_postgres::{Column, Server, Session, quote_name};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long the server may take to count the rows, and then to find the newest.
const COUNT_TIMEOUTS: [&str; 2] = ["2s", "1s"];

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What a table is, as far as a look at it tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableState {
    context: Context,
    /// Names and types.
    columns: Vec<String>,
    /// `None` for what has no statistics, queries, views and foreign tables, and where these are not
    /// all that decides which rows are read.
    changes: Option<Changes>,
}

/// What names and literals mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Context {
    /// `None` where it may not be asked for.
    system: Option<String>,
    database: Option<String>,
    role: Option<String>,
    search_path: Option<String>,
    time_zone: Option<String>,
}

/// What happened to a table since its statistics began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Changes {
    inserted: String,
    updated: String,
    deleted: String,
    files: String,
}

/// Looks at what the settings name, outside of any transaction. What the server does not tell is
/// left out.
pub(super) fn table_state(
    session: &mut Session,
    settings: &SourceSettings,
) -> Result<TableState, LoadError> {
    let relation = select::relation(settings)?;
    let mut ask = |sql: &str| -> Vec<Option<String>> {
        let rows = session.text_rows(sql, "say what it is");
        rows.ok().and_then(|mut rows| rows.pop()).unwrap_or_default()
    };
    let system = ask("SELECT system_identifier FROM pg_control_system()");
    let context = ask("SELECT (SELECT oid FROM pg_database WHERE datname = current_database()), \
         current_user, current_setting('search_path'), current_setting('TimeZone')");
    let of = |row: &[Option<String>], column: usize| row.get(column).cloned().flatten();
    let changes = match (&settings.table, &settings.filter) {
        (None, _) => None,
        (Some(_), Some(condition)) if asks_elsewhere(condition) => None,
        (Some(_), _) => changes(&ask(&statistics(&relation)?)),
    };
    let statement = session.describe(
        &format!("SELECT * FROM {} LIMIT 0", relation.sql),
        &format!("describe {}", relation.place),
    )?;
    let column = |column: &Column| format!("{} {}", column.name(), column.type_());
    Ok(TableState {
        context: Context {
            system: of(&system, 0),
            database: of(&context, 0),
            role: of(&context, 1),
            search_path: of(&context, 2),
            time_zone: of(&context, 3),
        },
        columns: statement.columns().iter().map(column).collect(),
        changes,
    })
}

/// Asks for the statistics of a table and of all that belong to it, and whether they tell all. Of
/// policies, only those of the table that is named apply, and not to every role.
fn statistics(relation: &Relation) -> Result<String, LoadError> {
    let name = quote_value(&relation.sql)?;
    Ok(format!(
        "WITH RECURSIVE part (oid) AS (SELECT to_regclass({name})::oid \
           UNION SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.oid) \
         SELECT sum(s.n_tup_ins), sum(s.n_tup_upd), sum(s.n_tup_del), \
           md5(string_agg(c.oid || '/' || c.relfilenode, ',' ORDER BY c.oid)), \
           bool_and(c.relkind IN ('r', 'm', 'p')) AND current_setting('track_counts') = 'on' \
             AND NOT pg_is_in_recovery() AND NOT row_security_active(to_regclass({name})::oid) \
         FROM part JOIN pg_class c ON c.oid = part.oid \
         LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid"
    ))
}

fn changes(row: &[Option<String>]) -> Option<Changes> {
    let [inserted, updated, deleted, Some(files), Some(known)] = row else { return None };
    let number = |count: &Option<String>| count.clone().unwrap_or_default();
    (known == "t").then(|| Changes {
        inserted: number(inserted),
        updated: number(updated),
        deleted: number(deleted),
        files: files.clone(),
    })
}

/// Finds out whether a table still holds the rows that were read.
///
/// # Errors
/// When the server cannot be asked, and [`LoadError::Interrupted`].
pub(super) fn freshness(
    request: &Request<'_>,
    read: &ReadRows,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Freshness, LoadError> {
    let Request { settings, warnings, .. } = *request;
    let Ok(then) = TableState::deserialize(&read.state) else {
        return Ok(Freshness::Elsewhere("what was noted of it cannot be read".to_owned()));
    };
    let server = server(settings, warnings)?.with_connect_timeout(CONNECT_TIMEOUT);
    interruptible(server, reporter, |server| ask(server, settings, read, &then))
}

fn ask(
    server: &Server,
    settings: &SourceSettings,
    read: &ReadRows,
    then: &TableState,
) -> Result<Freshness, LoadError> {
    let mut session = Session::new(server, server.connect()?);
    // Somebody may hold the table: that must not hold us up.
    session.run(&format!("SET statement_timeout = '{}'", COUNT_TIMEOUTS[0]), "limit the time")?;
    let now = table_state(&mut session, settings)?;
    if let Some(what) = then.context.differs(&now.context) {
        return Ok(Freshness::Elsewhere(what));
    }
    if then.columns != now.columns {
        return Ok(Freshness::Changed("its columns are others now".to_owned()));
    }
    session.start(None, None)?;
    let counted = Counted::of(&mut session, settings)?;
    Ok(counted.compare(read, then, &now))
}

impl Context {
    /// What is not as it was; what was not told, then or now, does not count.
    fn differs(&self, now: &Context) -> Option<String> {
        let pairs = [
            ("the server", &self.system, &now.system),
            ("the database", &self.database, &now.database),
            ("the role", &self.role, &now.role),
            ("the search path", &self.search_path, &now.search_path),
            ("the time zone", &self.time_zone, &now.time_zone),
        ];
        let other = |(_, then, now): &&(_, &Option<String>, &Option<String>)| matches!((then, now), (Some(then), Some(now)) if then != now);
        pairs.iter().find(other).map(|(what, ..)| format!("{what} is another one now"))
    }
}

/// How many rows there are, and the latest time, as far as they were found out in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    rows: Option<u64>,
    newest: Option<i64>,
}

impl Counted {
    fn of(session: &mut Session, settings: &SourceSettings) -> Result<Self, LoadError> {
        let relation = select::relation(settings)?;
        let action = format!("count the rows of {}", relation.place);
        session.run(&format!("SET LOCAL statement_timeout = '{}'", COUNT_TIMEOUTS[0]), &action)?;
        let describe = format!("SELECT * FROM {} LIMIT 0", relation.sql);
        let statement = session.describe(&describe, &action)?;
        let column = statement.columns().iter().find(|column| column.name() == settings.time);
        let Some(field) = column.and_then(|column| TimeField::of(column.type_())) else {
            return Ok(Counted::default());
        };
        // The server would compare them as text, so the loader compares them itself.
        if field == TimeField::Text && (settings.from.is_some() || settings.to.is_some()) {
            return Ok(Counted::default());
        }
        let keys = CopyColumns {
            place: relation.place.clone(),
            series: settings.series_column().map(|name| (name.to_owned(), KeyField::Text)),
            time: (settings.time.clone(), field),
            values: Vec::new(),
        };
        let select = Select::new(&relation, &keys, settings, &RowFilter::new(settings)?)?;
        let newest = newest(field, &quote_name(&settings.time));
        for (columns, timeout) in
            [format!("count(*), {newest}"), format!("NULL, {newest}")].iter().zip(COUNT_TIMEOUTS)
        {
            let limit = format!("SAVEPOINT counted; SET LOCAL statement_timeout = '{timeout}'");
            session.run(&limit, &action)?;
            match session.text_rows(&select.sql_of(columns), &action) {
                Ok(rows) => return Ok(Counted::read(rows.first().map_or(&[], Vec::as_slice))),
                Err(error) if error.is_cancelled() => {
                    session.run("ROLLBACK TO SAVEPOINT counted", &action)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Counted::default())
    }

    fn read(row: &[Option<String>]) -> Self {
        let text = |column: usize| row.get(column)?.as_deref();
        Counted {
            rows: text(0).and_then(|count| count.parse().ok()),
            newest: text(1).and_then(time::parse).map(|(time, _)| time),
        }
    }

    fn compare(self, read: &ReadRows, then: &TableState, now: &TableState) -> Freshness {
        let mut other = Vec::new();
        if let Some(newest) = self.newest.filter(|newest| *newest != read.newest) {
            let (now, then) = (read.kind.format(newest), read.kind.format(read.newest));
            other.push(format!("its newest is {now} beside {then}"));
        }
        if let Some(rows) = self.rows.filter(|rows| *rows != read.rows) {
            other.push(format!("it has {rows} beside {} rows", read.rows));
        }
        if !other.is_empty() {
            return Freshness::Changed(other.join(" and "));
        }
        let changed = || Freshness::Changed("rows of it were changed or replaced".to_owned());
        match (&then.changes, &now.changes) {
            // Rows that came in are counted; of those that are not, others may have come.
            (Some(then), Some(now)) if self.rows.is_some() => {
                let in_place = |changes: &Changes| {
                    (changes.updated.clone(), changes.deleted.clone(), changes.files.clone())
                };
                if in_place(then) == in_place(now) { Freshness::Same } else { changed() }
            }
            (Some(then), Some(now)) if then == now => Freshness::Same,
            (Some(_), Some(_)) => changed(),
            _ if self.rows.is_some() => Freshness::AsMany,
            _ => Freshness::Unknown,
        }
    }
}

/// Asks for the latest time, in a form that [`time::parse`] reads.
fn newest(field: TimeField, time: &str) -> String {
    match field {
        TimeField::Date | TimeField::Timestamp | TimeField::Integer(_) => format!("max({time})"),
        TimeField::ZonedTimestamp => format!("max({time}) AT TIME ZONE 'UTC'"),
        TimeField::Clock => format!("DATE '1970-01-01' + max({time})"),
        TimeField::Text => "NULL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::TimeKind;

    fn state(changes: Option<[&str; 4]>) -> TableState {
        let context = Context {
            system: None,
            database: None,
            role: Some("ann".to_owned()),
            search_path: None,
            time_zone: None,
        };
        let changes = changes.map(|[inserted, updated, deleted, files]| Changes {
            inserted: inserted.to_owned(),
            updated: updated.to_owned(),
            deleted: deleted.to_owned(),
            files: files.to_owned(),
        });
        TableState { context, columns: Vec::new(), changes }
    }

    fn check(counted: (Option<u64>, Option<i64>), now: Option<[&str; 4]>, expected: &str) {
        let then = state(now.and(Some(["10", "0", "0", "f"])));
        let (kind, state) = (TimeKind::Integer, serde_json::Value::Null);
        let read = ReadRows { rows: 10, newest: 5, kind, state };
        let counted = Counted { rows: counted.0, newest: counted.1 };
        let found = format!("{:?}", counted.compare(&read, &then, &super::tests::state(now)));
        assert!(found.contains(expected), "{found}: expected {expected}");
    }

    #[test]
    fn rows_that_came_or_went_are_told_by_the_count_and_the_rest_by_statistics() {
        let same = Some(["10", "0", "0", "f"]);
        check((Some(10), Some(5)), same, "Same");
        check((Some(10), Some(5)), None, "AsMany");
        check((Some(11), Some(6)), same, "its newest is 6 beside 5 and it has 11 beside 10 rows");
        check((Some(10), Some(5)), Some(["99", "0", "0", "f"]), "Same");
        check((Some(10), Some(5)), Some(["10", "1", "0", "f"]), "changed or replaced");
        check((Some(10), Some(5)), Some(["10", "0", "0", "g"]), "changed or replaced");
        check((None, Some(6)), None, "its newest is 6 beside 5");
        check((None, Some(5)), same, "Same");
        check((None, None), Some(["11", "0", "0", "f"]), "changed or replaced");
        check((None, None), None, "Unknown");
    }

    #[test]
    fn a_context_differs_only_in_what_both_told() {
        let (then, mut now) = (state(None).context, state(None).context);
        now.system = Some("1".to_owned());
        assert_eq!(then.differs(&now), None);
        now.role = Some("bob".to_owned());
        assert_eq!(then.differs(&now).as_deref(), Some("the role is another one now"));
    }
}
