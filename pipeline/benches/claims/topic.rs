//! The claims: what is promised, and where it is measured.

use crate::{
    buffers, collate, copies, embedding,
    finding::{Claim, Finding},
    footprint,
    harness::{Failure, rounds::Method},
    hidden_states, loss_reads, normalisation, preparation, queries,
    workload::Size,
};

/// What a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Normalisation,
    Buffers,
    Collate,
    LossReads,
    HiddenStates,
    Embedding,
    Copies,
    Queries,
    Footprint,
    Preparation,
}

impl Topic {
    pub(crate) const ALL: [Topic; 10] = [
        Topic::Normalisation,
        Topic::Buffers,
        Topic::Collate,
        Topic::LossReads,
        Topic::HiddenStates,
        Topic::Embedding,
        Topic::Copies,
        Topic::Queries,
        Topic::Footprint,
        Topic::Preparation,
    ];

    pub(crate) fn claim(self) -> &'static str {
        match self {
            Topic::Normalisation => "parallel normalisation",
            Topic::Buffers => "reused instead of fresh buffers",
            Topic::Collate => "pre-allocated padded collate instead of list and concatenate",
            Topic::LossReads => "one loss read per interval instead of two per batch",
            Topic::HiddenStates => "hidden states reused",
            Topic::Embedding => "segment embedding at once instead of position by position",
            Topic::Copies => "asynchronous instead of blocking copies",
            Topic::Queries => "panel in memory instead of a query per batch",
            Topic::Footprint => "samples per GB, rows instead of windows",
            Topic::Preparation => "preparation per stock",
        }
    }

    pub(crate) fn promised(self) -> &'static str {
        match self {
            Topic::Normalisation => "3–4× on 8 cores",
            Topic::Buffers => "90 % fewer allocations",
            Topic::Collate => "1.5–2×",
            Topic::LossReads => "5–10 %",
            Topic::HiddenStates => "2–4 %",
            Topic::Embedding => "5–10×",
            Topic::Copies => "3–5 %",
            Topic::Queries => "10–30×",
            Topic::Footprint => "more; no figure",
            Topic::Preparation => "1.1 s → 0.255 s (4.3×)",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Topic::Buffers => "% fewer allocations",
            Topic::LossReads | Topic::HiddenStates | Topic::Copies => "% gain",
            Topic::Footprint => "× as many",
            _ => "× as fast",
        }
    }

    pub(crate) fn measure(
        self,
        size: &Size,
        without_postgres: Option<&str>,
    ) -> Result<Claim, Failure> {
        let finding = match self {
            Topic::Normalisation => normalisation::measure(size),
            Topic::Buffers => buffers::measure(size),
            Topic::Collate => collate::measure(size),
            Topic::LossReads => loss_reads::measure(size),
            Topic::HiddenStates => hidden_states::measure(size),
            Topic::Embedding => embedding::measure(size),
            Topic::Copies => copies::measure(),
            Topic::Queries => match without_postgres {
                None => queries::measure(size),
                Some(reason) => {
                    let reason = Some(format!("skipped: {reason}"));
                    Ok(Finding { reason, ..Finding::default() })
                }
            },
            Topic::Footprint => footprint::measure(size),
            Topic::Preparation => preparation::measure(size),
        };
        let finding = finding.map_err(|error| format!("{}: {error}", self.claim()))?;
        Ok(Claim::new(self, finding))
    }
}

impl Method for Topic {
    fn describe(self) -> String {
        self.claim().to_owned()
    }

    fn is_peer(self) -> bool {
        false
    }
}
