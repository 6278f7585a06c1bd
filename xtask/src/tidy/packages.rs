//! What every package must tell about itself: a description, and for a stage a README.
//!
//! Whether the texts are good is for a reviewer.

use std::path::Path;

use super::Problem;
use crate::workspace::Package;

/// The crates that people use alone, and so meet through their README.
const STAGE_CRATES: [&str; 9] = [
    "millstream-stage",
    "millstream-data",
    "millstream-postgres",
    "millstream-loader",
    "millstream-normalize",
    "millstream-prefetch",
    "millstream-model",
    "millstream-trainer",
    "millstream-predictor",
];

/// Checks the packages; `exists` tells whether there is a file at a path.
pub(super) fn check(packages: &[Package], exists: impl Fn(&Path) -> bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let place = || format!("package {}", package.name);
        if package.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
            problems.push(Problem {
                place: place(),
                rule: "description",
                advice: "say in one line of its Cargo.toml what it is for".into(),
            });
        }
        let readme = package.manifest_path.with_file_name("README.md");
        if STAGE_CRATES.contains(&package.name.as_str()) && !exists(&readme) {
            problems.push(Problem {
                place: place(),
                rule: "README",
                advice: "add a README.md beside its Cargo.toml that shows how to use it alone"
                    .into(),
            });
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_broken(name: &str, description: Option<&str>, has_readme: bool) -> Vec<&'static str> {
        let package = Package {
            name: name.into(),
            description: description.map(Into::into),
            manifest_path: "some/Cargo.toml".into(),
            dependencies: Vec::new(),
        };
        let exists = |path: &Path| has_readme && path == Path::new("some/README.md");
        check(&[package], exists).iter().map(|problem| problem.rule).collect()
    }

    #[test]
    fn stages_need_both_and_others_a_description() {
        let none: [&str; 0] = [];
        assert_eq!(rules_broken("millstream-loader", Some("loads"), true), none);
        assert_eq!(rules_broken("millstream-loader", Some("loads"), false), ["README"]);
        assert_eq!(rules_broken("millstream-loader", None, true), ["description"]);
        assert_eq!(rules_broken("xtask", Some("tasks"), false), none);
        assert_eq!(rules_broken("xtask", Some(" "), false), ["description"]);
    }
}
