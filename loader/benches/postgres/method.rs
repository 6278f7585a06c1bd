//! The methods: who reads which table over how many connections, as a child process does it.

use crate::{
    content::{Content, Sample},
    drain,
    harness::{Failure, child, rounds},
    ours, peers, psql, windows,
    workload::BenchTable,
};
use millstream_loader::{Columns, SourceKind, SourceSettings};
use std::{env, num::NonZeroUsize, path::Path, process::Command};

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The loader, to a panel.
    Panel,
    /// The loader, to record batches of a column per column.
    Wide,
    /// The loader, to record batches of one packed column.
    Packed,
    /// The loader, to a panel that an epoch's windows are copied from.
    Epoch,
    /// Nobody: the bytes are thrown away.
    Drain,
    Psql,
    /// Another library, by its name in `peers.py`.
    Peer(&'static str),
}

/// What the server says is there.
pub(crate) struct Truths {
    pub(crate) table: Content,
    /// In the first batches of an epoch, where anybody asks for those.
    pub(crate) windows: Content,
}

/// One way to read one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) reader: Reader,
    pub(crate) table: BenchTable,
    pub(crate) connections: NonZeroUsize,
}

pub(crate) const TWO: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not zero");

impl Method {
    pub(crate) const fn new(reader: Reader, table: BenchTable, connections: NonZeroUsize) -> Self {
        Method { reader, table, connections }
    }

    pub(crate) const fn sorted(reader: Reader) -> Self {
        Method::new(reader, BenchTable::Sorted, TWO)
    }

    /// Has it run by a child process, and checks what that read.
    pub(crate) fn measure(
        self,
        url: &str,
        python: Option<&Path>,
        truths: &Truths,
    ) -> Result<Sample, Failure> {
        let sample: Sample = child::answer(&mut self.command(url, python)?)?;
        let tells = matches!(self.reader, Reader::Panel | Reader::Epoch | Reader::Peer(_));
        let truth = if self.table == BenchTable::Indexed { &truths.windows } else { &truths.table };
        if tells && !sample.content.is_whole() {
            return Err("does not tell what it read".into());
        }
        match sample.content.mismatch(truth) {
            Some(mismatch) => Err(format!("read something else: {mismatch}").into()),
            None => Ok(sample),
        }
    }

    fn command(self, url: &str, python: Option<&Path>) -> Result<Command, Failure> {
        if let Reader::Peer(name) = self.reader {
            let python = python.ok_or("a peer needs a Python to run in")?;
            return peers::command(python, name, url, self);
        }
        let mut command = Command::new(env::current_exe()?);
        command.arg(CHILD).args(self.arguments(url));
        Ok(command)
    }

    /// The arguments that make a child of this program run it.
    fn arguments(self, url: &str) -> [String; 4] {
        let reader = CHILDREN.iter().find(|(_, reader)| *reader == self.reader);
        let name = reader.map_or("", |(name, _)| name);
        [name.into(), url.into(), self.table.name().into(), self.connections.to_string()]
    }
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let reader = match self.reader {
            Reader::Panel => "ours",
            Reader::Wide => "ours, wide record batches",
            Reader::Packed => "ours, packed record batches",
            Reader::Epoch => "ours, an epoch's windows",
            Reader::Drain => "floor: raw drain",
            Reader::Psql => "floor: psql",
            Reader::Peer(name) => name,
        };
        let table = if self.table == BenchTable::Shuffled { ", shuffled table" } else { "" };
        let connections = if self.connections.get() == 1 { ", one connection" } else { "" };
        format!("{reader}{table}{connections}")
    }

    fn is_peer(self) -> bool {
        matches!(self.reader, Reader::Peer(_))
    }
}

/// What a child's command line begins with.
pub(crate) const CHILD: &str = "--child";

/// The names of readers on the command line of a child.
const CHILDREN: [(&str, Reader); 6] = [
    ("panel", Reader::Panel),
    ("wide", Reader::Wide),
    ("packed", Reader::Packed),
    ("epoch", Reader::Epoch),
    ("drain", Reader::Drain),
    ("psql", Reader::Psql),
];

/// What a child process was started for.
pub(crate) struct Job {
    url: String,
    method: Method,
}

impl Job {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Job, Failure> {
        let arguments: Vec<String> = arguments.collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let [reader, url, table, connections] = words[..] else {
            return Err(format!("no such child: {words:?}").into());
        };
        let reader = CHILDREN.iter().find(|(name, _)| *name == reader);
        let table = BenchTable::ALL.into_iter().find(|other| other.name() == table);
        let (Some((_, reader)), Some(table)) = (reader, table) else {
            return Err(format!("no such child: {words:?}").into());
        };
        let method = Method::new(*reader, table, connections.parse()?);
        Ok(Job { url: url.to_owned(), method })
    }

    /// Does the work and prints what it took as a line of JSON.
    pub(crate) fn run(self) -> Result<(), Failure> {
        println!("{}", serde_json::to_string(&read(&self.url, self.method)?)?);
        Ok(())
    }
}

fn read(url: &str, method: Method) -> Result<Sample, Failure> {
    let settings = SourceSettings {
        kind: SourceKind::Postgres,
        url: Some(url.to_owned()),
        table: Some(method.table.name().to_owned()),
        connections: method.connections,
        cache: String::new(),
        ..SourceSettings::default()
    };
    let required = vec!["close_pct".to_owned()];
    match method.reader {
        Reader::Panel => ours::panel(settings, required),
        Reader::Wide => ours::batches(&settings, Columns::Wide),
        Reader::Packed => ours::batches(&settings, Columns::Packed),
        Reader::Epoch => windows::run(settings, required),
        Reader::Drain => drain::run(url, &settings, &required),
        Reader::Psql => psql::run(url, method.table),
        Reader::Peer(name) => Err(format!("{name} is not a child of this program").into()),
    }
}
