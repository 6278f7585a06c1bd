//! All keys there are: those that `pipeline.toml` names, which a test beside the settings compares
//! with their types.

/// Every key of `pipeline.toml` with its section, also those that have no default.
pub(crate) fn all() -> Vec<String> {
    let (mut section, mut keys) = (String::new(), Vec::new());
    for line in include_str!("../../../pipeline.toml").lines() {
        let line = line.trim_start_matches("# ");
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_start_matches('[').split(']').next().unwrap();
            name.clone_into(&mut section);
        } else if let Some((name, _)) = line.split_once(" = ")
            && !name.contains(|c: char| !c.is_ascii_lowercase() && c != '_')
            && section != "scale.groups"
        {
            keys.push(format!("{section}.{name}"));
        }
    }
    keys
}

#[test]
fn keys_are_found_with_their_sections() {
    let keys = all();
    for key in ["source.where", "source.generate.seed", "split.seed", "train.model_options.hidden"]
    {
        assert_eq!(keys.iter().filter(|found| *found == key).count(), 1, "{key} in {keys:?}");
    }
    assert!(!keys.iter().any(|key| key == "scale.columns"), "{keys:?}");
}
