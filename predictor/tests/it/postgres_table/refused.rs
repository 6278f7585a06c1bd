//! What a table or a server does not take is said in one line, before anything is forecast where that can be
//! known, and nothing is written.

use super::place::{Place, forecasts, refusal, written};
use millstream_predictor::PostgresTableError;

/// What an error says would mend it.
fn mend(line: &str, mark: &str) -> String {
    line.rsplit_once(mark).unwrap_or_else(|| panic!("{line}")).1.to_owned()
}

/// The table is refused as it is; what the error says mends it, and then it takes rows.
fn check_misfit(columns: &str, expected: &[&str]) {
    let place = Place::start();
    place.run(&format!("CREATE TABLE f ({columns})"));
    let rows = forecasts(0..30, 1.0);
    let line = refusal(place.table("f", "first", "").open(&rows.schema()));
    assert!(line.starts_with("table \"f\" does not fit the forecasts: "), "{line}");
    for part in expected {
        assert!(line.contains(part), "{line} does not say {part}");
    }
    place.run(&mend(&line, "mend it with: "));
    place.write(&rows).unwrap();
    assert_eq!(place.text("SELECT count(*) FROM f"), "30");
}

const WHOSE: &str = "model text, run text, created_at timestamptz";
const KEY: &str = "UNIQUE (series, time, step, model)";

#[test]
fn a_table_that_does_not_fit_is_refused_with_what_mends_it() {
    check_misfit(
        &format!(
            "series text, time date, step int, target_time date, y_forecast real, {WHOSE}, {KEY}"
        ),
        &["it has no column \"y_q0.1\"", "it has no column \"y\"", "ADD COLUMN \"y_q0.1\" real"],
    );
    check_misfit(
        &format!(
            "series text, time timestamp, step smallint, target_time date, y_forecast numeric, \
             \"y_q0.1\" real, y real, {WHOSE}, {KEY}"
        ),
        &[
            "column \"time\" is timestamp without time zone, not date",
            "column \"step\" is smallint, not integer",
            "column \"y_forecast\" is numeric, not real",
        ],
    );
    check_misfit(
        &format!(
            "series text, time date, step int, target_time date, y_forecast real, \
             \"y_q0.1\" real, y real, note text NOT NULL, {WHOSE}"
        ),
        &[
            "column \"note\" must have a value",
            "(\"series\", \"time\", \"step\", \"model\") unique",
        ],
    );
}

/// Keys that `ON CONFLICT` cannot go by.
#[test]
fn a_key_of_another_kind_is_none() {
    let columns = format!(
        "series text, time date, step int, target_time date, y_forecast real, \"y_q0.1\" real, y real, {WHOSE}"
    );
    let unique = "nothing makes (\"series\", \"time\", \"step\", \"model\") unique";
    check_misfit(&format!("{columns}, {KEY} DEFERRABLE"), &[unique]);
    check_misfit(&format!("{columns}, UNIQUE (series, time, step)"), &[unique]);
    check_misfit(&format!("{columns}, UNIQUE (series, time, step, model, run)"), &[unique]);
    let place = Place::start();
    place.run(&format!("CREATE TABLE f ({columns})"));
    place.run("CREATE UNIQUE INDEX ON f (series, time, step, model) WHERE step > 1");
    let rows = forecasts(0..30, 1.0);
    let line = refusal(place.write(&rows));
    assert!(line.contains(unique), "{line}");
    // In another order, with more in it that is no part of the key, it is one.
    place.run("CREATE UNIQUE INDEX ON f (model, step, time, series) INCLUDE (run)");
    place.write(&rows).unwrap();
}

#[test]
fn a_table_may_have_more_and_wider_columns() {
    let place = Place::start();
    place.run(&format!(
        "CREATE TABLE f (id bigserial NOT NULL, note text NOT NULL DEFAULT 'x', more int, \
         number int GENERATED ALWAYS AS IDENTITY, series varchar, time date, step bigint, \
         target_time date, y_forecast double precision, \"y_q0.1\" real, y real, {WHOSE}, {KEY})"
    ));
    place.write(&forecasts(0..30, 0.5)).unwrap();
    place.write_as("second", "", &forecasts(0..40, 0.25)).unwrap();
    assert_eq!(place.text("SELECT count(*), sum(y_forecast), min(note) FROM f"), "40 10 x");
}

#[test]
fn what_is_no_table_is_refused() {
    let place = Place::start();
    place.run("CREATE VIEW f AS SELECT 1 AS x; CREATE SEQUENCE q");
    let rows = forecasts(0..1, 1.0);
    let line = refusal(place.write(&rows));
    assert!(line.contains("\"f\" is a view; name a table"), "{line}");
    let line = refusal(place.table("q", "r", "").open(&rows.schema()));
    assert!(line.contains("\"q\" is no table"), "{line}");
    let line = refusal(place.table("nowhere.f", "r", "").open(&rows.schema()));
    assert!(line.contains("there is no schema \"nowhere\""), "{line}");
}

/// Each right that is missing is named with what grants it, and with all of them it works.
#[test]
fn a_right_that_is_missing_is_named() {
    let place = Place::start();
    place.run(
        "REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
         CREATE ROLE writer LOGIN",
    );
    let rows = forecasts(0..30, 1.0);
    let attempt = |name: &str| written(place.table_of("writer", name, "r", ""), &[&rows]);
    let denied = |name: &str, expected: &str| {
        let error = attempt(name).unwrap_err();
        assert!(error.downcast_ref::<PostgresTableError>().unwrap().is_setting());
        let line = refusal::<()>(Err(error));
        assert!(line.contains(expected), "{line}");
        place.run(&mend(&line, "have it granted: "));
    };
    denied("f", "role \"writer\" may not make temporary tables in database \"postgres\"");
    denied("f", "role \"writer\" may not make table \"f\" in schema \"public\"");
    attempt("f").unwrap();
    place.run("CREATE TABLE g (LIKE f INCLUDING ALL)");
    denied("g", "role \"writer\" may not SELECT, INSERT, UPDATE in table \"g\"");
    attempt("g").unwrap();
    place.run("REVOKE UPDATE ON g FROM writer");
    denied("g", "role \"writer\" may not UPDATE in table \"g\"");
    // A right that is taken away in between is met at the end, and nothing is written.
    let table = place.table_of("writer", "g", "r", "");
    let mut sink = table.open(&rows.schema()).unwrap();
    sink.write(&forecasts(100..200, 1.0)).unwrap();
    place.run("REVOKE INSERT ON g FROM writer");
    let line = refusal(sink.finish());
    assert!(line.contains("permission denied for table g"), "{line}");
    assert_eq!(place.text("SELECT count(*) FROM g"), "30");
}

#[test]
fn a_database_that_takes_no_changes_is_refused_before_anything_is_forecast() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    place.run("ALTER ROLE tester SET default_transaction_read_only = on");
    let rows = forecasts(0..40, 1.0);
    let line = refusal(place.table("f", "r", "").open(&rows.schema()));
    assert!(line.contains("the database is read-only"), "{line}");
}

/// What the server may use runs out at the end, and at the beginning.
#[test]
fn a_server_without_room_is_an_error_and_the_table_as_it_was() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    // Sorting takes files, of which it may have none.
    place.run("ALTER ROLE tester SET temp_file_limit = 0; ALTER ROLE tester SET work_mem = '64kB'");
    let error = place.write(&forecasts(0..20_000, 2.0)).unwrap_err();
    assert!(!error.downcast_ref::<PostgresTableError>().unwrap().is_setting());
    let line = refusal::<()>(Err(error));
    assert!(
        line.contains("the server has no room for the forecasts; nothing was written"),
        "{line}"
    );
    assert!(line.contains("temp_file_limit"), "{line}");
    assert_eq!(place.text("SELECT count(*), sum(y_forecast) FROM f"), "30 30");
    place.run("ALTER ROLE tester RESET ALL");
    place.write(&forecasts(0..20_000, 2.0)).unwrap();
}

#[test]
fn two_forecasts_of_one_thing_are_refused() {
    let place = Place::start();
    let rows = forecasts(0..30, 1.0);
    for table in ["made now", "there"] {
        let line = refusal(written(place.table("f", "r", ""), &[&rows, &forecasts(0..1, 2.0)]));
        assert!(
            line.contains("two forecasts are for the same series, time and step"),
            "{table}: {line}"
        );
        let found = place.text("SELECT coalesce((SELECT 1 FROM pg_class WHERE relname = 'f'), 0)");
        if table == "made now" {
            assert_eq!(found, "0");
            place.write(&rows).unwrap();
        }
    }
    assert_eq!(place.text("SELECT sum(y_forecast) FROM f"), "30");
}

/// Constraints and triggers of the user's own.
#[test]
fn what_the_tables_own_rules_refuse_is_said_and_undone() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    place.run("ALTER TABLE f ADD CONSTRAINT small CHECK (y_forecast < 5)");
    let line = refusal(written(
        place.table("f", "r", ""),
        &[&forecasts(0..20, 2.0), &forecasts(20..21, 9.0)],
    ));
    assert!(line.contains("violates check constraint \"small\""), "{line}");
    assert_eq!(place.text("SELECT count(*), sum(y_forecast) FROM f"), "30 30");
}

/// A trigger that leaves rows out is nothing that PostgreSQL says.
#[test]
fn rows_that_a_trigger_leaves_out_are_missed() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    place.run(
        "CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN IF NEW.step = 1 THEN RETURN NULL; END IF; RETURN NEW; END'; \
         CREATE TRIGGER leave_out BEFORE INSERT ON f FOR EACH ROW EXECUTE FUNCTION leave_out()",
    );
    let line = refusal(written(place.table("f", "r", ""), &[&forecasts(0..40, 2.0)]));
    assert!(line.contains("table \"f\" kept 20 of 40 forecasts"), "{line}");
    assert_eq!(place.text("SELECT count(*), sum(y_forecast) FROM f"), "30 30");
    place.run("ALTER TABLE f DISABLE TRIGGER leave_out");
    place.write(&forecasts(0..40, 2.0)).unwrap();
    assert_eq!(place.text("SELECT count(*), sum(y_forecast) FROM f"), "40 80");
}
