//! A role that may read some of the columns, and no more.

use crate::support::{chain, connect, load, make_wide, rows, server::Server, table};
use millstream_loader::SourceSettings;
use postgres::Client;

/// The same server as a role that may read these columns alone.
fn as_reader(server: &Server, client: &mut Client, name: &str, columns: &str) -> SourceSettings {
    client
        .batch_execute(&format!(
            "DROP ROLE IF EXISTS millstream_test_reader; CREATE ROLE millstream_test_reader LOGIN;
             GRANT SELECT ({columns}) ON {name} TO millstream_test_reader"
        ))
        .unwrap();
    let url = server.url().replace("user=tester", "user=millstream_test_reader");
    let features = ["f01", "f02"].map(str::to_owned).to_vec();
    SourceSettings { url: Some(url), features, ..table(server, name) }
}

#[test]
fn rights_to_the_columns_that_are_asked_for_suffice() {
    let server = Server::with(&Default::default());
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_granted", 200, 600);
    let columns = "symbol, trade_date, close_pct, f01, f02";
    let reader = as_reader(&server, &mut client, "millstream_test_granted", columns);
    let owner = SourceSettings { url: Some(server.url().to_owned()), ..reader.clone() };
    let all = load(&owner).unwrap();
    assert_eq!(all.row_count(), 120_000);
    for connections in [1, 4] {
        let reader =
            SourceSettings { connections: connections.try_into().unwrap(), ..reader.clone() };
        let panel = load(&reader).unwrap();
        assert_eq!(panel.schema(), all.schema());
        assert_eq!(rows(&panel), rows(&all));
        let some =
            SourceSettings { symbols: vec!["S0007".to_owned(), "nobody".to_owned()], ..reader };
        assert_eq!(load(&some).unwrap().row_count(), 600);
    }
    // What is cached is asked for again, and the answer is that it is the same.
    let cache = tempfile::tempdir().unwrap();
    let cached =
        SourceSettings { cache: cache.path().to_str().unwrap().to_owned(), ..reader.clone() };
    assert_eq!(rows(&load(&cached).unwrap()), rows(&load(&cached).unwrap()));
    // What is not granted is said to be so.
    let more = SourceSettings { features: vec!["f03".to_owned()], ..reader };
    let error = chain(&load(&more).unwrap_err());
    assert!(error.contains("permission denied for table millstream_test_granted"), "{error}");
}

#[test]
fn partitions_are_read_by_rights_to_columns_too() {
    let server = Server::with(&Default::default());
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_flat", 50, 100);
    client
        .batch_execute(
            "CREATE TABLE millstream_test_parts (LIKE millstream_test_flat) PARTITION BY LIST (symbol);
             CREATE TABLE millstream_test_parts_1 PARTITION OF millstream_test_parts FOR VALUES IN ('S0001');
             CREATE TABLE millstream_test_parts_2 PARTITION OF millstream_test_parts DEFAULT;
             INSERT INTO millstream_test_parts SELECT * FROM millstream_test_flat",
        )
        .unwrap();
    let columns = "symbol, trade_date, close_pct, f01, f02";
    let reader = as_reader(&server, &mut client, "millstream_test_parts", columns);
    assert_eq!(load(&reader).unwrap().row_count(), 5_000);
}
