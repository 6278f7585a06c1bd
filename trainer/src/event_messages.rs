//! What a TensorBoard event file holds: the few messages of its protocol that are written here, with
//! the numbers of their fields as in `tensorboard/compat/proto` (`event`, `summary`, `tensor`).
//!
//! They are written out by hand, so that a build needs no `protoc`. Fields that stay empty are left out.

use prost::{Message, Oneof};

/// One record of the file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub(crate) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(crate) step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    pub(crate) what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum What {
    /// The first record of every file.
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    Session(Session),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(message, optional, tag = "9")]
    pub(crate) metadata: Option<Metadata>,
    #[prost(oneof = "Content", tags = "2, 5, 8")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Content {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
    #[prost(message, tag = "8")]
    Tensor(Texts),
}

/// Counts between limits.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(double, tag = "1")]
    pub(crate) min: f64,
    #[prost(double, tag = "2")]
    pub(crate) max: f64,
    #[prost(double, tag = "3")]
    pub(crate) count: f64,
    #[prost(double, tag = "4")]
    pub(crate) sum: f64,
    #[prost(double, tag = "5")]
    pub(crate) sum_squares: f64,
    /// Where each bucket ends.
    #[prost(double, repeated, packed = "true", tag = "6")]
    pub(crate) limits: Vec<f64>,
    #[prost(double, repeated, packed = "true", tag = "7")]
    pub(crate) buckets: Vec<f64>,
}

/// A tensor without dimensions: one text.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Texts {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) texts: Vec<Vec<u8>>,
}

/// Which part of TensorBoard shows a value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) plugin: Option<Plugin>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Plugin {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// That a run goes on: what was shown of this step and later ones counts no more.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Session {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

impl Session {
    /// `SessionLog.START`.
    pub(crate) const START: i32 = 1;
}

impl Value {
    pub(crate) fn scalar(tag: impl Into<String>, value: f64) -> Self {
        // The protocol has no room for more digits.
        Value { tag: tag.into(), metadata: None, content: Some(Content::Scalar(value as f32)) }
    }

    pub(crate) fn histogram(tag: impl Into<String>, histogram: Histogram) -> Self {
        Value { tag: tag.into(), metadata: None, content: Some(Content::Histogram(histogram)) }
    }

    /// A text, shown as Markdown.
    pub(crate) fn text(tag: impl Into<String>, text: &str) -> Self {
        /// `DataType.DT_STRING`.
        const STRING: i32 = 7;
        let texts = Texts { kind: STRING, texts: vec![text.as_bytes().to_vec()] };
        let metadata = Some(Metadata { plugin: Some(Plugin { name: "text".to_owned() }) });
        Value { tag: tag.into(), metadata, content: Some(Content::Tensor(texts)) }
    }
}
