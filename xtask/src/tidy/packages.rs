//! What every package must tell about itself: a description, and for a stage a README; and that
//! `cargo package` can take it as it is.
//!
//! Whether the texts are good is for a reviewer.

use std::path::Path;

use super::Problem;
use crate::workspace::Package;

/// The crates that people use alone, and so meet through their README.
const STAGE_CRATES: [&str; 10] = [
    "millstream-stage",
    "millstream-data",
    "millstream-postgres",
    "millstream-loader",
    "millstream-normalize",
    "millstream-prefetch",
    "millstream-model",
    "millstream-trainer",
    "millstream-predictor",
    "millstream-evaluate",
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
        .extend(packages.iter().filter(|package| package.publish.is_none()).flat_map(unpackable));
    problems
}

/// What keeps a package from being taken out of the workspace: one of ours without a version, a file
/// that lies outside.
fn unpackable(package: &Package) -> Vec<Problem> {
    let problem = |advice| Problem {
        place: format!("package {}", package.name),
        rule: "cargo package",
        advice,
    };
    // Without a version, those that only tests use are left out.
    let ours = package.dependencies.iter().filter(|dependency| {
        dependency.path.is_some()
            && dependency.req == "*"
            && dependency.kind.as_deref() != Some("dev")
    });
    let ours = ours.map(|found| problem(format!("name a version of {} too", found.name)));
    let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
    let outside = package.targets.iter().filter(|target| !target.src_path.starts_with(folder));
    let outside =
        outside.map(|found| problem(format!("{} is made of a file outside of it", found.name)));
    ours.chain(outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Target};

    fn rules_broken(name: &str, description: Option<&str>, has_readme: bool) -> Vec<&'static str> {
        let package = Package {
            name: name.into(),
            description: description.map(Into::into),
            manifest_path: "some/Cargo.toml".into(),
            ..Package::default()
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

    #[test]
    fn a_package_stands_alone() {
        let check = |path: &str, req: &str, kind: Option<&str>, source: &str, expected: &[&str]| {
            let kind = kind.map(Into::into);
            let (name, path) = ("other".to_owned(), (!path.is_empty()).then(|| path.into()));
            let dependency = Dependency { name, req: req.into(), path, kind };
            let target = Target { name: "build-script".into(), src_path: source.into() };
            let package = Package {
                name: "some".into(),
                manifest_path: "some/Cargo.toml".into(),
                dependencies: vec![dependency],
                targets: vec![target],
                ..Package::default()
            };
            let found: Vec<_> = unpackable(&package).into_iter().map(|p| p.advice).collect();
            assert_eq!(found, expected);
        };
        check("other", "^0.1", None, "some/build.rs", &[]);
        check("other", "*", Some("dev"), "some/build.rs", &[]);
        check("", "*", None, "some/build.rs", &[]);
        check("other", "*", None, "some/build.rs", &["name a version of other too"]);
        check("", "1", None, "build.rs", &["build-script is made of a file outside of it"]);
    }
}
