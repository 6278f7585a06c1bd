//! Unknown keys are errors, and the error names the nearest key there is.

use super::shape::Shape;

/// What somebody who wrote `key`, which there is not, may have meant.
pub(super) fn hint(key: &str) -> String {
    let all = Shape::settings().paths();
    let parent = key.rsplit_once('.').map_or("", |(parent, _)| parent);
    if let Some((leaf, _)) = all.iter().find(|(path, shape)| {
        !matches!(shape, Shape::Section(_)) && (parent == path || is_below(parent, path))
    }) {
        return format!("`{leaf}` is a setting itself and has no keys below it");
    }
    // A key in the wrong section is as common as a misspelt one: compare last names too.
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |known: &str| {
        let whole = strsim::jaro_winkler(key, known);
        let name = strsim::jaro_winkler(&last(key), &last(known));
        whole.max(name - 0.02)
    };
    let known = all.iter().map(|(path, _)| (path, likeness(path)));
    match known.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        Some((best, likeness)) if likeness > 0.8 => format!("did you mean `{best}`?"),
        _ => "pipeline.toml lists every setting".to_owned(),
    }
}

fn is_below(key: &str, path: &str) -> bool {
    key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
}
