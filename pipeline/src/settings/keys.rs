//! Unknown keys are errors, and the error names the nearest key there is.

use super::shape::Shape;
use millstream_data::{likeness, nearest_by};

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
    let nearest = nearest_by(all.iter().map(|(path, _)| path), |known| {
        likeness(key, known).max(likeness(&last(key), &last(known)) - 0.02)
    });
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "pipeline.toml lists every setting".to_owned(),
    }
}

fn is_below(key: &str, path: &str) -> bool {
    key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
}
