//! [`Simulator`] and [`Control`]: the loaded driver, as a test holds it.

use crate::{
    calls::Call,
    config::{Code, Config},
    control::{ControlTable, Kernel, Live, SYMBOL},
    hazard::Hazard,
};
use libloading::{Library, Symbol};
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The file, as cargo names it. Never `libcuda.so`.
const FILE: &str = "libfake_cuda.so";

/// The loaded driver. A process has one, so whoever holds this is alone with it. Other threads
/// of the test get a copy of its [`Control`].
#[derive(Debug)]
pub struct Simulator {
    control: Control,
    _alone: MutexGuard<'static, ()>,
}

/// What can be asked of the loaded driver.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    table: &'static ControlTable,
}

impl Deref for Simulator {
    type Target = Control;
    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Simulator {
    /// Loads the driver, once per process and before cudarc looks for one, waits until nobody else
    /// holds it, and resets it to these settings.
    ///
    /// # Panics
    /// When the library is not where cargo puts it.
    #[must_use]
    pub fn start(config: Config) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let control = Control { table: table() };
        (control.table.reset)();
        control.configure(config);
        Simulator { control, _alone: alone }
    }

    /// Where the driver is: beside the test, or in the `deps` folder of an example or program.
    ///
    /// # Panics
    /// When it is in none of them.
    #[must_use]
    pub fn library() -> PathBuf {
        let program = std::env::current_exe().expect("a test knows where it is");
        let folders = program.ancestors().skip(1).take(2);
        let mut places =
            folders.flat_map(|folder| [folder.join(FILE), folder.join("deps").join(FILE)]);
        places
            .find(|path| path.is_file())
            .unwrap_or_else(|| panic!("no {FILE} near {}; build fake-cuda", program.display()))
    }
}

impl Control {
    /// Changes the settings, and counts calls for its fault from now on.
    pub fn configure(&self, config: Config) {
        (self.table.configure)(&config);
    }

    /// How often a call was made since the process started.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        (self.table.calls)(call as usize)
    }

    /// How often every call was made.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        Call::ALL.iter().map(|call| self.calls(*call)).sum()
    }

    /// How often the calling thread made any call that `which` picks.
    #[must_use]
    pub fn calls_here(&self, which: impl Fn(Call) -> bool) -> u64 {
        let picked = Call::ALL.iter().filter(|call| which(**call));
        picked.map(|call| (self.table.thread_calls)(*call as usize)).sum()
    }

    /// How many hazards of this kind were seen since the start.
    #[must_use]
    pub fn count(&self, hazard: Hazard) -> u64 {
        (self.table.hazards)(hazard as usize)
    }

    /// The hazards seen since the start, in words; only the first few of many.
    #[must_use]
    pub fn hazards(&self) -> Vec<String> {
        let one = |index| {
            let mut text = [0; 512];
            let length = (self.table.hazard_text)(index, &mut text);
            (length > 0).then(|| String::from_utf8_lossy(&text[..length]).into_owned())
        };
        (0..).map_while(one).collect()
    }

    /// How many of these are alive.
    #[must_use]
    pub fn live(&self, what: Live) -> u64 {
        (self.table.live)(what)
    }

    /// Pinned memory, device memory, events and streams together: 0 when all was given back.
    #[must_use]
    pub fn balance(&self) -> u64 {
        let kinds = [Live::Pinned, Live::Device, Live::Events, Live::Streams];
        kinds.into_iter().map(|what| self.live(what)).sum()
    }

    /// When the last enqueued work is done, on the virtual clock.
    #[must_use]
    pub fn latest_ns(&self) -> u64 {
        (self.table.latest_ns)()
    }

    /// How far the calling thread has come on the virtual clock, by waiting for the device.
    #[must_use]
    pub fn host_ns(&self) -> u64 {
        (self.table.host_ns)()
    }

    /// Enqueues a kernel.
    ///
    /// # Errors
    /// The device is lost, or has no such stream or memory.
    ///
    /// # Safety
    /// `user` must suit `body`, and be good until the stream has come to the kernel.
    pub unsafe fn launch(&self, kernel: &Kernel) -> Result<(), Code> {
        match (self.table.launch)(kernel) {
            Code::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Waits for the device by `cuCtxSynchronize`, as a program would on the calling thread.
    ///
    /// # Errors
    /// The device is lost, or the thread has no context.
    pub fn synchronize(&self) -> Result<(), Code> {
        match (self.table.synchronize)() {
            Code::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    /// Says that the host is about to write to pinned memory, which the driver cannot see.
    pub fn host_write(&self, values: &[f32]) {
        (self.table.host_write)(values.as_ptr() as usize, size_of_val(values));
    }
}

fn table() -> &'static ControlTable {
    static TABLE: OnceLock<&'static ControlTable> = OnceLock::new();
    TABLE.get_or_init(|| load(&Simulator::library()))
}

fn load(path: &Path) -> &'static ControlTable {
    type Control = extern "C" fn() -> &'static ControlTable;
    // SAFETY: the library is ours; loading it runs nothing of our own.
    let library = unsafe { Library::new(path) };
    let library = library.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // SAFETY: the symbol is `fake_cuda_control`, of this type, compiled from this source.
    let control: Symbol<'_, Control> = unsafe { library.get(SYMBOL) }.expect("a control table");
    let table = control();
    // The driver stays: cudarc keeps it open too, and its table is static.
    std::mem::forget(library);
    table
}
