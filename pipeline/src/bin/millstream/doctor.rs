//! `millstream doctor`: what is here, what is missing, and what to do about it.

use crate::{
    cli::Common,
    messages::{print, print_json},
    outcome::Code,
};
use millstream::{Error, Finding, Overrides, Settings, examine};

pub(crate) fn doctor(common: &Common) -> Result<Code, Error> {
    let overrides = Overrides::of_process(&common.set);
    let findings = examine(&Settings::load(common.config.as_deref(), &overrides)?);
    if common.json {
        print_json(&serde_json::json!({ "findings": findings }))?;
    } else {
        let line = |f: &Finding| {
            let verdict = if f.ok { "ok" } else { "missing" };
            format!("{verdict:<8} {:<14} {}\n", f.what, f.found)
        };
        print(&findings.iter().map(line).collect::<String>())?;
    }
    let lacks = findings.iter().any(|finding| finding.asked && !finding.ok);
    Ok(if lacks { Code::Device } else { Code::Done })
}
