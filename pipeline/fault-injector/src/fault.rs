//! [`Fault`]: how a call goes wrong.

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The process is killed before the call.
    Kill,
    /// This call fails with `ENOSPC`, later ones work.
    NoSpace,
    /// From this call on, whatever takes room on the disk fails with `ENOSPC`.
    Full,
    /// This call fails with `EIO`, later ones work.
    Io,
    /// Half of a write is done, then the process is killed.
    CutAndKill,
    /// Half of a write is done, then the disk is full.
    CutAndFull,
    /// SIGINT arrives before the call, which works.
    Interrupt,
    /// SIGTERM arrives before the call, which works.
    Terminate,
}

impl Fault {
    /// Every fault there is.
    pub const ALL: [Fault; 8] = [
        Fault::Kill,
        Fault::NoSpace,
        Fault::Full,
        Fault::Io,
        Fault::CutAndKill,
        Fault::CutAndFull,
        Fault::Interrupt,
        Fault::Terminate,
    ];

    /// As the library knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::NoSpace => "no-space",
            Fault::Full => "full",
            Fault::Io => "io",
            Fault::CutAndKill => "cut-kill",
            Fault::CutAndFull => "cut-full",
            Fault::Interrupt => "int",
            Fault::Terminate => "term",
        }
    }

    /// Whether it cuts writes, and is the same as another fault for any other call.
    #[must_use]
    pub fn is_cut(self) -> bool {
        matches!(self, Fault::CutAndKill | Fault::CutAndFull)
    }

    /// Whether the process is killed.
    #[must_use]
    pub fn is_kill(self) -> bool {
        matches!(self, Fault::Kill | Fault::CutAndKill)
    }

    /// Whether the process is asked to stop.
    #[must_use]
    pub fn is_signal(self) -> bool {
        matches!(self, Fault::Interrupt | Fault::Terminate)
    }

    /// What the system says of a call that fails this way; `None` where no call fails.
    #[must_use]
    pub fn message(self) -> Option<&'static str> {
        match self {
            Fault::NoSpace | Fault::Full | Fault::CutAndFull => Some("No space left on device"),
            Fault::Io => Some("Input/output error"),
            _ => None,
        }
    }
}
