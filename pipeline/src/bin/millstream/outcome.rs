//! [`Code`]: how a command that did not fail ends.

use millstream::ErrorKind;

/// The exit code of a command that did what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Done,
    /// It found that a device or a server is missing.
    Device,
    /// It was asked to stop, and saved what there was.
    Interrupted,
}

impl Code {
    /// Of a line that ended by itself, or did not.
    pub(crate) fn of(interrupted: bool) -> Self {
        if interrupted { Code::Interrupted } else { Code::Done }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Code::Done => 0,
            Code::Device => ErrorKind::Device.exit_code(),
            Code::Interrupted => ErrorKind::Interrupted.exit_code(),
        }
    }
}
