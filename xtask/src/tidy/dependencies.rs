//! Who may depend on what.
//!
//! The table lists, per package, the workspace crates and the watched libraries it may name in
//! any section of its Cargo.toml. Libraries that are not watched are nobody's business here.

use super::Problem;
use crate::workspace::Package;

/// The packages that must build on a machine without libtorch.
pub(crate) const WITHOUT_LIBTORCH: [&str; 7] = [
    "millstream-stage",
    "millstream-data",
    "millstream-postgres",
    "millstream-loader",
    "millstream-normalize",
    "millstream-prefetch",
    "millstream-evaluate",
];

/// What a loader without its features must not compile.
const LEFT_OUT: [&str; 8] = [
    "millstream-postgres",
    "parquet",
    "postgres",
    "postgres-types",
    "rustls",
    "tokio",
    "tokio-postgres",
    "zstd-sys",
];

/// A library that only some packages may use, with the other names it goes by.
struct Watched {
    name: &'static str,
    packages: &'static [&'static str],
}

const WATCHED: [Watched; 5] = [
    Watched { name: "tch", packages: &["tch", "torch-sys"] },
    Watched { name: "cudarc", packages: &["cudarc"] },
    Watched {
        name: "postgres",
        packages: &["postgres", "postgres-types", "postgres-protocol", "tokio-postgres"],
    },
    Watched { name: "config", packages: &["config"] },
    Watched { name: "anyhow", packages: &["anyhow", "eyre", "color-eyre"] },
];

/// Package, and what it may use: names of [`WATCHED`] libraries and of workspace packages.
const TABLE: [(&str, &[&str]); 14] = [
    ("millstream-stage", &[]),
    ("millstream-data", &["millstream-stage"]),
    ("millstream-postgres", &["postgres"]),
    // Its tests and benches talk to their server by themselves.
    (
        "millstream-loader",
        &["millstream-stage", "millstream-data", "millstream-postgres", "postgres"],
    ),
    ("millstream-normalize", &["millstream-stage", "millstream-data"]),
    ("fake-cuda", &[]),
    ("fault-injector", &[]),
    ("millstream-prefetch", &["millstream-stage", "millstream-data", "cudarc", "fake-cuda"]),
    // It needs stage for its tests: batches lie in its pools.
    ("millstream-model", &["millstream-data", "millstream-stage", "tch"]),
    ("millstream-trainer", &["millstream-stage", "millstream-data", "millstream-model", "tch"]),
    (
        "millstream-predictor",
        &[
            "millstream-stage",
            "millstream-data",
            "millstream-model",
            "millstream-postgres",
            "tch",
            "postgres",
        ],
    ),
    ("millstream-evaluate", &["millstream-data"]),
    (
        "millstream",
        &[
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
            "fake-cuda",
            "fault-injector",
            "config",
            "postgres",
            "tch",
            "anyhow",
        ],
    ),
    ("xtask", &["anyhow"]),
];

/// Packages that are for tests: what ships must not have them.
const TESTS_ONLY: [&str; 2] = ["fake-cuda", "fault-injector"];

const TABLE_FILE: &str = "xtask/src/tidy/dependencies.rs";

/// Compares the direct dependencies of all packages with the table.
pub(super) fn check(packages: &[Package]) -> Vec<Problem> {
    let members: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    packages.iter().flat_map(|package| check_package(package, &members)).collect()
}

fn check_package(package: &Package, members: &[&str]) -> Vec<Problem> {
    let place = || format!("package {}", package.name);
    let Some((_, allowed)) = TABLE.iter().find(|(name, _)| *name == package.name) else {
        return vec![Problem {
            place: place(),
            rule: "dependencies",
            advice: format!("not in the table of who may use what; add a row in {TABLE_FILE}"),
        }];
    };
    let mut problems = Vec::new();
    for dependency in &package.dependencies {
        let for_tests = dependency.kind.as_deref() == Some("dev");
        if TESTS_ONLY.contains(&dependency.name.as_str()) && !for_tests {
            problems.push(Problem {
                place: place(),
                rule: "dependencies",
                advice: format!("{} is for tests only: a dev-dependency", dependency.name),
            });
        }
        let Some(name) = restricted_name(&dependency.name, members) else { continue };
        if !allowed.contains(&name) {
            let may = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            problems.push(Problem {
                place: place(),
                rule: "dependencies",
                advice: format!(
                    "must not depend on {}; of the restricted crates it may use: {may}",
                    dependency.name
                ),
            });
        }
    }
    problems
}

/// The name under which the table knows a dependency; `None` for an unrestricted one.
fn restricted_name<'a>(dependency: &'a str, members: &[&str]) -> Option<&'a str> {
    if members.contains(&dependency) {
        return Some(dependency);
    }
    let watched = WATCHED.iter().find(|watched| watched.packages.contains(&dependency))?;
    Some(watched.name)
}

/// Looks for libtorch in the output of `cargo tree --prefix none`.
pub(super) fn check_tree(package: &str, tree: &str) -> Vec<Problem> {
    find_in_tree(package, tree, "no libtorch", &["tch", "torch-sys"])
}

/// Looks for what the loader's features stand for in the tree of the loader without them.
pub(super) fn check_featureless(tree: &str) -> Vec<Problem> {
    let package = "millstream-loader --no-default-features";
    find_in_tree(package, tree, "features", &LEFT_OUT)
}

fn find_in_tree(package: &str, tree: &str, rule: &'static str, unwanted: &[&str]) -> Vec<Problem> {
    let mut names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let problem = names.find(|name| unwanted.contains(name)).map(|name| Problem {
        place: format!("package {package}"),
        rule,
        advice: format!("reaches {name}; `cargo tree -p {package} -i {name}` shows through whom"),
    });
    problem.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|name| Dependency { name: (*name).into(), ..Dependency::default() });
        Package { name: name.into(), dependencies: dependencies.collect(), ..Package::default() }
    }

    /// Checks one package in a workspace that also has all others.
    fn check_one(name: &str, dependencies: &[&str]) -> Vec<String> {
        let mut packages: Vec<_> =
            TABLE.iter().filter(|row| row.0 != name).map(|row| package(row.0, &[])).collect();
        packages.push(package(name, dependencies));
        check(&packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_table_allows_and_what_nobody_watches_is_fine() {
        let none: [String; 0] = [];
        assert_eq!(
            check_one(
                "millstream-loader",
                &["millstream-stage", "millstream-data", "millstream-postgres", "arrow"]
            ),
            none
        );
        assert_eq!(
            check_one("millstream-trainer", &["millstream-stage", "millstream-data", "torch-sys"]),
            none
        );
        assert_eq!(check_one("millstream", &["millstream-trainer", "config", "anyhow"]), none);
        assert_eq!(check_one("xtask", &["clap", "zip"]), none);
    }

    #[test]
    fn a_stage_that_knows_another_stage_is_found() {
        assert_eq!(
            check_one(
                "millstream-normalize",
                &["millstream-stage", "millstream-data", "millstream-loader"]
            ),
            ["package millstream-normalize: dependencies: must not depend on millstream-loader; \
              of the restricted crates it may use: millstream-stage, millstream-data"]
        );
    }

    #[test]
    fn every_restricted_library_is_found_where_it_does_not_belong() {
        for (name, dependency) in [
            ("millstream-stage", "cudarc"),
            ("millstream-loader", "config"),
            ("millstream-normalize", "tokio-postgres"),
            ("millstream-prefetch", "torch-sys"),
            ("millstream-trainer", "anyhow"),
            ("millstream-predictor", "color-eyre"),
            ("millstream", "cudarc"),
            ("xtask", "millstream-stage"),
        ] {
            assert_eq!(check_one(name, &[dependency]).len(), 1, "{name} with {dependency}");
        }
    }

    #[test]
    fn the_simulated_driver_is_a_dev_dependency_or_a_problem() {
        let problems = check_one("millstream-prefetch", &["fake-cuda"]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("for tests only"), "{problems:?}");
        let mut prefetch = package("millstream-prefetch", &["fake-cuda"]);
        prefetch.dependencies[0].kind = Some("dev".into());
        assert_eq!(check(&[prefetch, package("fake-cuda", &[])]), []);
    }

    #[test]
    fn a_package_without_a_row_is_found() {
        let problems = check_one("millstream-extra", &[]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("add a row in xtask/src/tidy/dependencies.rs"));
    }

    #[test]
    fn a_library_of_a_feature_is_found_where_the_feature_is_off() {
        assert_eq!(check_featureless("millstream-loader v0.1.0\ntokio-like v1.0.0\n"), []);
        for name in LEFT_OUT {
            let problems = check_featureless(&format!("millstream-loader v0.1.0\n{name} v1.0.0\n"));
            assert!(problems[0].advice.contains(name), "{problems:?}");
        }
    }

    #[test]
    fn libtorch_is_found_anywhere_in_a_tree() {
        let clean = "millstream-loader v0.1.0\narrow v60.0.0\ntch-like v1.0.0 (*)\n";
        assert_eq!(check_tree("millstream-loader", clean), []);
        let dirty = format!("{clean}torch-sys v0.26.0\n");
        let problems = check_tree("millstream-loader", &dirty);
        assert_eq!(
            problems[0].to_string(),
            "package millstream-loader: no libtorch: reaches torch-sys; \
             `cargo tree -p millstream-loader -i torch-sys` shows through whom"
        );
    }
}
