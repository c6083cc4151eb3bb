//! Windows in the memory of NPUs: those that HCCL makes peer-visible.
//!
//! Ranks find each other through the world's own windows on the host: rank 0 makes HCCL's root info and hands it to the
//! others. Each rank clears its window before any rank may write into it (the protocol starts from zeros). From then on
//! device code uses the NPUs' windows, while barriers and news of failed ranks stay on the host.

use std::sync::Arc;

use bisheng_sys::{CannError, Communicator, Context, RemoteWindows, RootInfo, Stream};

use crate::layout::WindowSizeError;
use crate::wait::WaitError;
use crate::window::Window;

/// Why ranks did not get windows on NPUs.
#[derive(Debug, thiserror::Error)]
pub enum HcclError {
    /// A call of CANN failed.
    #[error(transparent)]
    Cann(#[from] CannError),
    /// HCCL's windows are too small.
    #[error(transparent)]
    Size(#[from] WindowSizeError),
    /// A rank did not come.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// The windows of all ranks on their NPUs, as one rank sees them. They last as long as the communicator.
#[derive(Debug)]
pub(crate) struct NpuWindows {
    windows: RemoteWindows,
    _communicator: Communicator,
}

impl NpuWindows {
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.windows.addresses
    }
}

impl Window {
    /// Moves the windows of the world onto NPUs: this rank's onto the device of `context`. Every rank does so before
    /// its first launch. Host code can't look into them afterwards.
    ///
    /// # Errors
    /// [`HcclError`] names the call that failed, the rank that did not come, or what to set HCCL_BUFFSIZE to.
    pub fn move_to_npu(&mut self, context: &Arc<Context>) -> Result<(), HcclError> {
        let stream = Stream::new(context)?;
        let mut info = [0; RootInfo::LEN];
        if self.rank() == 0 {
            info.copy_from_slice(RootInfo::new(context)?.as_bytes());
        }
        self.broadcast(0, &mut info)?;
        let root = RootInfo::from_bytes(info);
        let communicator = Communicator::join(context, self.num_ranks(), &root, self.rank())?;
        let windows = communicator.windows(&stream)?;
        self.layout().check_fits(windows.bytes)?;
        communicator.clear_window(&windows, self.layout().required_bytes())?;
        communicator.barrier(&stream)?;
        stream.synchronize(self.deadline())?;
        self.place(NpuWindows {
            windows,
            _communicator: communicator,
        });
        Ok(())
    }
}
