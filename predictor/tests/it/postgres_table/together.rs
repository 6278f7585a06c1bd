//! Others at the same time: who writes too, who holds a lock, who ends the connection.

use super::place::{Place, forecasts, refusal, text, written};
use millstream_predictor::PostgresTableError;
use std::{sync::Barrier, thread};

/// Each writes all rows, again and again, from before there is a table. They take turns.
#[test]
fn two_who_write_at_once_leave_no_mixture() {
    let place = Place::start();
    for round in 0..6 {
        if round == 3 {
            place.run("DROP TABLE f");
        }
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for writer in 0..4 {
                let (place, barrier) = (&place, &barrier);
                scope.spawn(move || {
                    let value = (round * 4 + writer) as f32;
                    let rows = forecasts(0..3000, value);
                    let table = place.table("f", &format!("run {writer}"), "");
                    let mut sink = table.open(&rows.schema()).unwrap();
                    sink.write(&rows).unwrap();
                    barrier.wait();
                    sink.finish().unwrap();
                });
            }
        });
        let found = "SELECT count(*), count(DISTINCT y_forecast), count(DISTINCT run), \
                     count(DISTINCT created_at) FROM f";
        assert_eq!(place.text(found), "3000 1 1 1");
    }
}

#[test]
fn a_table_that_somebody_holds_is_not_waited_for_for_ever() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    let mut other = place.client();
    let mut held = other.transaction().unwrap();
    held.execute("DELETE FROM f WHERE step = 1", &[]).unwrap();
    // Readers see what there is meanwhile.
    assert_eq!(place.text("SELECT count(*) FROM f"), "30");
    let options = "&options=-c%20lock_timeout%3D50";
    let line = refusal(place.write_as("r", options, &forecasts(0..30, 2.0)));
    assert!(line.contains("table \"f\" was locked by somebody else"), "{line}");
    held.rollback().unwrap();
    assert_eq!(place.text("SELECT count(*), sum(y_forecast) FROM f"), "30 30");
    place.write_as("r", options, &forecasts(0..30, 2.0)).unwrap();
}

/// Ends all connections that write forecasts; says how many.
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                         WHERE application_name = 'millstream'";

#[test]
fn a_connection_that_is_ended_ends_in_an_error_and_nothing_written() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    let rows = forecasts(0..3000, 2.0);
    let mut client = place.client();
    for at_the_end in [false, true] {
        let mut sink = place.table("f", "r", "").open(&rows.schema()).unwrap();
        sink.write(&rows).unwrap();
        assert_eq!(text(&mut client, TERMINATE), "1");
        let failed = match at_the_end {
            true => sink.finish().map(drop),
            // Until the buffers between here and there are full.
            false => (0..10_000).try_for_each(|_| sink.write(&rows)),
        };
        let line = refusal(failed);
        assert!(line.contains("did not take the rows of the forecasts"), "{line}");
        assert_eq!(text(&mut client, "SELECT count(*), sum(y_forecast) FROM f"), "30 30");
    }
    // A connection is made anew for the rows, so one that ended before them is no matter.
    let mut sink = place.table("f", "r", "").open(&rows.schema()).unwrap();
    text(&mut client, TERMINATE);
    sink.write(&rows).unwrap();
    sink.finish().unwrap();
    assert_eq!(text(&mut client, "SELECT count(*), sum(y_forecast) FROM f"), "3000 6000");
}

/// Whoever waits for a lock is told to stop.
#[test]
fn a_wait_for_the_server_can_be_called_off() {
    let place = Place::start();
    place.write(&forecasts(0..30, 1.0)).unwrap();
    let mut other = place.client();
    let mut held = other.transaction().unwrap();
    held.batch_execute("LOCK TABLE f").unwrap();
    let rows = forecasts(0..30, 2.0);
    // The table that is locked cannot be looked at either, but that it is there can.
    let (table, hold) = place.table("f", "r", "").with_hold();
    let mut client = place.client();
    let error = thread::scope(|scope| {
        let writer = scope.spawn(|| written(table, &[&rows]).unwrap_err());
        let waits = "SELECT count(*) FROM pg_stat_activity \
                     WHERE application_name = 'millstream' AND wait_event_type = 'Lock'";
        while text(&mut client, waits) != "1" {}
        drop(hold);
        writer.join().unwrap()
    });
    assert!(error.downcast_ref::<PostgresTableError>().unwrap().is_interrupted(), "{error}");
    drop(held);
    drop(other);
    assert_eq!(place.text("SELECT count(*), sum(y_forecast) FROM f"), "30 30");
}

#[test]
fn a_stop_before_the_end_writes_nothing() {
    let place = Place::start();
    let rows = forecasts(0..30, 2.0);
    let (table, hold) = place.table("f", "r", "").with_hold();
    let mut sink = table.open(&rows.schema()).unwrap();
    sink.write(&rows).unwrap();
    drop(hold);
    let error = sink.finish().unwrap_err();
    assert!(error.downcast_ref::<PostgresTableError>().unwrap().is_interrupted(), "{error}");
    assert_eq!(place.text("SELECT to_regclass('f')"), "-");
}
