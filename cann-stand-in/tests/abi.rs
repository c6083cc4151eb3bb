//! The safe layer of bisheng-sys and the device on it, against the stand-in: what works, what is refused, and that
//! everything is given back.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bisheng_sys::{
    Cann, CannError, Communicator, Context, DeviceMemory, Event, RootInfo, Runtime, Stream,
};
use cann_stand_in::control::{self, Fault, Opened};
use megamoe_device::{AscendDevice, Device, DeviceError, Kernel, KernelCores, KernelLibrary};

/// A CANN in a folder. Its library has one state, so tests go one by one.
struct Stand {
    home: tempfile::TempDir,
    opened: Opened,
    _alone: MutexGuard<'static, ()>,
}

impl Stand {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let home = tempfile::tempdir().unwrap();
        control::install(home.path()).unwrap();
        let opened = Opened::new();
        opened.fail(None);
        Self {
            home,
            opened,
            _alone: alone,
        }
    }

    fn cann(&self) -> Arc<Cann> {
        Cann::load_from(Some(&self.home.path().join("lib64"))).unwrap()
    }

    fn context(&self, device: u32) -> Arc<Context> {
        Context::open(&Runtime::start(&self.cann()).unwrap(), device).unwrap()
    }

    fn fail(&self, function: &str, nth: u64, code: i64) {
        let function = function.to_owned();
        self.opened.fail(Some(&Fault {
            function,
            nth,
            code,
        }));
    }

    #[track_caller]
    fn assert_clean(&self) {
        let report = self.opened.report();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn memory_keeps_what_is_written_and_refuses_what_is_outside() {
    let stand = Stand::new();
    {
        let context = stand.context(3);
        assert_eq!(context.device(), 3);
        let mut memory = DeviceMemory::new(&context, 100).unwrap();
        memory.write(10, &[1, 2, 3]).unwrap();
        let mut bytes = [0; 3];
        memory.read(10, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3]);
        memory.read(9, &mut bytes).unwrap();
        assert_eq!(
            bytes[1..],
            [1, 2],
            "new memory is not zero, and neighbours stay"
        );
        for (offset, len) in [(98, 3), (101, 0), (u64::MAX, 1)] {
            let error = memory.read(offset, &mut vec![0; len]).unwrap_err();
            assert!(
                matches!(error, CannError::Range { size: 100, .. }),
                "{error}"
            );
        }
        memory.write(100, &[]).unwrap();
        let nothing = DeviceMemory::new(&context, 0).unwrap();
        assert!(nothing.is_empty() && nothing.address() != 0);
    }
    stand.assert_clean();
}

#[test]
fn the_runtime_says_what_there_is() {
    let stand = Stand::new();
    {
        let runtime = Runtime::start(&stand.cann()).unwrap();
        assert_eq!(runtime.version().unwrap(), [9, 0, 0]);
        assert_eq!(runtime.num_devices().unwrap(), 16);
        let context = Context::open(&runtime, 15).unwrap();
        assert_eq!(context.soc_name().unwrap(), "Ascend910B1");
        let cores = context.cores().unwrap();
        assert_eq!((cores.num_aic, cores.num_aiv), (24, 48));
        let (free, total) = context.memory().unwrap();
        assert!(0 < free && free <= total);
        assert_ne!(context.sync_address().unwrap(), 0);
        let error = Context::open(&runtime, 16).unwrap_err().to_string();
        for part in [
            "aclrtSetDevice",
            "107001",
            "ACL_ERROR_RT_INVALID_DEVICEID",
            "no device 16",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
    stand.assert_clean();
}

/// Another library of the process may have started the runtime: it is used, and left running.
#[test]
fn a_runtime_that_runs_is_shared() {
    let stand = Stand::new();
    let cann = stand.cann();
    let first = Runtime::start(&cann).unwrap();
    drop(Runtime::start(&cann).unwrap());
    assert_eq!(first.num_devices().unwrap(), 16, "it still runs");
    drop(first);
    stand.assert_clean();
}

#[test]
fn libraries_are_closed_and_opened_again() {
    let stand = Stand::new();
    for round in 0..3 {
        let context = stand.context(round);
        let stream = Stream::new(&context).unwrap();
        stream.synchronize(Duration::from_secs(5)).unwrap();
        drop((stream, context));
        stand.assert_clean();
    }
}

#[test]
fn events_tell_the_time_between_them() {
    let stand = Stand::new();
    {
        let context = stand.context(0);
        let stream = Stream::new(&context).unwrap();
        let (start, end) = (Event::new(&context).unwrap(), Event::new(&context).unwrap());
        let error = end.since(&start).unwrap_err().to_string();
        assert!(
            error.contains("ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID"),
            "{error}"
        );
        start.record(&stream).unwrap();
        stream.synchronize(Duration::from_secs(5)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        end.record(&stream).unwrap();
        stream.synchronize(Duration::from_secs(5)).unwrap();
        assert!(end.since(&start).unwrap() >= Duration::from_millis(2));
    }
    stand.assert_clean();
}

/// Joins all ranks of a communicator in threads, and lets each do something with its own.
fn with_ranks(
    stand: &Stand,
    num_ranks: u32,
    body: impl Fn(u32, &Arc<Context>, &Communicator) + Sync,
) {
    let runtime = Runtime::start(&stand.cann()).unwrap();
    let root = RootInfo::new(&Context::open(&runtime, 0).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..num_ranks {
            let (runtime, root, body) = (&runtime, &root, &body);
            scope.spawn(move || {
                let context = Context::open(runtime, rank).unwrap();
                let comm = Communicator::join(&context, num_ranks, root, rank).unwrap();
                assert_eq!((comm.rank(), comm.num_ranks()), (rank, num_ranks));
                body(rank, &context, &comm);
            });
        }
    });
}

#[test]
fn ranks_see_each_others_windows_and_meet_at_barriers() {
    let stand = Stand::new();
    for num_ranks in [1, 2, 8] {
        with_ranks(&stand, num_ranks, |rank, context, comm| {
            let stream = Stream::new(context).unwrap();
            let windows = comm.windows(&stream).unwrap();
            assert_eq!(windows.bytes, 200 << 20, "the default");
            assert_eq!(windows.addresses.len(), num_ranks as usize);
            comm.clear_window(&windows, 4096).unwrap();
            comm.barrier(&stream).unwrap();
            stream.synchronize(Duration::from_secs(20)).unwrap();
            // In this process the windows are host memory: what a kernel would do is done by hand.
            let next = (rank + 1) % num_ranks;
            let word = |owner: u32| {
                let address = windows.addresses[owner as usize] + 64;
                // SAFETY: an aligned word of a window that is mapped as long as the communicator lives.
                unsafe { &*(address as *const std::sync::atomic::AtomicU32) }
            };
            word(next).fetch_add(rank + 100, std::sync::atomic::Ordering::AcqRel);
            comm.barrier(&stream).unwrap();
            stream.synchronize(Duration::from_secs(20)).unwrap();
            let before = (rank + num_ranks - 1) % num_ranks;
            let got = word(rank).load(std::sync::atomic::Ordering::Acquire);
            assert_eq!(
                got,
                before + 100,
                "a window starts as zeros, once it is cleared"
            );
            let error = comm.clear_window(&windows, windows.bytes + 1).unwrap_err();
            assert!(matches!(error, CannError::Range { .. }), "{error}");
            comm.barrier(&stream).unwrap();
            stream.synchronize(Duration::from_secs(20)).unwrap();
        });
        stand.assert_clean();
    }
}

#[test]
fn one_process_can_make_all_ranks_at_once() {
    let stand = Stand::new();
    {
        let runtime = Runtime::start(&stand.cann()).unwrap();
        let contexts: Vec<_> = (0..4)
            .map(|d| Context::open(&runtime, d).unwrap())
            .collect();
        let comms = Communicator::all(&runtime, &contexts).unwrap();
        let ranks: Vec<_> = comms.iter().map(|c| (c.rank(), c.num_ranks())).collect();
        assert_eq!(ranks, [(0, 4), (1, 4), (2, 4), (3, 4)]);
        let streams: Vec<_> = contexts.iter().map(|c| Stream::new(c).unwrap()).collect();
        for (comm, stream) in comms.iter().zip(&streams) {
            comm.barrier(stream).unwrap();
        }
        for stream in &streams {
            stream.synchronize(Duration::from_secs(20)).unwrap();
        }
        drop(comms);
        stand.fail("HcclCommInitAll", 1, 4);
        let error = Communicator::all(&runtime, &contexts)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("HcclCommInitAll") && error.contains("HCCL_E_INTERNAL"),
            "{error}"
        );
    }
    stand.assert_clean();
}

/// A barrier that one rank does not come to ends in a timeout that can be told from other errors.
#[test]
fn waiting_for_a_rank_that_does_not_come_ends() {
    let stand = Stand::new();
    with_ranks(&stand, 2, |rank, context, comm| {
        let stream = Stream::new(context).unwrap();
        if rank == 0 {
            comm.barrier(&stream).unwrap();
            let error = stream.synchronize(Duration::from_millis(30)).unwrap_err();
            assert!(error.is_timeout(), "{error}");
            assert!(
                error
                    .to_string()
                    .contains("ACL_ERROR_RT_STREAM_SYNC_TIMEOUT"),
                "{error}"
            );
        }
    });
    stand.assert_clean();
}

fn device(stand: &Stand, deadline: Duration) -> AscendDevice {
    let context = stand.context(0);
    let kernels = KernelLibrary::open(&control::library()).unwrap();
    AscendDevice::new(&context, 0, &kernels, deadline).unwrap()
}

fn kernel(name: &'static str) -> Kernel {
    unsafe extern "C" fn never(_args: *mut u8) {}
    Kernel {
        name,
        cores: KernelCores::Mix,
        entry: never,
        checked: None,
    }
}

#[test]
fn a_launch_that_can_not_be_is_refused() {
    let stand = Stand::new();
    {
        let device = device(&stand, Duration::from_secs(5));
        assert_eq!(device.soc().num_aic, 24);
        let args = device.alloc(8).unwrap();
        // SAFETY: none of these runs.
        let launch =
            |kernel: &Kernel, blocks| unsafe { device.launch(kernel, blocks, args.address()) };
        for blocks in [0, 25] {
            let error = launch(&kernel("megamoe_gmm"), blocks).unwrap_err();
            assert!(
                matches!(error, DeviceError::Launch { max: 24, .. }),
                "{error}"
            );
        }
        let error = launch(&kernel("no_such_kernel"), 1)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("launch_no_such_kernel") && error.contains("libcann_stand_in"),
            "{error}"
        );
        device.synchronize().unwrap();
        assert_eq!(device.launch_time(), None, "nothing was launched");
        assert!(device.alloc(8).unwrap().host_bytes_mut().is_none());
    }
    let error = KernelLibrary::open(Path::new("/no/such/kernels.so"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/no/such/kernels.so"), "{error}");
    stand.assert_clean();
}

#[test]
fn a_function_that_is_missing_is_named() {
    let stand = Stand::new();
    // A library that is opened, but has nothing of CANN.
    let other = tempfile::tempdir().unwrap();
    let target = other.path().join("libascendcl.so");
    std::os::unix::fs::symlink(any_library(), target).unwrap();
    let cann = Cann::load_from(Some(other.path())).unwrap();
    let error = Runtime::start(&cann).unwrap_err();
    assert!(
        matches!(
            error,
            CannError::MissingFunction {
                function: "aclInit",
                ..
            }
        ),
        "{error}"
    );
    assert!(
        cann.no_hccl().is_some(),
        "no HCCL beside it is no failure to load"
    );
    stand.assert_clean();
}

/// Some shared library of this process.
fn any_library() -> std::path::PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let mut libraries =
        paths.filter(|path| path.contains("/libgcc_s.so") || path.contains("/libc.so"));
    libraries.next().expect("a process has a C library").into()
}
