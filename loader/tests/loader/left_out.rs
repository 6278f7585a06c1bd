//! Kinds of source that a build may be without: each is known, and refused by what it needs.

use crate::support::load;
use millstream_loader::{SourceKind, SourceSettings};

#[test]
fn a_kind_that_was_left_out_is_refused_by_the_feature_that_it_needs() {
    for (kind, is_built) in
        [("parquet", cfg!(feature = "parquet")), ("postgres", cfg!(feature = "postgres"))]
    {
        let settings = format!("kind = {kind:?}\npath = \"none\"\nwhere = \"a > 1\"");
        let settings: SourceSettings = toml::from_str(&settings).unwrap();
        let error = load(&settings).unwrap_err();
        let expected = format!(
            "source.kind = {kind:?} is not part of this build; build with the cargo feature {kind:?}"
        );
        assert!(error.is_setting());
        assert_eq!(error.to_string() == expected, !is_built, "{error}");
    }
}

#[test]
fn a_condition_is_refused_by_every_kind_that_would_ignore_it_and_shows_no_password() {
    let settings = SourceSettings {
        kind: SourceKind::Csv,
        url: Some("postgres://ann:hush@db/d".to_owned()),
        filter: Some("a > 1".to_owned()),
        ..SourceSettings::default()
    };
    let error = load(&settings).unwrap_err().to_string();
    assert!(error.contains("source.where = \"a > 1\" cannot be used"), "{error}");
    let shown = settings.without_password();
    assert!(!shown.url.unwrap().contains("hush"));
}
