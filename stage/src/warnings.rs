//! [`Warnings`]: what a person must be told about a run that goes on all the same.
//!
//! A warning is part of a result: whoever notices something adds a line, and the same list is shown
//! on the screen, kept with the run and returned with its figures. Who shows it is not known here.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The warnings of a line, shared by all its parts; a line that was said is not said again.
///
/// ```
/// let warnings = millstream_stage::Warnings::default();
/// warnings.warn("column \"volume\" is constant");
/// warnings.clone().warn("column \"volume\" is constant");
/// assert_eq!(warnings.all(), ["column \"volume\" is constant"]);
/// ```
#[derive(Clone, Default)]
pub struct Warnings(Arc<Mutex<Said>>);

/// Is told each line once.
type Listener = Box<dyn FnMut(&str) + Send>;

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    tell: Option<Listener>,
}

impl Warnings {
    /// Warnings that are told at once, each when it is first added.
    #[must_use]
    pub fn telling(tell: impl FnMut(&str) + Send + 'static) -> Self {
        Warnings(Arc::new(Mutex::new(Said { lines: Vec::new(), tell: Some(Box::new(tell)) })))
    }

    /// Adds one line, without a full stop: what was noticed, where, and what to do about it.
    pub fn warn(&self, line: impl Into<String>) {
        let (line, mut said) = (line.into(), self.lock());
        if said.lines.contains(&line) {
            return;
        }
        if let Some(tell) = &mut said.tell {
            tell(&line);
        }
        said.lines.push(line);
    }

    /// All lines so far, in the order they came.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        // A panic elsewhere leaves the list as good as it was.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Warnings").field(&self.lock().lines).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_once_and_kept_in_order() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let warnings = Warnings::telling(move |line| sink.lock().unwrap().push(line.to_owned()));
        for line in ["b", "a", "b"] {
            warnings.warn(line);
        }
        assert_eq!(warnings.all(), ["b", "a"]);
        assert_eq!(*told.lock().unwrap(), ["b", "a"]);
    }
}
